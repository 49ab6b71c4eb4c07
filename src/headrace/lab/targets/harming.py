"""Faults done to a target while it is measured, each at its time, by a thread of its own.

    with Harm(target, faults) as harm:
        harm.start(start_utc_ns)
        ...
    harm.done, harm.troubles

At the end of the `with` nobody is paused or cut off any more; who was killed stays so.
"""

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from headrace.errors import HeadraceError
from headrace.lab.faults import Fault, Step, steps
from headrace.lab.targets.member import Member
from headrace.lab.targets.running import Target

# What is done to a broker when a fault begins, and when it is over.
_DEEDS: Final[dict[tuple[str, bool], Callable[[Member], None]]] = {
    ("kill", False): Member.kill,
    ("kill", True): Member.start_again,
    ("pause", False): Member.pause,
    ("pause", True): Member.resume,
    ("cut", False): Member.cut_off,
    ("cut", True): Member.join_again,
}


class Harm:
    def __init__(self, target: Target, faults: Sequence[Fault]) -> None:
        """LabError where a fault names a broker that there is not."""
        self._plan = [(step, target.member(step.fault.broker)) for step in steps(faults)]
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.done: list[Step] = []
        self.troubles: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for step, member in self._plan:
            if step.fault.kind != "kill" and member.is_alive:
                self._do(_DEEDS[step.fault.kind, True], member)

    def start(self, start_utc_ns: int) -> None:
        if self._plan:
            self._thread = threading.Thread(target=self._run, args=(start_utc_ns,), daemon=True)
            self._thread.start()

    def _run(self, start_utc_ns: int) -> None:
        for step, member in self._plan:
            left_s = start_utc_ns / 1e9 + step.at_s - time.time()
            if self._over.wait(max(0.0, left_s)):
                return
            if step.fault.kind == "kill" and not step.is_end:
                member.is_awaited = step.fault.length_s is not None
            self._do(_DEEDS[step.fault.kind, step.is_end], member)
            self.done.append(step)

    def _do(self, deed: Callable[[Member], None], member: Member) -> None:
        try:
            deed(member)
        except (HeadraceError, OSError) as error:
            self.troubles.append(f"{member.name}: {error}")
