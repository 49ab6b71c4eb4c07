"""All measurements of the machine, one after the other, so that none disturbs another.

    measured = measure_host(Path("/var/lib/kafka"), duration_s=2.0)
    measured.to_json()

Nothing else should run meanwhile; `stalls` says how much did. What cannot be measured is a sentence that says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.lab.facts import host_facts
from headrace.lab.host.disk_write import DiskWrite, measure_disk_write
from headrace.lab.host.links import Link, find_links
from headrace.lab.host.loopback import Bandwidth, measure_loopback
from headrace.lab.host.stalls import Stalls, measure_stalls

NOT_MEASURABLE: Final = "not measurable here"
STEPS: Final = ("stalls", "loopback", "disk")
# As the quality gate has it: beyond this nothing that is measured here means much.
STALL_SHARE_MAX: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMeasured:
    directory: Path
    disk: DiskWrite | str
    loopback: Bandwidth
    links: list[Link]
    stalls: Stalls

    @property
    def is_calm(self) -> bool:
        return max(self.stalls.share, self.stalls.stolen_share or 0.0) <= STALL_SHARE_MAX

    def to_json(self) -> dict[str, Any]:
        disk = {NOT_MEASURABLE: self.disk} if isinstance(self.disk, str) else self.disk.to_json()
        return {
            "type": "host",
            "host": host_facts(),
            "disk": disk,
            "loopback": self.loopback.to_json(),
            "links": [link.to_json() for link in self.links],
            "stalls": self.stalls.to_json(),
            "is_calm": self.is_calm,
        }


def measure_host(
    directory: Path, *, duration_s: float, watch: Callable[[str], None] = lambda step: None
) -> HostMeasured:
    """So long for each step; `watch` is told the name of each before it begins, and of none after."""
    watch("stalls")
    stalls = measure_stalls(duration_s=duration_s)
    watch("loopback")
    loopback = measure_loopback(duration_s=duration_s)
    watch("disk")
    disk = measure_disk_write(directory, duration_s=duration_s)
    return HostMeasured(directory=directory, disk=disk, loopback=loopback, links=find_links(), stalls=stalls)
