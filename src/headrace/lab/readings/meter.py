"""What a step cost the processes that took part in it, and how much of the machine others took meanwhile."""

import resource
from time import monotonic
from types import TracebackType
from typing import Self

from headrace.lab.readings import process_tree
from headrace.lab.readings.machine import MachineCpu, cores


class Meter:
    """Around a step. The processes are named, each with what it started, and live as long as the step.

    This process, and what it has waited for, takes part too: neither is one of the others.
    """

    def __init__(self, **roots: int) -> None:
        self._roots = roots
        self.cpu_s: dict[str, float] = {}
        self.seconds = 0.0
        self.others_cpu_share = 0.0
        self.steal_share = 0.0

    def __enter__(self) -> Self:
        self._began_s, self._machine, self._own_s = monotonic(), MachineCpu.now(), _own_cpu_s()
        self._before_s = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cpu_s = {name: after_s - self._before_s[name] for name, after_s in self._read().items()}
        self.seconds = monotonic() - self._began_s
        own_s, machine, available_s = _own_cpu_s() - self._own_s, MachineCpu.now(), self.seconds * cores()
        others_s = machine.busy_s - self._machine.busy_s - sum(self.cpu_s.values()) - own_s
        self.others_cpu_share = max(0.0, others_s / available_s)
        self.steal_share = (machine.steal_s - self._machine.steal_s) / available_s

    @property
    def shares(self) -> dict[str, float]:
        """By metric name."""
        return {"others_cpu_share": self.others_cpu_share, "steal_share": self.steal_share}

    def _read(self) -> dict[str, float]:
        return {name: process_tree.cpu_s(pid) for name, pid in self._roots.items()}


def _own_cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
