"""The search for a ceiling, on a sink whose ceiling is known."""

import random

import pytest

from headrace.lab.errors import LabError
from headrace.lab.results import PASSED, RepeatLine, Steady
from headrace.lab.search import RateSearch, Trial, judge

LIMIT = 37_000.0


def line(rate_per_s: float, **changes: object) -> RepeatLine:
    steady = Steady(is_steady=True, variation=0.001, slope_per_minute=0.0)
    made = {"cell": {}, "repeat": 0, "metrics": {"rate_per_s": rate_per_s}, "steady": steady, "gate": {}, **changes}
    return RepeatLine(**made)  # type: ignore[arg-type]


def sink(planned_per_s: float, *, limit_per_s: float = LIMIT) -> Trial:
    """What is planned comes through, up to the limit."""
    return judge(line(min(planned_per_s, limit_per_s)), planned_per_s=planned_per_s)


def searched(search: RateSearch, limit_per_s: float = LIMIT) -> RateSearch:
    while (rate_per_s := search.next_rate_per_s) is not None:
        search.tell(sink(rate_per_s, limit_per_s=limit_per_s))
        assert len(search.trials) < 100
    return search


@pytest.mark.parametrize("start_per_s", [1.0, 100.0, 36_999.0, 37_001.0, 250_000.0, 5_000_000.0])
def test_it_finds_a_sink_limited_to_37_000_within_3_percent(start_per_s: float) -> None:
    assert searched(RateSearch(start_per_s)).found_per_s == pytest.approx(LIMIT, rel=0.03)


def test_it_converges_for_any_limit_and_start() -> None:
    chance = random.Random(7)
    for _ in range(300):
        limit_per_s, start_per_s = 10 ** chance.uniform(3, 6.5), 10 ** chance.uniform(3, 6)
        search = searched(RateSearch(start_per_s), limit_per_s)
        assert search.found_per_s == pytest.approx(limit_per_s, rel=0.03)
        assert len(search.trials) < 50


def test_one_stall_does_not_end_it_below_the_truth() -> None:
    search, chance = RateSearch(10_000.0), random.Random(3)
    while (rate_per_s := search.next_rate_per_s) is not None:
        is_stalled = len(search.trials) % 2 == 0 and chance.random() < 0.9  # Never twice in a row.
        search.tell(Trial(rate_per_s=rate_per_s, is_held=False, why="a stall") if is_stalled else sink(rate_per_s))
    assert search.found_per_s == pytest.approx(LIMIT, rel=0.03)


def test_a_sink_without_a_limit_ends_it_at_the_most_there_is() -> None:
    assert searched(RateSearch(1e6), 1e12).found_per_s == 20e6


def test_a_sink_that_takes_nothing_is_told() -> None:
    search = searched(RateSearch(1_000.0), limit_per_s=0.0)
    with pytest.raises(LabError, match="no rate was held; the last trial, 0/s: not held, reached 0/s"):
        _ = search.found_per_s


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (line(980.0), "reached 980/s"),
        (line(1000.0, partial="node died"), "node died"),
        (
            line(1000.0, steady=Steady(is_steady=False, variation=0.2, slope_per_minute=-0.05)),
            "not steady: varies by 20.0%, slope -5.0% a minute",
        ),
        (
            line(1000.0, gate={"rate_per_s": "other processes took 40% of the CPU"}),
            "other processes took 40% of the CPU",
        ),
        (line(0.0, metrics={}), "reached 0/s"),
    ],
)
def test_what_is_not_held(made: RepeatLine, why: str) -> None:
    assert judge(made, planned_per_s=1000.0) == Trial(rate_per_s=1000.0, is_held=False, why=why)


def test_what_is_held() -> None:
    too_short = Steady(is_steady=None, variation=0.0, slope_per_minute=0.0)
    for made in (
        line(995.0),
        line(1000.0, gate={"rate_per_s": PASSED, "send_latency_p99_ms": "late"}, steady=too_short),
    ):
        assert judge(made, planned_per_s=1000.0).is_held
