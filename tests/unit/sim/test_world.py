"""The seeded world: order, time and replay."""

import pytest

from headrace.ports import Clock, Timers
from headrace.sim.world import SimClock, SimTimers, World


def test_events_happen_in_the_order_of_their_times_and_then_of_their_making() -> None:
    world = World(1)
    order: list[str] = []
    world.at(20, lambda: order.append("late"))
    world.at(10, lambda: order.append("first at ten"))
    world.at(10, lambda: order.append("second at ten"))
    world.at(0, lambda: order.append("at once"))
    assert order == []
    world.run_until_idle()
    assert order == ["at once", "first at ten", "second at ten", "late"]
    assert world.mono_us() == 20


def test_what_is_overdue_fires_now_and_time_does_not_go_back() -> None:
    world = World(1)
    world.run_until(1000)
    seen: list[int] = []
    world.at(5, lambda: seen.append(world.mono_us()))
    assert seen == []
    assert world.step()
    assert seen == [1000]
    assert not world.step()


def test_running_until_a_time_includes_it_and_lets_it_pass() -> None:
    world = World(1)
    seen: list[int] = []
    for mono_us in (5, 10, 11):
        world.at(mono_us, lambda: seen.append(world.mono_us()))
    world.run_until(10)
    assert (seen, world.mono_us()) == ([5, 10], 10)
    world.run_until(10)
    world.run_until(3)
    assert (seen, world.mono_us()) == ([5, 10], 10)
    world.run_until(100)
    assert (seen, world.mono_us()) == ([5, 10, 11], 100)


def test_a_cancelled_event_does_not_happen_and_no_time_passes_for_it() -> None:
    world = World(1)
    seen: list[str] = []
    cancel = world.at(10, lambda: seen.append("cancelled"))
    fired = world.at(5, lambda: seen.append("fired"))
    cancel()
    cancel()
    world.run_until_idle()
    fired()
    assert (seen, world.mono_us(), world.steps) == (["fired"], 5, 1)


def test_an_event_can_cancel_another_that_is_due_at_the_same_time() -> None:
    world = World(1)
    seen: list[str] = []
    world.at(5, lambda: cancel())
    cancel = world.at(5, lambda: seen.append("cancelled"))
    world.run_until_idle()
    assert seen == []


def test_waiting_for_what_never_happens_fails_instead_of_hanging() -> None:
    world = World(1)
    with pytest.raises(AssertionError, match="seed=1"):
        world.run_until_true(lambda: False)

    def again() -> None:
        world.after(1, again)

    again()
    with pytest.raises(AssertionError, match="never held"):
        world.run_until_true(lambda: False, steps_max=100)
    with pytest.raises(AssertionError, match="still busy"):
        world.run_until_idle(steps_max=100)
    world.run_until_true(lambda: world.mono_us() >= 500)
    assert world.mono_us() == 500


def history(seed: int) -> str:
    world = World(seed)

    def act(turn: int) -> None:
        world.trace(f"turn {turn}")
        if turn < 50:
            for _ in range(world.random.randrange(3)):
                world.after(world.delay_us(least=10, most=10_000), lambda: act(turn + 1))

    for _ in range(10):
        act(0)
    world.run_until_idle(steps_max=20_000)
    return world.trace_hash()


def test_a_seed_is_a_history() -> None:
    hashes = [history(seed) for seed in range(20)]
    assert [history(seed) for seed in range(20)] == hashes
    assert len(set(hashes)) == 20


def test_what_is_traced_is_in_the_hash() -> None:
    one, other = World(1), World(1)
    one.trace("append 5")
    other.trace("append 6")
    assert one.trace_hash() != other.trace_hash()


def test_latencies_stay_in_their_bounds_and_spread_over_magnitudes() -> None:
    world = World(3)
    delays = [world.delay_us(least=10, most=100_000) for _ in range(2000)]
    assert 10 <= min(delays) <= 20
    assert 50_000 <= max(delays) <= 100_000
    assert 300 <= sum(delay < 100 for delay in delays) <= 700  # A quarter, being one decade of four.
    assert world.delay_us(least=7, most=7) == 7


def test_wall_and_monotonic_time_move_apart() -> None:
    world = World(1)
    right: Clock = SimClock(world)
    wrong = SimClock(world, wall_shift_ms=-5000)
    start_ms = right.wall_ms()
    assert wrong.wall_ms() == start_ms - 5000
    world.run_until(2_000_000)
    wrong.move_wall_ms(60_000)
    assert right.wall_ms() == start_ms + 2000
    assert wrong.wall_ms() == start_ms + 57_000
    assert right.mono_us() == wrong.mono_us() == 2_000_000


def test_the_timers_of_a_process_end_with_it() -> None:
    world = World(1)
    before = SimTimers(world)
    after: Timers = SimTimers(world)
    seen: list[str] = []
    before.at(5, lambda: seen.append("alive"))
    before.at(10, lambda: seen.append("dead"))
    after.at(10, lambda: seen.append("another life"))
    cancel = after.at(10, lambda: seen.append("cancelled"))
    world.run_until(7)
    before.end()
    cancel()
    world.run_until_idle()
    assert seen == ["alive", "another life"]
