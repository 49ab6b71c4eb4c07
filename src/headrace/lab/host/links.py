"""The machine's network interfaces, and how fast each says that it is.

A link has two ends, and how much goes over it shows only between them; from one end there is what the driver says. That
is nothing for loopback, which `loopback` measures, and for most links of virtual machines: those are 'not measurable
here'.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.lab.readings.machine import link_bits_per_s

_INTERFACES: Final = Path("/sys/class/net")
_LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    interface: str
    is_up: bool
    bits_per_s: int | None  # None where the driver does not say.

    @property
    def mb_per_s(self) -> float | None:
        """Of bits on the wire; payload is some percent less. MB are 10^6 bytes."""
        return None if self.bits_per_s is None else self.bits_per_s / 8e6

    def to_json(self) -> dict[str, Any]:
        return {"interface": self.interface, "is_up": self.is_up, "bits_per_s": self.bits_per_s}


def find_links(interfaces: Path = _INTERFACES) -> list[Link]:
    """All but loopback; none where the system does not tell."""
    if not interfaces.is_dir():
        return []
    names = sorted(each.name for each in interfaces.iterdir() if each.is_dir() and each.name != _LOOPBACK)
    return [
        Link(
            interface=name,
            is_up=_state(interfaces / name) == "up",
            bits_per_s=link_bits_per_s(name, interfaces=interfaces),
        )
        for name in names
    ]


def _state(interface: Path) -> str:
    try:
        return (interface / "operstate").read_text().strip()
    except OSError:
        return "unknown"
