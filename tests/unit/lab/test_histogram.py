"""Buckets, what they round to, and that sums of histograms are histograms of sums."""

import json
from itertools import pairwise

import numpy as np
import pytest

from headrace.lab.histogram import VALUE_NS_MAX, Histogram, bucket_range_ns, buckets_of


def histogram_of(*values_ns: int) -> Histogram:
    made = Histogram()
    made.add(np.array(values_ns, np.int64))
    return made


def test_buckets_follow_one_another_without_gap() -> None:
    edges = [bucket_range_ns(bucket) for bucket in range(2_000)]
    assert edges[0] == (0, 0)
    for (_, high), (low, _) in pairwise(edges):
        assert low == high + 1


@pytest.mark.parametrize("value", [0, 1, 255, 256, 257, 511, 512, 1_000_000, 123_456_789, VALUE_NS_MAX])
def test_a_value_is_within_its_bucket_which_is_narrow(value: int) -> None:
    low, high = bucket_range_ns(int(buckets_of(np.array([value]))[0]))
    assert low <= value <= high
    assert high - low <= value / 128


def test_quantiles_never_flatter() -> None:
    made = histogram_of(*range(1_000, 101_000, 1_000))
    assert made.quantile_ns(0.5) == pytest.approx(50_000, rel=0.008)
    assert (made.quantile_ns(0.5) or 0) >= 50_000
    assert (made.quantile_ns(0.99) or 0) >= 99_000
    assert made.quantile_ns(1.0) == made.max_ns == 100_000
    assert made.min_ns == 1_000
    assert made.mean_ns == 50_500


def test_one_value_is_every_quantile() -> None:
    made = histogram_of(7_777_777)
    assert [made.quantile_ns(share) for share in (0, 0.5, 0.999, 1)] == [7_777_777] * 4


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile_ns(0.99) is None
    assert Histogram().mean_ns is None


def test_what_is_beyond_the_last_bucket_still_shows() -> None:
    made = histogram_of(VALUE_NS_MAX * 4, 10)
    assert made.quantile_ns(0.99) == VALUE_NS_MAX * 4
    assert made.count == 2


def test_a_share_is_a_share() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        histogram_of(1).quantile_ns(99)


def test_json_there_and_back() -> None:
    made = histogram_of(5, 5, 70_000, 3_000_000_000)
    again = Histogram.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    assert Histogram.from_json(Histogram().to_json()) == Histogram()
    assert made != histogram_of(5)


def test_merging_leaves_the_other_alone() -> None:
    one, other = histogram_of(1, 2), histogram_of(3)
    one.merge(other)
    one.add(np.array([4]))
    assert one == histogram_of(1, 2, 3, 4)
    assert other == histogram_of(3)
