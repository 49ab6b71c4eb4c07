"""Histograms and meters that are cheap enough to be always on.

A histogram is a list of counts whose buckets widen with the value: sixteen to every power of two, so that any
quantile is known to about 3%, from a microsecond to hours. A meter is a count and its rate over the last minute.
Neither reads a clock, and recording costs one addition or two; the price is paid by whoever asks.

Knows nothing of requests or topics.
"""

from collections.abc import Sequence
from math import exp
from typing import Final, NamedTuple

_SUB_BITS: Final = 4  # Buckets to a power of two, as a power of two.
_SUBS: Final = 1 << _SUB_BITS
VALUE_BITS_MAX: Final = 36  # Larger values count as the largest: 19 hours in microseconds, 64 GiB in bytes.
_VALUE_MAX: Final = (1 << VALUE_BITS_MAX) - 1


def _index(value: int) -> int:
    """The bucket of a value: exact below 32, then sixteen to every power of two."""
    if value < 2 * _SUBS:
        return value
    shift = value.bit_length() - _SUB_BITS - 1
    return (shift << _SUB_BITS) + (value >> shift)


# Lookup beats arithmetic. Eight bits further up the pattern of buckets is the same, 8 x 16 buckets on.
SMALL_BITS: Final = 12
SMALL_MAX: Final = 1 << SMALL_BITS
SMALL: Final[tuple[int, ...]] = tuple(map(_index, range(SMALL_MAX)))
_MIDDLE_SHIFT: Final = 8
_MIDDLE_MAX: Final = 1 << (SMALL_BITS + _MIDDLE_SHIFT)
_MIDDLE_OFFSET: Final = _MIDDLE_SHIFT << _SUB_BITS


def large_index(value: int) -> int:
    """The bucket of a value that is not in `SMALL`."""
    if value < _MIDDLE_MAX:
        return SMALL[value >> _MIDDLE_SHIFT] + _MIDDLE_OFFSET
    return _index(value if value < _VALUE_MAX else _VALUE_MAX)


def bucket_floor(index: int) -> int:
    """The smallest value in a bucket."""
    if index < 2 * _SUBS:
        return index
    shift = (index >> _SUB_BITS) - 1
    return (index - (shift << _SUB_BITS)) << shift


BUCKETS: Final = _index(_VALUE_MAX) + 1


class Histogram:
    """Counts by value, of values that are not negative.

    `counts` and `total` are open to hot paths that cannot afford a call for each; they do as `record` does.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0

    def record(self, value: int) -> None:
        self.counts[SMALL[value] if value < SMALL_MAX else large_index(value)] += 1
        self.total += value

    def merge(self, other: "Histogram") -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def snapshot(self) -> "Distribution":
        return Distribution(tuple(self.counts), self.total)


class Distribution(NamedTuple):
    """A histogram at one moment. The mean is exact; quantiles are those of the bucket's middle."""

    counts: Sequence[int]
    total: int

    @property
    def recorded(self) -> int:
        return sum(self.counts)

    @property
    def mean(self) -> float:
        recorded = self.recorded
        return self.total / recorded if recorded else 0.0

    def quantile(self, share: float) -> float:
        """The value that a share of all recorded ones does not exceed; 0 where nothing was recorded."""
        assert 0 <= share <= 1
        wanted = share * self.recorded
        seen = 0
        for index, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return (bucket_floor(index) + bucket_floor(index + 1) - 1) / 2
        return 0.0

    def count_below(self, power_of_two: int) -> int:
        """How many values were smaller than a power of two: exact, for buckets never cross one."""
        assert power_of_two & (power_of_two - 1) == 0
        return sum(self.counts[: _index(power_of_two)])

    def since(self, earlier: "Distribution") -> "Distribution":
        """What was recorded between two snapshots of one histogram."""
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Distribution(counts, self.total - earlier.total)


TICK_US: Final = 5_000_000
_TICK_S: Final = TICK_US / 1_000_000
_WINDOW_TICKS: Final = 12
_MARKS: Final = _WINDOW_TICKS + 1
_KEEP: Final = exp(-_TICK_S / 60)  # What a tick leaves of the rate before it; Kafka's alpha is the rest.


class Rates(NamedTuple):
    """A meter at one moment."""

    counted: int
    per_s_ewma: float  # Kafka's one-minute rate: exponentially weighted, moved every five seconds.
    per_s_window: float  # Plain: what was counted in the last minute, by its length.


class Meter:
    """A count with one-minute rates. To count, add to `count`; time passes by `settle`, in ticks of five seconds."""

    __slots__ = ("_ewma", "_marks", "_settled", "_started_us", "_tick", "count")

    def __init__(self, *, now_us: int) -> None:
        self.count = 0
        self._settled = 0  # What of `count` the rates have seen.
        self._started_us = now_us
        self._tick = now_us // TICK_US  # The first that the rates have not seen the end of.
        self._ewma: float | None = None
        self._marks = [0] * _MARKS  # The count at the end of each of the last ticks, by tick modulo length.

    @property
    def is_settled(self) -> bool:
        return self.count == self._settled

    def settle(self, tick: int, *, since: int) -> None:
        """Time has reached the beginning of `tick`; nothing was counted before `since` that is not settled."""
        if since > self._tick:
            self._pass(since - self._tick, 0)
        if tick > self._tick:
            self._pass(tick - self._tick, self.count - self._settled)

    def _pass(self, ticks: int, counted: int) -> None:
        """So many ticks went by, with so much counted evenly over them."""
        per_s = counted / (ticks * _TICK_S)
        # As in Kafka, the first tick is taken as it is.
        before = per_s if self._ewma is None else self._ewma
        if ticks == 1:  # The rule; a node with a thousand busy topics comes here three thousand times a tick.
            self._ewma = per_s + (before - per_s) * _KEEP
            self._marks[self._tick % _MARKS] = self._settled + counted
        else:
            self._ewma = per_s + (before - per_s) * _KEEP**ticks
            for nth in range(max(1, ticks - _MARKS + 1), ticks + 1):
                self._marks[(self._tick + nth - 1) % _MARKS] = self._settled + counted * nth // ticks
        self._settled += counted
        self._tick += ticks

    def rates(self, *, now_us: int) -> Rates:
        """Of a meter that is settled up to now."""
        # The window began at the end of a tick between 60 and 65 seconds ago, or when the meter did.
        begin_us = max(self._started_us, (self._tick - _WINDOW_TICKS) * TICK_US)
        is_young = begin_us == self._started_us
        before = 0 if is_young else self._marks[(self._tick - _WINDOW_TICKS - 1) % _MARKS]
        window_us = now_us - begin_us
        per_s_window = (self.count - before) * 1_000_000 / window_us if window_us > 0 else 0.0
        return Rates(self.count, self._ewma or 0.0, per_s_window)
