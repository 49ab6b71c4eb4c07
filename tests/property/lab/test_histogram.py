"""A histogram against the sorted values themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.histogram import VALUE_NS_MAX, Histogram, bucket_range_ns, buckets_of

VALUES = st.lists(st.integers(0, VALUE_NS_MAX), min_size=1, max_size=60)


def histogram_of(values: list[int]) -> Histogram:
    made = Histogram()
    made.add(np.array(values, np.int64))
    return made


@given(VALUES, st.floats(0, 1))
def test_a_quantile_is_the_value_of_that_rank_or_little_more(values: list[int], share: float) -> None:
    exact = sorted(values)[max(0, int(np.ceil(share * len(values))) - 1)]
    found = histogram_of(values).quantile_ns(share)
    assert found is not None
    assert exact <= found <= exact + exact / 128


@given(VALUES, VALUES)
def test_a_sum_of_histograms_is_the_histogram_of_all(some: list[int], others: list[int]) -> None:
    merged = histogram_of(some)
    merged.merge(histogram_of(others))
    assert merged == histogram_of(some + others)


@given(st.integers(0, VALUE_NS_MAX))
def test_every_value_has_its_bucket(value: int) -> None:
    low, high = bucket_range_ns(int(buckets_of(np.array([value]))[0]))
    assert low <= value <= high
