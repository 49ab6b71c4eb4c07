"""The sender's loop: what is due is offered to the engine at once, and what happened is written down.

It keeps to the plan and to nothing else. A message that the engine has no room for stays due; once there is room, all
that are due go out as fast as they can, each with the lateness that it has by then. Nothing is left out, and nothing
is planned anew: a stall of the system shows as the lateness and the latency of every message that was due meanwhile.

When its time is over the sender still sends what was planned before, for a second at most: at a rate that cannot be
reached the rest would take for ever. What is left then counts as unsent, and its lateness as at least what it was.

Knows neither sockets nor processes: clock, engine and whoever is told of the seconds are given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from headrace.lab.engines import Clock, Engine
from headrace.lab.schedule import SECOND_NS, PlannedCount
from headrace.lab.timeline import Second, Timeline

Int64s = npt.NDArray[np.int64]

# Between two looks at the plan, if there is that much time: at high rates a message is due every few microseconds,
# and a look costs more than that.
QUANTUM_NS: Final = 250_000
_FOLD_NS: Final = 50_000_000
_OVERTIME_NS: Final = SECOND_NS
_WAIT_NS_MAX: Final = 20_000_000  # Whoever wants the sender to stop is heard so soon.


class PlanLike(Protocol):
    @property
    def next_ns(self) -> int | None: ...
    def due(self, now_ns: int, *, limit: int) -> Int64s: ...
    def take(self, messages: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How it ended."""

    elapsed_ns: int  # Of sending, without the wait for answers.
    answered_ns: int  # When the last answer came that is any good.
    unsent: int
    lost_sight: int  # Sent, and neither answered nor failed when the wait for answers was over.
    is_stopped: bool  # Somebody stopped it before its time.
    # Where its time went, as far as a verdict on bottlenecks asks.
    no_room_ns: int = 0  # Messages were due, and the engine had no room for them.
    making_ns: int = 0  # Messages were read or generated.
    throttled_ns: int = 0  # The broker said that it holds back for a quota's sake.


class Driver:
    def __init__(
        self,
        plan: PlanLike,
        engine: Engine,
        timeline: Timeline,
        clock: Clock,
        *,
        planned: PlannedCount | None,
        end_ns: int | None,
        tell: Callable[[int, Second], None],
        is_stopped: Callable[[], bool],
        quantum_ns: int = QUANTUM_NS,
    ) -> None:
        """`planned` counts the same plan, None where there is none and what is sent was planned. `end_ns` is when
        sending is to be over, None for when the plan is. `tell` gets every second once it is over, in order."""
        self._plan = plan
        self._engine = engine
        self._timeline = timeline
        self._clock = clock
        self._planned = planned
        self._planned_before = 0
        self._end_ns = end_ns
        self._tell = tell
        self._is_stopped = is_stopped
        self._quantum_ns = quantum_ns
        self._second = 0  # The first that was not told.
        self._folded_ns = 0
        self._is_planning = True
        self._no_room_ns = 0

    def run(self, *, answers_ns: int) -> Ending:
        """From the start to the last answer, for which it waits so long at most."""
        stopped = self._send()
        ended_ns = self._clock.now_ns()
        # What is planned for this very moment is due.
        self._count_planned(max(ended_ns + 1, 0 if stopped else self._end_ns or 0))
        self._is_planning = False
        unsent = self._count_unsent(ended_ns)
        self._engine.hasten()
        deadline_ns = self._clock.now_ns() + answers_ns
        while self._engine.outstanding and (now_ns := self._clock.now_ns()) < deadline_ns:
            self._engine.poll(now_ns)
            if self._engine.outstanding:
                self._engine.wait(min(self._quantum_ns * 4, deadline_ns - now_ns))
            self._look_at_time(self._clock.now_ns())
        self._engine.poll(self._clock.now_ns())  # What the last wait has brought.
        self._timeline.fold()
        self._tell_until(self._clock.now_ns() // SECOND_NS + 1)
        return Ending(
            elapsed_ns=ended_ns,
            answered_ns=self._timeline.answered_ns,
            unsent=unsent,
            lost_sight=self._engine.outstanding,
            is_stopped=stopped,
            no_room_ns=self._no_room_ns,
        )

    # --- Sending -------------------------------------------------------------------------------------------------

    def _send(self) -> bool:
        """Whether it was stopped before the plan was done."""
        plan, engine, clock = self._plan, self._engine, self._clock
        last_ns = None if self._end_ns is None else self._end_ns + _OVERTIME_NS
        while (next_ns := plan.next_ns) is not None:
            now_ns = clock.now_ns()
            if last_ns is not None and now_ns >= last_ns:
                return False
            if self._is_stopped():
                return True
            planned = plan.due(now_ns, limit=engine.offer_max) if next_ns <= now_ns else None
            taken = 0
            if planned is not None and len(planned):
                taken = engine.offer(planned, now_ns)
                plan.take(taken)
            engine.poll(clock.now_ns())
            self._look_at_time(clock.now_ns())
            is_full = planned is not None and taken < len(planned)
            if not is_full and plan.next_ns is not None and plan.next_ns <= now_ns:
                continue  # More was due than can be offered at a time.
            self._rest(now_ns, is_full=is_full)
            if is_full:
                self._no_room_ns += clock.now_ns() - now_ns
        return False

    def _rest(self, began_ns: int, *, is_full: bool) -> None:
        """Until the next message is due, but for a quantum since the last look at least."""
        wake_ns = began_ns + self._quantum_ns
        next_ns = self._plan.next_ns
        if next_ns is not None and not is_full:
            wake_ns = max(wake_ns, next_ns)
        if (deadline_ns := self._engine.deadline_ns) is not None:
            wake_ns = min(wake_ns, max(deadline_ns, began_ns + self._quantum_ns))
        rest_ns = min(wake_ns - self._clock.now_ns(), _WAIT_NS_MAX)
        if rest_ns > 0:
            self._engine.wait(rest_ns)

    # --- Writing down --------------------------------------------------------------------------------------------

    def _look_at_time(self, now_ns: int) -> None:
        if now_ns - self._folded_ns >= _FOLD_NS:
            self._timeline.fold()
            self._folded_ns = now_ns
        if now_ns // SECOND_NS > self._second:
            self._timeline.fold()
            self._count_planned(now_ns // SECOND_NS * SECOND_NS)
            self._tell_until(now_ns // SECOND_NS)

    def _count_planned(self, before_ns: int) -> None:
        """Into the rows of the seconds for which they were planned, as far as those were not told."""
        if self._planned is None or not self._is_planning:
            return
        second = self._second
        while second * SECOND_NS < before_ns:
            edge_ns = min((second + 1) * SECOND_NS, before_ns)
            before = self._planned.before(edge_ns)
            self._timeline.planned(second, before - self._planned_before)
            self._planned_before = before
            second += 1

    def _count_unsent(self, now_ns: int) -> int:
        if self._planned is None:
            return 0
        unsent = 0
        while len(late := self._plan.due(now_ns, limit=1 << 20)):
            self._timeline.unsent(late, now_ns)
            self._plan.take(len(late))
            unsent += len(late)
        return unsent

    def _tell_until(self, second: int) -> None:
        for each in range(self._second, second):
            row = self._timeline.pop(each)
            if self._planned is None:
                row.planned = row.sent
            self._tell(each, row)
        self._second = max(self._second, second)
