"""CPU time and memory of a broker with its helper processes, and of the whole machine, from /proc.

Resident memory is summed over the processes of the tree, so pages that they share count more than once: an
upper bound, and the same rule for every system. Linux only.
"""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.errors import LoadError

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SAMPLE_INTERVAL_S: Final = 0.25
_RESET_PEAK: Final = "5"  # Written to clear_refs: the peak becomes the present size.


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    parent: int
    cpu_s: float
    born_s: float  # Since boot.


def _read_stat(pid: int) -> _Stat | None:
    """None when the process is gone, which may happen between listing and reading."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name may hold spaces and parentheses; the last one closes it.
    fields = text[text.rindex(")") + 2 :].split()
    # utime, stime, and those of children already waited for: a live child is counted by its own entry.
    ticks = sum(int(field) for field in fields[11:15])
    return _Stat(pid, int(fields[1]), ticks / _TICKS_PER_S, int(fields[19]) / _TICKS_PER_S)


def _tree(root: int) -> list[_Stat]:
    everyone = [stat for name in os.listdir("/proc") if name.isdigit() if (stat := _read_stat(int(name)))]
    children: dict[int, list[_Stat]] = {}
    for stat in everyone:
        children.setdefault(stat.parent, []).append(stat)
    found = [stat for stat in everyone if stat.pid == root]
    for stat in found:  # Grows while it is walked.
        found.extend(children.get(stat.pid, ()))
    return found


def _status_bytes(pid: int, field: str) -> int:
    """A memory field of /proc/PID/status; zero for a process that is gone or has no memory any more."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


def cpu_s(root: int) -> float:
    return sum(stat.cpu_s for stat in _tree(root))


def age_s(pid: int) -> float:
    """Seconds since the process was made, to a clock tick (10 ms)."""
    stat = _read_stat(pid)
    if stat is None:
        raise LoadError(f"process {pid} is gone")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - stat.born_s


def resident_bytes(root: int) -> int:
    return sum(_status_bytes(stat.pid, "VmRSS") for stat in _tree(root))


def peak_bytes(root: int) -> int:
    return sum(_status_bytes(stat.pid, "VmHWM") for stat in _tree(root))


def reset_peak(root: int) -> None:
    for stat in _tree(root):
        Path(f"/proc/{stat.pid}/clear_refs").write_text(_RESET_PEAK)


@dataclass(frozen=True, slots=True)
class MachineCpu:
    """Seconds since boot, over all cores."""

    busy_s: float
    steal_s: float

    @classmethod
    def now(cls) -> "MachineCpu":
        with open("/proc/stat") as stat:
            ticks = [int(field) for field in stat.readline().split()[1:9]]
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return cls((user + nice + system + irq + softirq) / _TICKS_PER_S, steal / _TICKS_PER_S)


@dataclass(frozen=True, slots=True)
class Sample:
    mono_ns: int
    cpu_s: float
    resident_bytes: int


class Sampler:
    """CPU and memory of a tree over the course of a step, four times a second."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._samples = [self._sample()]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._samples.append(self._sample())

    def at(self, mono_ns: int) -> Sample:
        """The tree at an instant, interpolated between the two samples around it."""
        later = next((one for one in self._samples if one.mono_ns >= mono_ns), self._samples[-1])
        earlier = next((one for one in reversed(self._samples) if one.mono_ns <= mono_ns), self._samples[0])
        span_ns = later.mono_ns - earlier.mono_ns
        share = (mono_ns - earlier.mono_ns) / span_ns if span_ns > 0 else 0.0
        return Sample(
            mono_ns,
            earlier.cpu_s + share * (later.cpu_s - earlier.cpu_s),
            round(earlier.resident_bytes + share * (later.resident_bytes - earlier.resident_bytes)),
        )

    def _sample(self) -> Sample:
        stats = _tree(self._root)
        resident = sum(_status_bytes(stat.pid, "VmRSS") for stat in stats)
        return Sample(time.monotonic_ns(), sum(stat.cpu_s for stat in stats), resident)

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_INTERVAL_S):
            self._samples.append(self._sample())
