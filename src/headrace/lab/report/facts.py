"""What results say about the machine, for people. What is not known here is told as it is."""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.lab.report.scales import figures
from headrace.lab.results import NOT_MEASURABLE

MEASURED = "measured"  # The part of a host's facts that was measured, as `headrace lab host` does.


def host_facts(host: Mapping[str, Any]) -> dict[str, str]:
    measured = host.get(MEASURED)
    plain = {name: value for name, value in host.items() if name != MEASURED}
    return flat_facts(plain) | (dict(_measured(measured)) if isinstance(measured, Mapping) else {})


def _measured(measured: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    disk = measured.get("disk", {})
    if "bulk_mb_per_s" in disk:
        yield "synchronous write", f"{figures(disk['bulk_mb_per_s'])} MB/s"
        took = disk.get("commit_ms") or {}
        slowest = f", p99 {figures(took['p99'])} ms" if "p99" in took else ""
        yield f"write of {disk['commit_bytes']} B and sync", f"{figures(disk['commits_per_s'])}/s{slowest}"
    elif NOT_MEASURABLE in disk:
        yield "synchronous write", f"{NOT_MEASURABLE}: {disk[NOT_MEASURABLE]}"
    if (loopback := measured.get("loopback")) is not None:
        yield "loopback", f"{figures(loopback['mb_per_s'])} MB/s"
    for link in measured.get("links", ()):
        if link.get("is_up"):
            bits = link.get("bits_per_s")
            yield f"link {link['interface']}", NOT_MEASURABLE if bits is None else f"{figures(bits / 8e6)} MB/s"
    if (stalls := measured.get("stalls")) is not None:
        yield "a busy thread is held off", f"{stalls['share']:.1%} of the time"
        if (stolen := stalls.get("share_of_cpu_stolen_by_the_host")) is not None:
            yield "stolen by the host", f"{stolen:.1%} of all cores"
    if "is_calm" in measured:
        yield "calm", "yes" if measured["is_calm"] else "no"


def flat_facts(host: Mapping[str, Any], under: str = "") -> dict[str, str]:
    """One level of names with what they hold, for people: bytes as GiB, and no underscores."""
    found: dict[str, str] = {}
    for name, value in host.items():
        text = f"{under}{name}"
        match value:
            case Mapping():
                found |= flat_facts(value, f"{text} ")
            case [*_]:
                for number, each in enumerate(value, 1):
                    inner = each if isinstance(each, Mapping) else {"": each}
                    found |= flat_facts(inner, f"{text} {number} " if len(value) > 1 else f"{text} ")
            case bool():
                found[_words(text)] = "yes" if value else "no"
            case int() | float() if name.endswith("_bytes") and value >= 2**20:
                found[_words(text.removesuffix("_bytes"))] = f"{value / 2**30:.1f} GiB"
            case float():
                found[_words(text)] = figures(value)
            case None:
                found[_words(text)] = "-"
            case _:
                found[_words(text)] = str(value)
    return found


def _words(name: str) -> str:
    return name.replace("_", " ").strip()
