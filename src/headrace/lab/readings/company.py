"""Who has used the CPU: the brokers that are measured, the clients that measure them, and others.

Others are processes that are neither of the run's nor of the kernel's: what they took is what the machine was not all
ours by. Only those that this process may see are known; whoever shares the machine unseen shows as stolen time and as
stalls.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from headrace.lab.gate import Disturbance
from headrace.lab.readings.machine import MachineCpu, cores
from headrace.lab.readings.process_tree import Process, everyone, tree

_KERNEL: Final = "kthreadd"
_INIT: Final = 1  # Which children fall to whose parent ended.


class Snapshot(NamedTuple):
    mono_s: float
    steal_s: float
    processes: Mapping[int, Process]

    @classmethod
    def now(cls) -> Self | None:
        """None off Linux, where nobody counts this for everybody to read."""
        try:
            steal_s = MachineCpu.now().steal_s
        except OSError:
            return None
        return cls(time.monotonic(), steal_s, {each.pid: each for each in everyone()})


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """Between two looks, or over several."""

    elapsed_s: float = 0.0
    brokers_s: float = 0.0
    clients_s: float = 0.0
    others_s: float = 0.0
    steal_s: float = 0.0
    busiest: str | None = None  # Of the others.
    busiest_s: float = 0.0

    def plus(self, other: Self) -> "CpuUse":
        more = other if other.busiest_s > self.busiest_s else self
        return CpuUse(
            elapsed_s=self.elapsed_s + other.elapsed_s,
            brokers_s=self.brokers_s + other.brokers_s,
            clients_s=self.clients_s + other.clients_s,
            others_s=self.others_s + other.others_s,
            steal_s=self.steal_s + other.steal_s,
            busiest=more.busiest,
            busiest_s=more.busiest_s,
        )

    def percent_of_core(self, cpu_s: float) -> float:
        return 100 * cpu_s / self.elapsed_s if self.elapsed_s else 0.0

    def disturbance(self, *, stall_share: float | None, machine_cores: int | None = None) -> Disturbance:
        available_s = self.elapsed_s * (machine_cores or cores())
        if not available_s:
            return Disturbance(stall_share=stall_share)
        return Disturbance(
            steal_share=self.steal_s / available_s,
            stall_share=stall_share,
            others_share=self.others_s / available_s,
            busiest=self.busiest,
        )


def compare(
    before: Snapshot, after: Snapshot, *, brokers: Collection[int], clients: Collection[int], own: int
) -> CpuUse:
    """`brokers` and `clients` are roots of trees; `own` is of the process that runs it all, whose CPU is nobody's."""
    sides: dict[int, str] = {}
    for snapshot in (before, after):
        among = list(snapshot.processes.values())
        kernel = [each.pid for each in among if each.name == _KERNEL and each.parent == 0]
        for side, roots in (("own", [own]), ("kernel", kernel), ("clients", clients), ("brokers", brokers)):
            for root in roots:
                sides |= {each.pid: side for each in tree(root, among)}
    used: dict[str, float] = {}
    for side in ("own", "kernel", "clients", "brokers", "others"):
        # The time of one that ended is with its parent now, so that only the sums can be compared.
        sums = [
            sum(each.cpu_s for each in snapshot.processes.values() if sides.get(each.pid, "others") == side)
            for snapshot in (before, after)
        ]
        used[side] = max(0.0, sums[1] - sums[0])
    since_s = _each_since(before, after)
    others = [each for each in after.processes.values() if each.pid not in sides]
    busiest = max(others, key=lambda each: since_s[each.pid], default=None)
    return CpuUse(
        elapsed_s=after.mono_s - before.mono_s,
        brokers_s=used["brokers"],
        clients_s=used["clients"],
        others_s=used["others"],
        steal_s=max(0.0, after.steal_s - before.steal_s),
        busiest=None if busiest is None else f"{busiest.name} (process {busiest.pid})",
        busiest_s=0.0 if busiest is None else max(0.0, since_s[busiest.pid]),
    )


def _each_since(before: Snapshot, after: Snapshot) -> dict[int, float]:
    """Of each process that is there. What one that ended had used before is not its parent's doing."""
    found = {
        each.pid: each.cpu_s - (old.cpu_s if (old := before.processes.get(each.pid)) is not None else 0.0)
        for each in after.processes.values()
    }
    for pid, gone in before.processes.items():
        if pid not in after.processes:
            heir = gone.parent if gone.parent in found else _INIT
            if heir in found:
                found[heir] -= gone.cpu_s
    return found


class Company:
    """Looks whenever it is told to."""

    def __init__(self, *, brokers: Callable[[], Iterable[int]], clients: Callable[[], Iterable[int]]) -> None:
        """Which processes they are may change: one that was killed is started again as another."""
        self._brokers = brokers
        self._clients = clients
        self._before = Snapshot.now()

    def look(self) -> CpuUse:
        """Since the last time; nothing at all where it cannot be known."""
        before, self._before = self._before, Snapshot.now()
        if before is None or self._before is None:
            return CpuUse()
        return compare(
            before, self._before, brokers=list(self._brokers()), clients=list(self._clients()), own=os.getpid()
        )
