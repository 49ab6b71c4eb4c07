"""An interval with 95% confidence holds the truth in 95% of experiments: within what chance allows of 95%."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.intervals import mean_interval, median_interval, ratio_interval

EXPERIMENTS = 1500
VALUES = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=20)
# Five standard deviations of a count of hits, as a share.
SLACK = 5 * math.sqrt(0.95 * 0.05 / EXPERIMENTS)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_mean_is_covered(count: int) -> None:
    random = np.random.default_rng(count)
    hits = sum(mean_interval(random.normal(50, 4, count).tolist()).contains(50) for _ in range(EXPERIMENTS))
    assert hits / EXPERIMENTS == pytest.approx(0.95, abs=SLACK)


@pytest.mark.parametrize("count", [6, 11])
def test_a_median_is_covered_whatever_the_distribution(count: int) -> None:
    random = np.random.default_rng(count)
    median = math.log(2)  # Of the exponential distribution.
    hits = sum(median_interval(random.exponential(1, count).tolist()).contains(median) for _ in range(EXPERIMENTS))
    assert hits / EXPERIMENTS >= 0.95 - SLACK


def test_a_ratio_is_covered() -> None:
    random = np.random.default_rng(3)
    hits = sum(
        ratio_interval(random.normal(200, 8, 5).tolist(), random.normal(100, 2, 4).tolist()).contains(2.0)
        for _ in range(EXPERIMENTS)
    )
    assert hits / EXPERIMENTS == pytest.approx(0.95, abs=SLACK + 0.01)  # The delta method is an approximation.


@given(VALUES, st.floats(0.5, 2.0))
def test_intervals_do_not_depend_on_the_unit(values: list[float], times: float) -> None:
    one, other = mean_interval(values), mean_interval([value * times for value in values])
    assert other.share == pytest.approx(one.share, rel=1e-6, abs=1e-9)
    assert one.contains(one.value)


@given(VALUES)
def test_more_confidence_is_never_narrower(values: list[float]) -> None:
    for interval in (mean_interval, median_interval):
        wide, narrow = interval(values, confidence=0.99), interval(values, confidence=0.8)
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high
