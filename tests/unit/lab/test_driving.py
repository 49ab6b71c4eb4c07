"""The sender's loop in simulated time: it keeps to its plan, hides no lateness, and accounts for every message."""

from collections import deque

import numpy as np
import pytest

from headrace.lab.driving import Driver, Ending
from headrace.lab.schedule import SECOND_NS, Bursts, Constant, Int64s, Plan, PlannedCount, Schedule, Unpaced, until
from headrace.lab.timeline import Second, Timeline

MS = 1_000_000


class FakeClock:
    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        return self.now


class FakeEngine:
    """A system with room for so many messages, each answered a while after it was sent, but not during a stall."""

    offer_max = 64

    def __init__(
        self,
        clock: FakeClock,
        timeline: Timeline,
        *,
        room: int = 1_000_000,
        answer_ns: int = MS // 2,
        stall_ns: tuple[int, int] = (0, 0),
        offer_ns: int = 0,
    ) -> None:
        self._clock, self._timeline = clock, timeline
        self._room, self._answer_ns, self._stall_ns, self._offer_ns = room, answer_ns, stall_ns, offer_ns
        self._held: deque[tuple[int, int]] = deque()
        self.is_hastened = False
        self.deadline_ns: int | None = None

    def offer(self, planned: Int64s, now_ns: int) -> int:
        taken = min(len(planned), self._room - len(self._held))
        if taken:
            self._clock.now += self._offer_ns * taken
            sent = np.full(taken, self._clock.now)
            self._held += zip(planned[:taken].tolist(), sent.tolist(), strict=True)
            self._timeline.sent(planned[:taken], sent, 200 * taken)
        return taken

    def poll(self, now_ns: int) -> None:
        begin, end = self._stall_ns
        if begin <= now_ns < end:
            return
        while self._held and self._held[0][1] + self._answer_ns <= now_ns:
            planned, sent = self._held.popleft()
            self._timeline.acknowledged(np.array([planned]), np.array([sent]), np.array([now_ns]), 200)

    def wait(self, timeout_ns: int) -> None:
        assert timeout_ns > 0
        self._clock.now += timeout_ns

    @property
    def outstanding(self) -> int:
        return len(self._held)

    def hasten(self) -> None:
        self.is_hastened = True

    def close(self) -> None: ...


class Run:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timeline = Timeline()
        self.rows: list[Second] = []
        self.ending: Ending | None = None

    def drive(
        self, engine: FakeEngine, schedule: Schedule | None, *, end_s: float, stop_s: float = 1e9, answers_s: float = 5
    ) -> "Run":
        end_ns = round(end_s * SECOND_NS)
        plan = Unpaced(end_ns=end_ns, messages=None)
        planned = None
        if schedule is not None:
            plan = Plan(until(schedule.blocks(), end_ns))  # type: ignore[assignment]
            planned = PlannedCount(until(schedule.blocks(), end_ns))

        def tell(second: int, row: Second) -> None:
            assert second == len(self.rows)
            self.rows.append(row)

        driver = Driver(
            plan,
            engine,
            self.timeline,
            self.clock,
            planned=planned,
            end_ns=end_ns,
            tell=tell,
            is_stopped=lambda: self.clock.now >= stop_s * SECOND_NS,
        )
        self.ending = driver.run(answers_ns=round(answers_s * SECOND_NS))
        return self

    @property
    def total(self) -> Second:
        total = Second()
        for row in self.rows:
            total.merge(row)
        return total

    @property
    def ended(self) -> Ending:
        assert self.ending is not None
        return self.ending


def p99_ms(run: Run, name: str) -> float:
    return (getattr(run.total, name).quantile_ns(0.99) or 0) / MS


def test_a_system_that_keeps_up_gets_every_message_when_it_is_due() -> None:
    run = Run()
    run.drive(FakeEngine(run.clock, run.timeline), Constant(3_000.0), end_s=3)
    assert [(row.planned, row.sent) for row in run.rows[:3]] == [(3_000, pytest.approx(3_000, abs=2))] * 3
    total = run.total
    assert (total.planned, total.sent, total.acknowledged, total.failed) == (9_000, 9_000, 9_000, 0)
    assert total.sent_bytes == total.answered_bytes == 200 * 9_000
    assert p99_ms(run, "lateness") < 0.3
    assert run.ended.unsent == run.ended.lost_sight == 0
    assert run.ended.answered_ns == pytest.approx(3 * SECOND_NS + MS // 2, abs=MS)


def test_a_stall_of_2_s_shows_from_the_planned_send_and_not_from_the_actual_one() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, room=8, stall_ns=(9 * SECOND_NS, 11 * SECOND_NS))
    run.drive(engine, Constant(1_000.0), end_s=20)
    # As one reads it: of 20 s, 2 were lost, a tenth of all messages waited, and the worst of a hundred for nearly 2 s.
    assert p99_ms(run, "latency_planned") > 1_700
    assert p99_ms(run, "lateness") > 1_700
    assert p99_ms(run, "latency_sent") < 1.5
    total = run.total
    assert total.planned == total.sent == total.acknowledged == 20_000
    # The room was full for nearly all of the stall, and a little after it.
    assert run.ended.no_room_ns == pytest.approx(2 * SECOND_NS, rel=0.1)


def test_catching_up_sends_all_of_what_was_due_and_then_keeps_to_the_plan_again() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, room=8, stall_ns=(SECOND_NS, 3 * SECOND_NS))
    run.drive(engine, Constant(1_000.0), end_s=6)
    sent = [row.sent for row in run.rows]
    assert sent[0] == pytest.approx(1_000, abs=2)
    assert sent[1] + sent[2] <= 10
    assert sent[3] == pytest.approx(3_000, abs=10)
    assert sent[4:6] == [pytest.approx(1_000, abs=2)] * 2
    assert (run.rows[5].lateness.max_ns or 0) < MS


def test_a_rate_that_cannot_be_reached_leaves_the_rest_unsent_and_says_how_late_it_was() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, offer_ns=2 * MS)  # 500 a second at most.
    run.drive(engine, Constant(1_000.0), end_s=4)
    total, ended = run.total, run.ended
    assert total.planned == 4_000
    assert total.sent + ended.unsent == 4_000
    assert total.sent == pytest.approx(2_500, abs=70)  # Of 4 s, and one more of overtime.
    assert ended.elapsed_ns == pytest.approx(5 * SECOND_NS, rel=0.03)
    assert total.lateness.count == 4_000
    assert (total.lateness.max_ns or 0) >= 2.4 * SECOND_NS
    assert ended.no_room_ns == 0


def test_a_burst_is_late_by_what_it_takes_to_send_it() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, offer_ns=10_000)
    run.drive(engine, Bursts(1_000.0, burst_messages=500), end_s=2)
    assert run.total.sent == 2_000
    assert (run.total.lateness.max_ns or 0) == pytest.approx(5 * MS, rel=0.1)


def test_answers_that_never_come_are_waited_for_and_then_given_up() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, stall_ns=(SECOND_NS, 1_000 * SECOND_NS))
    run.drive(engine, Constant(100.0), end_s=2, answers_s=3)
    assert engine.is_hastened
    assert run.ended.lost_sight == run.total.sent - run.total.acknowledged > 90
    assert run.ended.answered_ns == pytest.approx(SECOND_NS, rel=0.02)
    assert run.clock.now == pytest.approx(5 * SECOND_NS, rel=0.02)
    assert len(run.rows) in (5, 6)


def test_stopped_early_nothing_counts_as_planned_that_was_not_due_yet() -> None:
    run = Run()
    run.drive(FakeEngine(run.clock, run.timeline), Constant(1_000.0), end_s=60, stop_s=2.5)
    assert run.ended.is_stopped
    total = run.total
    assert total.planned == pytest.approx(2_500, abs=5)
    assert total.planned == total.sent + run.ended.unsent


def test_without_a_plan_what_is_sent_was_planned_and_nothing_is_late() -> None:
    run = Run()
    run.drive(FakeEngine(run.clock, run.timeline, offer_ns=10_000), None, end_s=0.2)
    total = run.total
    assert total.planned == total.sent == total.acknowledged == pytest.approx(20_000, rel=0.01)
    assert run.ended.unsent == 0


def test_a_sender_that_stood_still_tells_every_second_all_the_same() -> None:
    run = Run()
    engine = FakeEngine(run.clock, run.timeline, room=1, stall_ns=(0, 3 * SECOND_NS))
    run.drive(engine, Constant(10.0), end_s=5)
    assert [row.planned for row in run.rows[:5]] == [10] * 5
    assert [row.sent for row in run.rows[:3]] == [1, 0, 0]
