"""Intervals against values from tables."""

import math

import pytest

from headrace.lab.intervals import (
    Interval,
    Spread,
    mean_interval,
    means_beyond,
    median_interval,
    paired_interval,
    ratio_interval,
    slope_interval,
    spread_of,
)


def test_of_a_mean_it_is_students() -> None:
    # Mean 10, standard deviation 1, and t(4, 97.5%) = 2.776.
    values = [10 + each * math.sqrt(0.4) for each in (-2, -1, 0, 1, 2)]
    found = mean_interval(values)
    assert found.value == pytest.approx(10)
    assert found.high - 10 == pytest.approx(2.776 / math.sqrt(5), abs=1e-3)
    assert 10 - found.low == pytest.approx(found.high - 10)
    assert found.share == pytest.approx((found.high - 10) / 10)


def test_of_a_slope_it_is_students_about_the_line() -> None:
    # Slope 2, and 1, -1, -1, 1 are left: s^2 = 4 / 2, over a reach of 5; t(2, 97.5%) = 4.303.
    found = slope_interval([1.0, 1.0, 3.0, 7.0])
    assert found.value == pytest.approx(2.0)
    assert found.high - 2.0 == pytest.approx(4.303 * math.sqrt(2 / 5), abs=1e-3)
    assert 2.0 - found.low == pytest.approx(found.high - 2.0)
    assert found.count == 4
    assert slope_interval([5.0, 3.0, 1.0]) == Interval(value=-2.0, low=-2.0, high=-2.0, count=3)
    for few, slope in (([3.0, 5.0], 2.0), ([3.0], 0.0)):
        assert slope_interval(few).value == slope
        assert not slope_interval(few).is_known


def test_of_one_value_nothing_is_known() -> None:
    for found in (mean_interval([3.0]), median_interval([3.0])):
        assert found.value == 3.0
        assert not found.is_known
        assert found.share == math.inf
        assert found.to_json() == {"value": 3.0, "low": None, "high": None, "count": 1}


def test_of_a_median_it_is_between_order_statistics() -> None:
    # By tables of the sign test: 6 values, the outermost; 10 values, the second of each end; 5 are too few.
    assert not median_interval(range(5)).is_known
    assert (median_interval(range(6)).low, median_interval(range(6)).high) == (0, 5)
    assert (median_interval(range(10)).low, median_interval(range(10)).high) == (1, 8)


def test_of_a_ratio_both_ways_say_the_same() -> None:
    fast, slow = [210.0, 190.0, 200.0], [101.0, 99.0, 100.0, 100.0]
    found, back = ratio_interval(fast, slow), ratio_interval(slow, fast)
    assert found.value == pytest.approx(2.0)
    assert back.low == pytest.approx(1 / found.high)
    assert found.contains(2.0)
    assert not found.contains(1.0)
    assert found.count == 3


def test_a_ratio_of_what_never_varies_is_exact() -> None:
    assert ratio_interval([4.0, 4.0], [2.0, 2.0]) == Interval(value=2.0, low=2.0, high=2.0, count=2)
    assert not ratio_interval([4.0], [2.0, 2.0]).is_known


@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, 1.0]])
def test_of_nothing_and_of_no_number_there_is_none(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="interval"):
        mean_interval(bad)
    with pytest.raises(ValueError, match="interval"):
        ratio_interval([1.0], bad)


def test_a_ratio_needs_values_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        ratio_interval([1.0], [0.0, 1.0])


def test_nothing_at_all_varies_by_nothing() -> None:
    assert mean_interval([0.0, 0.0]).share == 0.0
    assert mean_interval([-1.0, 1.0]).share == math.inf


@pytest.mark.parametrize(
    ("count", "expected"), [(1, None), (5, None), (6, 0), (8, 3), (10, 8), (12, 13), (20, 52), (25, 89)]
)
def test_pairs_leave_out_as_many_means_as_wilcoxons_table_says(count: int, expected: int | None) -> None:
    """The table of signed ranks for 95%; fewer than six values never reach it."""
    assert means_beyond(count) == expected


def test_of_pairs_it_is_between_means_of_two() -> None:
    """Of eight values three means on either side do not count: with themselves, and the outermost with the next."""
    found = paired_interval([2.0**power for power in range(8)])
    assert (found.low, found.value, found.high) == pytest.approx((2**1.0, 2**3.5, 2**6.0))
    assert not paired_interval([1.0] * 5).is_known


def test_a_spread_keeps_the_median_and_both_ends() -> None:
    assert spread_of([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0, 3)
