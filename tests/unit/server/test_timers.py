"""The Timers port over real event loops, with a clock that the test moves."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headrace.server.timers import LoopTimers
from tests.unit.server.served_node import LOOPS
from tests.unit.timers_contract import TimersContract


class HandClock:
    """Time that passes when told: what a loop's own timers are for is simulated below."""

    def __init__(self) -> None:
        self.now_us = 1_000_000_000

    def mono_us(self) -> int:
        return self.now_us

    def wall_ms(self) -> int:
        return self.now_us // 1000


class HandLoop:
    """As much of a loop as timers need: they are late by as much as a real one's may be, and never early."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.handles: list[HandHandle] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> "HandHandle":
        handle = HandHandle(self._clock.now_us + round(delay_s * 1_000_000), callback)
        self.handles.append(handle)
        return handle

    def pass_us(self, elapsed_us: int) -> None:
        end_us = self._clock.now_us + elapsed_us
        while True:
            self.handles = [handle for handle in self.handles if not handle.is_over]
            due = min(self.handles, key=lambda handle: handle.due_us, default=None)
            if due is None or due.due_us > end_us:
                break
            self._clock.now_us = max(self._clock.now_us, due.due_us)
            due.is_over = True
            due.callback()
        self._clock.now_us = end_us


class HandHandle:
    def __init__(self, due_us: int, callback: Callable[[], None]) -> None:
        self.due_us = due_us
        self.callback = callback
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class HandStage:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.loop = HandLoop(self.clock)
        self.after = 0
        self.timers = LoopTimers(self.loop, self.clock, after=self._after)  # type: ignore[arg-type]

    def _after(self) -> None:
        self.after += 1

    def pass_us(self, elapsed_us: int) -> None:
        self.loop.pass_us(elapsed_us)


class TestContract(TimersContract):
    @pytest.fixture
    def stage(self) -> HandStage:
        return HandStage()


class TestOnALoop:
    def test_one_loop_timer_serves_them_all(self) -> None:
        stage = HandStage()
        for delay_us in range(100_000, 0, -1_000):
            stage.timers.at(stage.clock.now_us + delay_us, lambda: None)
        assert len([handle for handle in stage.loop.handles if not handle.is_over]) == 1

    def test_what_is_to_follow_follows_each_bunch_once(self) -> None:
        stage = HandStage()
        for _ in range(5):
            stage.timers.at(stage.clock.now_us + 1_000, lambda: None)
        cancel = stage.timers.at(stage.clock.now_us + 50_000, lambda: None)
        stage.pass_us(10_000)
        assert stage.after == 1
        cancel()
        stage.pass_us(100_000)
        assert stage.after == 1  # Nothing fired, so nothing follows.

    def test_one_that_fails_does_not_take_the_others_with_it(self) -> None:
        stage = HandStage()
        fired: list[str] = []

        def fail() -> None:
            raise KeyError("unexpected")

        stage.timers.at(stage.clock.now_us + 1_000, fail)
        stage.timers.at(stage.clock.now_us + 1_000, lambda: fired.append("with it"))
        stage.timers.at(stage.clock.now_us + 5_000, lambda: fired.append("after it"))
        with pytest.raises(KeyError):
            stage.pass_us(3_000)
        assert stage.after == 1
        stage.pass_us(20_000)
        assert fired == ["with it", "after it"]

    def test_when_the_clock_was_moved_what_is_due_fires_at_once_and_the_rest_in_time(self) -> None:
        stage = HandStage()
        fired: list[str] = []
        for name, delay_us in (("soon", 5_000), ("later", 60_000)):
            stage.timers.at(stage.clock.now_us + delay_us, lambda name=name: fired.append(name))  # type: ignore[misc]
        stage.clock.now_us += 50_000
        stage.timers.catch_up()
        assert (fired, stage.after) == (["soon"], 1)
        stage.pass_us(20_000)
        assert fired == ["soon", "later"]

    def test_what_firing_adds_keeps_nobody_who_was_there_before_however_long_it_is_due(self) -> None:
        stage = HandStage()
        fired: list[str] = []
        began_us = stage.clock.now_us

        def first() -> None:
            fired.append("first")
            stage.timers.at(began_us, lambda: fired.append("added"))

        stage.timers.at(began_us + 1_000, first)
        stage.timers.at(began_us + 2_000, lambda: fired.append("second"))
        stage.clock.now_us += 50_000
        stage.timers.catch_up()
        assert fired == ["first", "second"]
        stage.pass_us(2_000)
        assert fired == ["first", "second", "added"]

    def test_none_fires_after_closing(self) -> None:
        stage = HandStage()
        fired: list[str] = []
        stage.timers.at(stage.clock.now_us + 1_000, lambda: fired.append("before"))
        stage.timers.close()
        stage.timers.at(stage.clock.now_us + 1_000, lambda: fired.append("after"))
        stage.pass_us(100_000)
        assert fired == []

    def test_cancelled_ones_are_not_kept_for_ever(self) -> None:
        stage = HandStage()
        for _ in range(10_000):
            stage.timers.at(stage.clock.now_us + 3_600_000_000, lambda: None)()
        assert len(stage.timers._heap) <= 1025


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made: asyncio.AbstractEventLoop = request.param()
    yield made
    made.close()


def test_a_real_loop_fires_them_neither_early_nor_never(loop: asyncio.AbstractEventLoop) -> None:
    from headrace.clock import SystemClock

    clock = SystemClock()
    timers = LoopTimers(loop, clock, after=lambda: None)
    late_us: list[int] = []

    async def wait() -> None:
        done = loop.create_future()
        for delay_us in (0, 500, 1_000, 1_500, 10_000):
            due_us = clock.mono_us() + delay_us

            def fire(due_us: int = due_us) -> None:
                late_us.append(clock.mono_us() - due_us)
                if len(late_us) == 5:
                    done.set_result(None)

            timers.at(due_us, fire)
        async with asyncio.timeout(30):
            await done

    loop.run_until_complete(wait())
    timers.close()
    assert min(late_us) >= 0
