"""How long a thread that never pauses is held off all the same: by other processes, by interrupts, by the hypervisor.

A thread that does nothing but look at the clock should see it move a fraction of a microsecond at a time. Where it
jumps, somebody else had the core. A latency that is shorter than such jumps cannot be measured here, and while they
take much of the time nothing can.

Where Linux counts it, the time that the thread waited for a core because of other processes is told apart; the rest is
of interrupts and of the host behind a virtual machine, some of which is counted as stolen.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from headrace.lab.histogram import Histogram
from headrace.lab.readings.machine import MachineCpu
from headrace.lab.sent import quantiles_ms

# The interpreter itself takes a tenth of a microsecond to look, and now and then ten.
STALL_NS_MIN: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    elapsed_ns: int
    stalls: Histogram  # Those of at least STALL_NS_MIN.
    waited_ns: int | None  # For other processes; None where it is not counted.
    stolen_share: float | None  # Of all cores, by the host; likewise.

    @property
    def share(self) -> float:
        """Of the time, in which the thread did not run."""
        return self.stalls.sum_ns / self.elapsed_ns

    @property
    def per_s(self) -> float:
        return self.stalls.count / (self.elapsed_ns / 1e9)

    @property
    def waited_share(self) -> float | None:
        return None if self.waited_ns is None else self.waited_ns / self.elapsed_ns

    def to_json(self) -> dict[str, Any]:
        return {
            "stall_us_min": STALL_NS_MIN // 1000,
            "share": round(self.share, 5),
            "per_s": round(self.per_s, 1),
            "stall_ms": quantiles_ms(self.stalls),
            "share_waiting_for_other_processes": None if self.waited_share is None else round(self.waited_share, 5),
            "share_of_cpu_stolen_by_the_host": None if self.stolen_share is None else round(self.stolen_share, 5),
        }


def spin(*, duration_ns: int, clock: Callable[[], int] = time.monotonic_ns) -> tuple[int, list[int]]:
    """How long it took in the end, and the jumps of the clock that were no looks at it."""
    jumps = []
    began = before = now = clock()
    end = began + duration_ns
    while now < end:
        now = clock()
        if now - before >= STALL_NS_MIN:
            jumps.append(now - before)
        before = now
    return now - began, jumps


def measure_stalls(*, duration_s: float) -> Stalls:
    with _without_collections():
        waited_ns, cpu = _waited_ns(), _machine_cpu()
        elapsed_ns, jumps = spin(duration_ns=round(duration_s * 1e9))
        waited_after_ns, cpu_after = _waited_ns(), _machine_cpu()
    stalls = Histogram()
    stalls.add(np.array(jumps, np.int64))
    waited = None if waited_ns is None or waited_after_ns is None else waited_after_ns - waited_ns
    stolen = None
    if cpu is not None and cpu_after is not None:
        stolen = (cpu_after[0] - cpu[0]) / (cpu_after[1] * elapsed_ns / 1e9)
    return Stalls(elapsed_ns=elapsed_ns, stalls=stalls, waited_ns=waited, stolen_share=stolen)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Garbage would be ours, and no stall of the machine's."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _waited_ns() -> int | None:
    """For a core, by this thread since it began."""
    with suppress(OSError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    return None


def _machine_cpu() -> tuple[float, int] | None:
    """Seconds stolen of all cores, and how many cores there are."""
    with suppress(OSError):
        return MachineCpu.now().steal_s, os.cpu_count() or 1
    return None
