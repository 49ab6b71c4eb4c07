"""CPU time, memory and threads of a process with those that it started, from /proc.

Resident memory is summed over the processes of the tree, so pages that they share count more than once: an
upper bound, and the same rule for every system. Linux only.
"""

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from headrace.lab.errors import LabError

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SAMPLE_INTERVAL_S: Final = 0.25
_RESET_PEAK: Final = "5"  # Written to clear_refs: the peak becomes the present size.
_SWITCHES: Final = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    name: str
    parent: int
    cpu_s: float
    born_s: float  # Since boot.


def parse_stat(pid: int, text: str) -> Process:
    """/proc/PID/stat. The command name may hold spaces and parentheses; the last one closes it."""
    name_end = text.rindex(")")
    fields = text[name_end + 2 :].split()
    # utime, stime, and those of children already waited for: a live child is counted by its own entry.
    ticks = sum(int(field) for field in fields[11:15])
    name = text[text.index("(") + 1 : name_end]
    return Process(pid, name, int(fields[1]), ticks / TICKS_PER_S, int(fields[19]) / TICKS_PER_S)


def _read(path: str) -> str | None:
    """None when the process is gone, which may happen between listing and reading."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _read_stat(pid: int) -> Process | None:
    text = _read(f"/proc/{pid}/stat")
    return None if text is None else parse_stat(pid, text)


def everyone() -> list[Process]:
    """All processes that this one may see."""
    return [found for name in os.listdir("/proc") if name.isdigit() if (found := _read_stat(int(name)))]


def tree(root: int, among: list[Process] | None = None) -> list[Process]:
    """A process, first, with all that descend from it; nothing where it is gone."""
    processes = everyone() if among is None else among
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found = [process for process in processes if process.pid == root]
    for process in found:  # Grows while it is walked.
        found.extend(children.get(process.pid, ()))
    return found


def _status_bytes(pid: int, field: str) -> int:
    """A memory field of /proc/PID/status; zero for a process that is gone or has no memory any more."""
    lines = (_read(f"/proc/{pid}/status") or "").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":")), 0)


def cpu_s(root: int) -> float:
    return sum(process.cpu_s for process in tree(root))


def age_s(pid: int) -> float | None:
    """Seconds since the process was made, to a clock tick (10 ms); None where the system does not tell."""
    if not Path("/proc/self/stat").exists():
        return None
    process = _read_stat(pid)
    if process is None:
        raise LabError(f"process {pid} is gone")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.born_s


def resident_bytes(root: int, among: list[Process] | None = None) -> int:
    return sum(_status_bytes(process.pid, "VmRSS") for process in tree(root, among))


def own_resident_bytes(pid: int) -> int:
    """Of one process, without those that it started."""
    return _status_bytes(pid, "VmRSS")


def peak_bytes(root: int) -> int:
    return sum(one.size_bytes for one in peaks(root))


class Peak(NamedTuple):
    """The most that one process held."""

    pid: int
    name: str
    size_bytes: int


def peaks(root: int) -> list[Peak]:
    """Of each process of a tree, its root first."""
    return [Peak(process.pid, process.name, _status_bytes(process.pid, "VmHWM")) for process in tree(root)]


def reset_peak(root: int) -> None:
    for process in tree(root):
        with suppress(FileNotFoundError, ProcessLookupError):  # It has ended meanwhile.
            Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK)


# --- Threads -----------------------------------------------------------------------------------------------------


class Thread(NamedTuple):
    """Since it began: how long it has run, and how long it was ready to and waited for a CPU.

    Waiting is for other processes, for a limit on CPU that the process was given, and for whatever else the kernel
    prefers; a thread that has nothing to do does neither.
    """

    name: str
    ran_ns: int
    waited_ns: int
    switches: int  # From and to it, of whatever kind.


def threads(pid: int) -> dict[int, Thread]:
    """Of one process, by id; none where it is gone."""
    try:
        numbers = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    found = {}
    for number in numbers:
        status, times = _read(f"/proc/{pid}/task/{number}/status"), _read(f"/proc/{pid}/task/{number}/schedstat")
        if status and times:  # Empty where the thread ended while it was opened.
            found[int(number)] = parse_thread(status, times)
    return found


def parse_thread(status: str, schedstat: str) -> Thread:
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    ran_ns, waited_ns, _ = map(int, schedstat.split())
    return Thread(fields["Name"], ran_ns, waited_ns, sum(int(fields[name]) for name in _SWITCHES))


def sockets(pid: int) -> set[int]:
    """The inodes of the sockets that a process has open; none where it is gone or somebody else's."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
    return found


# --- Over a while ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    mono_ns: int
    cpu_s: float
    resident_bytes: int


class Course:
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
        processes = everyone()
        used_s = sum(process.cpu_s for process in tree(self._root, processes))
        return Sample(time.monotonic_ns(), used_s, resident_bytes(self._root, processes))

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_INTERVAL_S):
            self._samples.append(self._sample())
