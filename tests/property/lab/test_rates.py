"""Laws of rates, for any counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.rates import one_minute_rates, steadiness, window_rates

COUNTS = st.lists(st.integers(0, 1_000_000), min_size=1, max_size=200)


@given(COUNTS)
def test_the_one_minute_rate_stays_between_the_extremes(counts: list[int]) -> None:
    for shown in one_minute_rates(counts):
        assert shown is not None
        assert 0 <= shown <= max(counts) * (1 + 1e-9)


@given(COUNTS, st.integers(1, 80))
def test_a_window_is_the_mean_of_its_seconds(counts: list[int], window_s: int) -> None:
    for second, shown in enumerate(window_rates(counts, window_s=window_s)):
        if second + 1 < window_s:
            assert shown is None
        else:
            assert shown == pytest.approx(sum(counts[second + 1 - window_s : second + 1]) / window_s)


@given(st.lists(st.integers(1, 10_000), min_size=4, max_size=100), st.integers(2, 1000))
def test_steadiness_does_not_depend_on_the_unit(counts: list[int], times: int) -> None:
    one, other = steadiness(counts), steadiness([count * times for count in counts])
    assert other.variation == pytest.approx(one.variation, abs=1e-9)
    for end in ("low", "value", "high"):
        assert getattr(other.slope_per_min, end) == pytest.approx(getattr(one.slope_per_min, end), rel=1e-9, abs=1e-9)
    is_near = any(abs(abs(end) - 0.01) < 1e-6 for end in (one.slope_per_min.low, one.slope_per_min.high))
    assert one.is_steady == other.is_steady or abs(one.variation - 0.05) < 1e-9 or is_near
