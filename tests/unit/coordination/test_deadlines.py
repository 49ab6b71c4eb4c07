import random

from headrace.coordination.deadlines import Deadlines
from headrace.coordination.decision import Timer, TimerKind


def timer(name: int | str) -> Timer:
    return Timer(TimerKind.SESSION, "group", str(name))


def drain(deadlines: Deadlines, now_us: int) -> list[str]:
    fired = []
    while (due := deadlines.due(now_us)) is not None:
        deadlines.cancel(due)
        fired.append(due.member_id)
    return fired


def test_deadlines_come_in_order_and_not_early() -> None:
    deadlines = Deadlines()
    for at_us in (30, 10, 20):
        deadlines.set(timer(at_us), at_us)
    assert deadlines.next_us() == 10
    assert deadlines.due(9) is None
    assert drain(deadlines, 20) == ["10", "20"]
    assert deadlines.next_us() == 30


def test_of_two_at_once_the_first_set_comes_first() -> None:
    deadlines = Deadlines()
    for name in "cab":
        deadlines.set(timer(name), 5)
    assert drain(deadlines, 5) == ["c", "a", "b"]


def test_what_is_due_stays_due_until_somebody_says_otherwise() -> None:
    deadlines = Deadlines()
    deadlines.set(timer("a"), 5)
    assert deadlines.due(5) == deadlines.due(6) == timer("a")
    deadlines.set(timer("a"), 7)
    assert deadlines.due(6) is None
    assert deadlines.due(7) == timer("a")


def test_a_deadline_moves_forward_and_back() -> None:
    deadlines = Deadlines()
    deadlines.set(timer("a"), 50)
    deadlines.set(timer("a"), 10)
    assert deadlines.next_us() == 10
    deadlines.set(timer("a"), 70)
    deadlines.set(timer("b"), 60)
    assert drain(deadlines, 69) == ["b"]
    assert drain(deadlines, 70) == ["a"]
    assert deadlines.next_us() is None


def test_a_cancelled_deadline_never_comes_and_may_be_set_again() -> None:
    deadlines = Deadlines()
    deadlines.set(timer("a"), 10)
    deadlines.cancel(timer("a"))
    deadlines.cancel(timer("a"))
    assert (len(deadlines), deadlines.next_us()) == (0, None)
    deadlines.set(timer("a"), 20)
    assert drain(deadlines, 100) == ["a"]


def test_putting_off_and_cancelling_take_no_memory() -> None:
    deadlines = Deadlines()
    for at_us in range(1_000_000, 1_010_000):
        deadlines.set(timer(at_us % 100), at_us)
    for at_us in range(2_000_000, 2_010_000):
        deadlines.set(timer(at_us), at_us)
        deadlines.cancel(timer(at_us))
    for at_us in range(1_000_000, 990_000, -1):
        deadlines.set(timer("falls"), at_us)
    assert len(deadlines) == 101
    assert len(deadlines._heap) < 500
    assert len(deadlines._queued_us) < 500


def test_any_history_ends_like_a_plain_dictionary() -> None:
    chance = random.Random(7)
    for _ in range(200):
        deadlines, plain, now_us = Deadlines(), dict[Timer, int](), 0
        for _ in range(300):
            name = timer(chance.randrange(12))
            if chance.random() < 0.7:
                plain[name] = now_us + chance.randrange(50)
                deadlines.set(name, plain[name])
            elif chance.random() < 0.5:
                plain.pop(name, None)
                deadlines.cancel(name)
            else:
                now_us += chance.randrange(20)
                due = deadlines.due(now_us)
                if due is None:
                    assert all(at_us > now_us for at_us in plain.values())
                else:
                    assert plain[due] == min(plain.values())
                    deadlines.cancel(due)
                    del plain[due]
            assert deadlines.next_us() == min(plain.values(), default=None)
            assert len(deadlines) == len(plain)
