"""When messages are due: each schedule's moments, the shares of several senders, and the plan that a sender follows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.lab.schedule import (
    SECOND_NS,
    Bursts,
    Constant,
    Int64s,
    Plan,
    PlannedCount,
    Poisson,
    Replay,
    Schedule,
    Unpaced,
    every_nth,
    first_messages,
    read_stamps_ns,
    share_of,
    until,
)

SCHEDULES: dict[str, Schedule] = {
    "constant": Constant(1000.0),
    "poisson": Poisson(1000.0, seed=7),
    "bursts": Bursts(1000.0, burst_messages=64),
    "replay": Replay(np.array([5, 9, 9, 30, 31]) * SECOND_NS // 1000),
}


def moments(schedule: Schedule, count: int) -> Int64s:
    blocks = first_messages(schedule.blocks(), count)
    return np.concatenate([*blocks])


@pytest.mark.parametrize("name", SCHEDULES)
def test_moments_rise_begin_at_once_and_are_the_same_each_time(name: str) -> None:
    found = moments(SCHEDULES[name], 50_000)
    assert len(found) == 50_000
    assert (np.diff(found) >= 0).all()
    assert 0 <= found[0] < SECOND_NS
    assert (found == moments(SCHEDULES[name], 50_000)).all()


@pytest.mark.parametrize("name", ["constant", "bursts"])
def test_the_mean_rate_is_exact(name: str) -> None:
    count = PlannedCount(SCHEDULES[name].blocks())
    assert count.before(64 * SECOND_NS) == pytest.approx(64_000, abs=64)


def test_constant_gaps_do_not_drift() -> None:
    found = moments(Constant(3.0), 200_000)
    assert found[3 * 60_000] == 60_000 * SECOND_NS
    assert set(np.diff(found).tolist()) <= {333_333_333, 333_333_334, 333_333_332}


@pytest.mark.parametrize("rate", [7, 1_000, 100_000, 250_000, 420_000, 999_983])
def test_a_second_holds_exactly_its_messages(rate: int) -> None:
    count = PlannedCount(Constant(float(rate)).blocks())
    assert [count.before(second * SECOND_NS) for second in range(1, 7)] == [second * rate for second in range(1, 7)]


def test_poisson_gaps_are_exponential_and_the_seed_decides() -> None:
    gaps = np.diff(moments(SCHEDULES["poisson"], 40_000))
    # The mean of 40,000 such gaps is within 2.5% but for once in two million.
    assert gaps.mean() == pytest.approx(1_000_000, rel=0.025)
    assert gaps.std() == pytest.approx(1_000_000, rel=0.05)
    assert np.mean(gaps > 1_000_000) == pytest.approx(np.exp(-1), abs=0.015)
    assert (moments(Poisson(1000.0, seed=8), 100) != moments(Poisson(1000.0, seed=7), 100)).any()


def test_a_burst_is_due_at_one_moment() -> None:
    found = moments(SCHEDULES["bursts"], 640).reshape(10, 64)
    assert (found == found[:, :1]).all()
    assert (np.diff(found[:, 0]) == 64_000_000).all()


def test_a_replay_keeps_the_gaps_and_goes_on_after_the_end() -> None:
    found = moments(SCHEDULES["replay"], 10) // 1_000_000
    assert found.tolist() == [0, 4, 4, 25, 26, 32, 36, 36, 57, 58]  # The mean gap is 6.5 ms.


def test_a_replay_can_be_faster_or_have_a_rate() -> None:
    stamps = np.array([0, 2, 4, 6]) * SECOND_NS
    assert moments(Replay(stamps, speed=2.0), 4).tolist() == [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS]
    assert PlannedCount(Replay(stamps, rate_per_s=100.0).blocks()).before(10 * SECOND_NS) == 1000


def test_a_log_that_goes_back_in_time_does_not() -> None:
    found = moments(Replay(np.array([0, 5, 3, 9]) * SECOND_NS), 4)
    assert (found // SECOND_NS).tolist() == [0, 5, 5, 9]


def test_a_log_of_one_moment_cannot_be_replayed() -> None:
    with pytest.raises(ConfigError, match="nothing to replay"):
        next(Replay(np.array([5, 5, 5])).blocks())


# --- Stamps ------------------------------------------------------------------------------------------------------


def test_stamps_of_a_web_log_are_spread_over_their_second() -> None:
    lines = [
        b'a - - [01/Jul/1995:00:00:00 -0400] "GET / HTTP/1.0" 200 1',
        b'b - - [01/Jul/1995:00:00:00 -0400] "GET / HTTP/1.0" 200 1',
        b'c - - [01/Jul/1995:00:00:03 -0400] "GET / HTTP/1.0" 200 1',
    ]
    found = read_stamps_ns(lines)
    start_ns = int(datetime(1995, 7, 1, 4, tzinfo=UTC).timestamp()) * SECOND_NS
    assert (found - start_ns).tolist() == [0, SECOND_NS // 2, 3 * SECOND_NS]


def test_stamps_in_front_of_a_line_keep_their_decimals() -> None:
    lines = [b"2012-02-22T16:46:28.9670320+00:00\t1\t2", b"2012-02-22T16:46:28.9770284+00:00\t1\t2"]
    assert np.diff(read_stamps_ns(lines)).tolist() == [9_996_400]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([b"no time here", b"nor here"], "line 1 has no time"),
        ([b"2012-02-22T16:46:28+00:00 a", b""], "line 2 has no time"),
        ([b"2012-02-22T16:46:28 a", b"2012-02-22T16:46:29 b"], "without a zone"),
        ([b"2012-02-22T16:46:28Z a"], "1 lines"),
    ],
)
def test_what_has_no_stamps_is_told(lines: list[bytes], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_stamps_ns(lines)


# --- Shares and plans --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("senders", [1, 2, 3, 7])
def test_senders_together_follow_the_schedule_exactly(name: str, senders: int) -> None:
    whole = moments(SCHEDULES[name], 20_011)
    shares = [
        np.concatenate([*every_nth(first_messages(SCHEDULES[name].blocks(), 20_011), first=n, step=senders)])
        for n in range(senders)
    ]
    assert [len(share) for share in shares] == [share_of(20_011, first=n, step=senders) for n in range(senders)]
    for number, share in enumerate(shares):
        assert (share == whole[number::senders]).all()


def test_until_stops_before_the_end() -> None:
    found = np.concatenate([*until(Constant(1000.0).blocks(), 2 * SECOND_NS)])
    assert len(found) == 2000
    assert found[-1] < 2 * SECOND_NS


def blocks_of(*blocks: list[int]) -> Iterator[Int64s]:
    return (np.array(block, np.int64) for block in blocks)


def test_a_plan_gives_what_is_due_and_keeps_what_was_not_taken() -> None:
    plan = Plan(blocks_of([10, 20, 30], [], [40, 50]))
    assert plan.next_ns == 10
    assert plan.due(5, limit=9).tolist() == []
    assert plan.due(25, limit=9).tolist() == [10, 20]
    plan.take(1)
    assert plan.due(25, limit=9).tolist() == [20]
    assert plan.due(99, limit=1).tolist() == [20]
    plan.take(2 - 1)
    assert plan.due(99, limit=9).tolist() == [30]
    plan.take(1)
    assert plan.due(99, limit=9).tolist() == [40, 50]
    plan.take(2)
    assert plan.next_ns is None
    assert plan.due(99, limit=9).tolist() == []


def test_what_was_planned_is_counted_apart_from_what_was_taken() -> None:
    count = PlannedCount(blocks_of([10, 20], [], [20, 30], [90]))
    assert [count.before(moment) for moment in (0, 10, 11, 20, 21, 90, 91, 500)] == [0, 0, 1, 1, 3, 4, 5, 5]


def test_without_a_plan_everything_is_due_now_until_the_end() -> None:
    plan = Unpaced(end_ns=100, messages=None)
    assert plan.due(7, limit=3).tolist() == [7, 7, 7]
    plan.take(3)
    assert plan.next_ns == 7
    assert plan.due(100, limit=3).tolist() == []
    assert plan.next_ns is None


def test_without_a_plan_a_number_of_messages_is_an_end_too() -> None:
    plan = Unpaced(end_ns=None, messages=5)
    plan.take(len(plan.due(1, limit=3)))
    assert plan.due(2, limit=3).tolist() == [2, 2]
    plan.take(2)
    assert plan.next_ns is None


def test_blocks_have_no_end() -> None:
    for schedule in SCHEDULES.values():
        assert len([*islice(schedule.blocks(), 20)]) == 20
