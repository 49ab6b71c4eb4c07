"""What every implementation of the Timers port must do; run by the tests of each."""

from typing import Protocol

from headrace.ports import Clock, Timers


class TimersStage(Protocol):
    timers: Timers
    clock: Clock

    def pass_us(self, elapsed_us: int) -> None:
        """Let so much time pass, and fire what is due."""
        ...


class TimersContract:
    """Inherit with a `stage` fixture."""

    def test_nothing_fires_before_its_time(self, stage: TimersStage) -> None:
        start_us = stage.clock.mono_us()
        fired: list[int] = []
        stage.timers.at(start_us + 10_000, lambda: fired.append(stage.clock.mono_us()))
        stage.pass_us(5_000)
        assert fired == []
        stage.pass_us(10_000)
        assert len(fired) == 1
        assert fired[0] >= start_us + 10_000

    def test_nothing_fires_inside_the_call_that_asked(self, stage: TimersStage) -> None:
        fired: list[str] = []
        stage.timers.at(stage.clock.mono_us(), lambda: fired.append("now"))
        stage.timers.at(stage.clock.mono_us() - 1_000_000, lambda: fired.append("long ago"))
        assert fired == []
        stage.pass_us(10_000)
        assert sorted(fired) == ["long ago", "now"]

    def test_they_fire_in_the_order_of_their_times_then_of_their_making(self, stage: TimersStage) -> None:
        start_us = stage.clock.mono_us()
        order: list[str] = []
        for name, delay_us in (("d", 3_000), ("b", 2_000), ("a", 1_000), ("c", 2_000)):
            stage.timers.at(start_us + delay_us, lambda name=name: order.append(name))  # type: ignore[misc]
        stage.pass_us(20_000)
        assert order == ["a", "b", "c", "d"]

    def test_each_fires_once(self, stage: TimersStage) -> None:
        fired: list[int] = []
        stage.timers.at(stage.clock.mono_us() + 1_000, lambda: fired.append(1))
        stage.pass_us(10_000)
        stage.pass_us(10_000)
        assert fired == [1]

    def test_a_cancelled_one_does_not_fire(self, stage: TimersStage) -> None:
        fired: list[str] = []
        cancel = stage.timers.at(stage.clock.mono_us() + 1_000, lambda: fired.append("cancelled"))
        stage.timers.at(stage.clock.mono_us() + 1_000, lambda: fired.append("other"))
        cancel()
        cancel()
        stage.pass_us(10_000)
        assert fired == ["other"]

    def test_cancelling_what_has_fired_does_nothing(self, stage: TimersStage) -> None:
        fired: list[str] = []
        cancel = stage.timers.at(stage.clock.mono_us(), lambda: fired.append("fired"))
        stage.pass_us(10_000)
        cancel()
        stage.timers.at(stage.clock.mono_us(), lambda: fired.append("later"))
        stage.pass_us(10_000)
        assert fired == ["fired", "later"]

    def test_one_may_cancel_another_that_is_due_with_it(self, stage: TimersStage) -> None:
        due_us = stage.clock.mono_us() + 1_000
        fired: list[str] = []
        stage.timers.at(due_us, lambda: cancel())
        cancel = stage.timers.at(due_us, lambda: fired.append("cancelled"))
        stage.pass_us(10_000)
        assert fired == []

    def test_one_may_ask_for_the_next(self, stage: TimersStage) -> None:
        fired: list[int] = []

        def again() -> None:
            fired.append(stage.clock.mono_us())
            if len(fired) < 3:
                stage.timers.at(stage.clock.mono_us() + 1_000, again)

        stage.timers.at(stage.clock.mono_us(), again)
        for _ in range(4):
            stage.pass_us(5_000)
        assert len(fired) == 3
        assert fired == sorted(fired)

    def test_one_that_asks_for_itself_at_once_does_not_keep_others_waiting(self, stage: TimersStage) -> None:
        fired: list[str] = []

        def again() -> None:
            fired.append("again")
            if len(fired) < 50:
                stage.timers.at(stage.clock.mono_us(), again)

        now_us = stage.clock.mono_us()
        stage.timers.at(now_us, again)
        stage.timers.at(now_us, lambda: fired.append("other"))
        stage.pass_us(10_000)
        assert fired.index("other") == 1

    def test_the_farthest_future_is_far(self, stage: TimersStage) -> None:
        fired: list[str] = []
        stage.timers.at(2**63 * 1000, lambda: fired.append("never"))
        stage.timers.at(stage.clock.mono_us() + 1_000, lambda: fired.append("soon"))
        stage.pass_us(10_000)
        assert fired == ["soon"]

    def test_thousands_cancelled_leave_the_others(self, stage: TimersStage) -> None:
        start_us = stage.clock.mono_us()
        fired: list[int] = []
        cancels = [
            stage.timers.at(start_us + 1_000 + n, lambda n=n: fired.append(n))  # type: ignore[misc]
            for n in range(5_000)
        ]
        for n, cancel in enumerate(cancels):
            if n % 100:
                cancel()
        stage.pass_us(20_000)
        assert fired == list(range(0, 5_000, 100))
