from hypothesis import given
from hypothesis import strategies as st

from headrace.node.meters import TICK_US, Histogram, Meter, bucket_floor

values = st.integers(min_value=0, max_value=2**36 - 1)


@given(values)
def test_a_value_lies_in_its_bucket_and_the_bucket_is_narrow(value: int) -> None:
    histogram = Histogram()
    histogram.record(value)
    index = histogram.counts.index(1)
    low, high = bucket_floor(index), bucket_floor(index + 1)
    assert low <= value < high
    assert high - low == 1 or (high - low) * 16 <= low


@given(st.lists(values, min_size=1), st.floats(min_value=0, max_value=1))
def test_a_quantile_is_close_to_the_value_of_that_rank(recorded: list[int], share: float) -> None:
    histogram = Histogram()
    for value in recorded:
        histogram.record(value)
    rank = next(rank for rank in range(len(recorded)) if rank + 1 >= share * len(recorded))
    exact = sorted(recorded)[rank]
    assert abs(histogram.snapshot().quantile(share) - exact) <= exact / 32 + 0.5


@given(st.lists(values), st.lists(values))
def test_merging_is_recording_both(ours: list[int], theirs: list[int]) -> None:
    left, right, both = Histogram(), Histogram(), Histogram()
    for value in ours:
        left.record(value)
        both.record(value)
    for value in theirs:
        right.record(value)
        both.record(value)
    left.merge(right)
    assert left.snapshot() == both.snapshot()


@given(
    st.lists(st.integers(min_value=0, max_value=10**9), max_size=60), st.integers(min_value=0, max_value=TICK_US - 1)
)
def test_the_window_counts_what_its_ticks_counted(counted: list[int], into_tick_us: int) -> None:
    meter = Meter(now_us=0)
    for tick, count in enumerate(counted, start=1):
        meter.count += count
        meter.settle(tick, since=tick - 1)
    now_us = len(counted) * TICK_US + into_tick_us
    window_us = min(now_us, 12 * TICK_US + into_tick_us)
    rates = meter.rates(now_us=now_us)
    assert rates.counted == sum(counted)
    if window_us:
        assert round(rates.per_s_window * window_us / 1_000_000) == sum(counted[-12:])
    assert rates.per_s_ewma <= max(counted, default=0) / 5
