"""Medians, spreads and verdicts."""

import pytest

from bench.results import (
    MET,
    NOT_JUDGED,
    SHORT,
    Reading,
    Spread,
    at_most,
    calmest,
    disturbance,
    judge,
    spread_of,
    summarise,
    times_kafka,
)


def steady(value: float) -> Spread:
    return Spread(value, value, value, 3)


def test_a_spread_keeps_the_median_and_both_ends() -> None:
    assert spread_of([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0, 3)


def test_readings_are_gathered_by_row_system_and_metric() -> None:
    readings = [
        Reading(row="a", system="headrace", repeat=0, values={"start_s": 1.0}),
        Reading(row="a", system="headrace", repeat=1, values={"start_s": 3.0}),
        Reading(row="a", system="kafka", repeat=0, values={"start_s": 5.0}),
    ]
    assert summarise(readings) == {
        ("a", "headrace", "start_s"): Spread(2.0, 1.0, 3.0, 2),
        ("a", "kafka", "start_s"): Spread(5.0, 5.0, 5.0, 1),
    }


def test_of_each_row_the_attempt_that_was_disturbed_least_counts_whatever_it_measured() -> None:
    def reading(row: str, rate: float, **shares: float) -> Reading:
        return Reading(row=row, system="kafka", repeat=0, values={"messages_per_s": rate, **shares})

    fast = reading("a", 9.0, steal_share=0.03, others_cpu_share=0.0)
    slow = reading("a", 1.0, steal_share=0.01, others_cpu_share=0.04)
    other_first = reading("b", 1.0, steal_share=0.0, others_cpu_share=0.0)
    other_second = reading("b", 2.0, steal_share=0.01, others_cpu_share=0.0)
    assert calmest([fast, other_first, slow, other_second]) == [slow, other_first]
    assert disturbance(fast) > 1 > disturbance(slow)


@pytest.mark.parametrize(("ours", "result"), [(1.5, MET), (1.49, SHORT)])
def test_more_of_a_good_thing_must_reach_the_multiple(ours: float, result: str) -> None:
    verdict = judge(times_kafka("messages_per_s", 1.5), ours=steady(ours), rival=steady(1.0))
    assert (verdict.result, verdict.measured) == (result, ours)


@pytest.mark.parametrize(("ours", "result"), [(0.5, MET), (0.51, SHORT)])
def test_less_of_a_cost_must_stay_below_the_multiple(ours: float, result: str) -> None:
    assert judge(times_kafka("cpu_s_per_gb", 0.5), ours=steady(ours), rival=steady(1.0)).result == result


@pytest.mark.parametrize(("ours", "result"), [(60.0, MET), (60.1, SHORT)])
def test_an_absolute_bound_needs_no_rival(ours: float, result: str) -> None:
    assert judge(at_most("memory_mb_idle", 60), ours=steady(ours), rival=None).result == result


def test_what_was_not_measured_is_not_judged() -> None:
    assert judge(times_kafka("mb_per_s", 1), ours=None, rival=steady(1)).result == NOT_JUDGED
    assert judge(times_kafka("mb_per_s", 1), ours=steady(1), rival=None).result == NOT_JUDGED
    assert judge(times_kafka("mb_per_s", 1), ours=steady(1), rival=steady(0)).result == NOT_JUDGED


def test_overlapping_ranges_are_told_without_changing_the_result() -> None:
    verdict = judge(times_kafka("messages_per_s", 1.0), ours=Spread(9, 8, 11, 3), rival=Spread(10, 9.5, 12, 3))
    assert verdict.result == SHORT
    assert verdict.ranges_overlap
    assert "ranges overlap" in verdict.text()
