"""How long things took: counts in log-linear buckets, in nanoseconds, which add up over seconds and processes.

Below 256 ns a bucket is one nanosecond wide; from there on each doubling has 128 buckets, so that a bucket is less than
0.8% of its values wide, up to two hours and a half. Largest, smallest and sum are exact. What a quantile says is the
upper end of a bucket, never below the truth: a latency is not flattered by rounding.

The buckets are HdrHistogram's. Its Python package is not used: it counts one value at a time, some 0.3 million a
second, and a sender at 400,000 messages a second counts three values for each. Counting whole arrays takes 50 ns a
value.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

_LINEAR_BITS: Final = 7  # Buckets in a doubling, as a power of two.
_LINEAR: Final = 1 << _LINEAR_BITS
_VALUE_BITS: Final = 43
VALUE_NS_MAX: Final = (1 << _VALUE_BITS) - 1
_BUCKETS: Final = (_VALUE_BITS - _LINEAR_BITS + 1) * _LINEAR


def buckets_of(values_ns: Int64s) -> Int64s:
    """The bucket of each value, which is between 0 and VALUE_NS_MAX."""
    _, bits = np.frexp(values_ns.astype(np.float64))  # Exact: no value has more than 53 bits.
    shifts = np.maximum(bits.astype(np.int64) - (_LINEAR_BITS + 1), 0)
    return (shifts << _LINEAR_BITS) + (values_ns >> shifts)


def bucket_range_ns(bucket: int) -> tuple[int, int]:
    """The smallest and the largest value of a bucket."""
    shift = max(0, (bucket >> _LINEAR_BITS) - 1)
    low = (bucket - (shift << _LINEAR_BITS)) << shift
    return low, low + (1 << shift) - 1


class Histogram:
    """Counts of durations. Equal ones hold the same counts."""

    __slots__ = ("_counts", "count", "max_ns", "min_ns", "sum_ns")

    def __init__(self) -> None:
        self._counts: Int64s | None = None  # Most of a quiet run's are empty, and an array is 37 KB.
        self.count = 0
        self.sum_ns = 0
        self.min_ns: int | None = None
        self.max_ns: int | None = None

    def add(self, values_ns: Int64s) -> None:
        """Values beyond the last bucket are counted in it; `max_ns` still tells."""
        if not len(values_ns):
            return
        low, high = int(values_ns.min()), int(values_ns.max())
        assert low >= 0, f"a duration of {low} ns"
        found = np.bincount(buckets_of(np.minimum(values_ns, VALUE_NS_MAX)), minlength=_BUCKETS)
        self._count(found.astype(np.int64, copy=False), len(values_ns), int(values_ns.sum()), low, high)

    def merge(self, other: Self) -> None:
        if other._counts is not None:
            assert other.min_ns is not None
            assert other.max_ns is not None
            self._count(other._counts, other.count, other.sum_ns, other.min_ns, other.max_ns)

    def _count(self, counts: Int64s, count: int, sum_ns: int, min_ns: int, max_ns: int) -> None:
        self._counts = counts.copy() if self._counts is None else self._counts + counts
        self.count += count
        self.sum_ns += sum_ns
        self.min_ns = min_ns if self.min_ns is None else min(self.min_ns, min_ns)
        self.max_ns = max_ns if self.max_ns is None else max(self.max_ns, max_ns)

    @property
    def mean_ns(self) -> float | None:
        return self.sum_ns / self.count if self.count else None

    def quantile_ns(self, share: float) -> int | None:
        """The value that this share of all values does not exceed; None where there are none."""
        if not 0 <= share <= 1:
            raise ValueError(f"{share=} is not between 0 and 1")
        if self._counts is None or self.max_ns is None:
            return None
        rank = max(1, int(np.ceil(share * self.count)))
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(bucket_range_ns(bucket)[1], self.max_ns) if bucket < _BUCKETS - 1 else self.max_ns

    def to_json(self) -> dict[str, Any]:
        """Only what is not zero: buckets by number, and the count of each."""
        counts = np.zeros(0, np.int64) if self._counts is None else self._counts
        filled = np.flatnonzero(counts)
        return {
            "count": self.count,
            "sum_ns": self.sum_ns,
            "min_ns": self.min_ns,
            "max_ns": self.max_ns,
            "buckets": filled.tolist(),
            "counts": counts[filled].tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        histogram = cls()
        if value["count"]:
            counts = np.zeros(_BUCKETS, np.int64)
            counts[value["buckets"]] = value["counts"]
            histogram._count(counts, value["count"], value["sum_ns"], value["min_ns"], value["max_ns"])
        return histogram

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self.to_json() == other.to_json()
