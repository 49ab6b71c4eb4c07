"""The whole machine as Linux counts it: CPUs, memory, block devices, network interfaces, stalls for I/O.

Everything is a count since boot; what happened in between two looks is for whoever looked. `/proc/net` is that of the
network namespace one is in. Parsers take text, `now` reads the files.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.lab.readings.process_tree import TICKS_PER_S

_SECTOR_BYTES: Final = 512  # Whatever the device's are.
_MS_PER_S: Final = 1000
_US_PER_S: Final = 1_000_000
_INTERFACES: Final = Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class MachineCpu:
    """Seconds since boot, over all cores."""

    busy_s: float
    steal_s: float

    @classmethod
    def parse(cls, stat: str) -> Self:
        ticks = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return cls((user + nice + system + irq + softirq) / TICKS_PER_S, steal / TICKS_PER_S)

    @classmethod
    def now(cls) -> Self:
        return cls.parse(Path("/proc/stat").read_text())


class Disk(NamedTuple):
    """A block device."""

    read_bytes: int
    written_bytes: int
    writes: int
    write_s: float  # Of all writes, also of those that were under way at the same time.
    busy_s: float  # With anything under way.


class Interface(NamedTuple):
    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


class Machine(NamedTuple):
    cpu: MachineCpu
    switches: int  # Of contexts, on all cores.
    available_bytes: int  # Of memory, as the kernel estimates.
    disks: Mapping[str, Disk]
    interfaces: Mapping[str, Interface]
    io_stalled_s: float | None  # In which some process could not go on for want of I/O; None where it is not counted.

    @classmethod
    def now(cls) -> Self:
        stat = Path("/proc/stat").read_text()
        return cls(
            cpu=MachineCpu.parse(stat),
            switches=parse_switches(stat),
            available_bytes=parse_available_bytes(Path("/proc/meminfo").read_text()),
            disks=parse_disks(Path("/proc/diskstats").read_text(), whole=set(os.listdir("/sys/block"))),
            interfaces=parse_interfaces(Path("/proc/net/dev").read_text()),
            io_stalled_s=_io_stalled_s(),
        )


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def parse_switches(stat: str) -> int:
    return next(int(line.split()[1]) for line in stat.splitlines() if line.startswith("ctxt "))


def parse_available_bytes(meminfo: str) -> int:
    return next(int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line.startswith("MemAvailable:"))


def parse_disks(diskstats: str, *, whole: set[str]) -> dict[str, Disk]:
    """The devices that are no part of another, and have ever done anything."""
    found = {}
    for line in diskstats.splitlines():
        _, _, name, *fields = line.split()
        _reads, _, sectors_read, _, writes, _, sectors_written, write_ms, _, busy_ms = map(int, fields[:10])
        if name in whole and (sectors_read or sectors_written):
            found[name] = Disk(
                read_bytes=sectors_read * _SECTOR_BYTES,
                written_bytes=sectors_written * _SECTOR_BYTES,
                writes=writes,
                write_s=write_ms / _MS_PER_S,
                busy_s=busy_ms / _MS_PER_S,
            )
    return found


def parse_interfaces(net_dev: str) -> dict[str, Interface]:
    found = {}
    for line in net_dev.splitlines()[2:]:
        name, _, counts = line.partition(":")
        fields = [int(field) for field in counts.split()]
        found[name.strip()] = Interface(
            received_bytes=fields[0], received_packets=fields[1], sent_bytes=fields[8], sent_packets=fields[9]
        )
    return found


def parse_pressure_s(pressure: str) -> float:
    """Of /proc/pressure/*: in which at least one process was held up."""
    some = next(line for line in pressure.splitlines() if line.startswith("some "))
    return int(some.rpartition("total=")[2]) / _US_PER_S


def _io_stalled_s() -> float | None:
    try:
        return parse_pressure_s(Path("/proc/pressure/io").read_text())
    except OSError:  # Not there, or there and switched off.
        return None


def link_bits_per_s(interface: str, *, interfaces: Path = _INTERFACES) -> int | None:
    """What the driver says; None for loopback, for a link that is down, and for most virtual ones."""
    try:
        megabits = int((interfaces / interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * 1_000_000 if megabits > 0 else None
