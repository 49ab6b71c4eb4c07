"""What the perf tests count, and when a line is due. Given every time and every size; prints nothing.

A producer's latencies are counted to the microsecond and told in milliseconds: the mean as it is, the maximum and the
percentiles rounded to whole ones, which is all that Kafka's lines have room for. Of very many records one in so many
gives its latency to the percentiles, as in Kafka's tool, so that memory has a bound.
"""

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

_SAMPLES_MAX: Final = 500_000


class Sent(NamedTuple):
    """Records that were acknowledged in some time."""

    records: int
    size_bytes: int
    latency_us_total: int
    latency_us_max: int
    elapsed_ms: int


class SendStatistics:
    """Records acknowledged, since the beginning and since the last window ended."""

    __slots__ = (
        "_interval_ms",
        "_latencies_us",
        "_latency_us_max",
        "_latency_us_total",
        "_records",
        "_sampling",
        "_size_bytes",
        "_start_ms",
        "_window_latency_us_max",
        "_window_latency_us_total",
        "_window_records",
        "_window_size_bytes",
        "_window_start_ms",
        "windows_ended",
    )

    def __init__(self, *, records_planned: int, now_ms: int, interval_ms: int) -> None:
        assert records_planned > 0
        self._sampling = max(1, records_planned // _SAMPLES_MAX)
        self._interval_ms = interval_ms
        self._start_ms = now_ms
        self._latencies_us = array("q")
        self.windows_ended = 0
        self._records = self._size_bytes = self._latency_us_total = self._latency_us_max = 0
        self._window_start_ms = now_ms
        self._window_records = self._window_size_bytes = 0
        self._window_latency_us_total = self._window_latency_us_max = 0

    def record(self, latency_us: int, size_bytes: int, now_ms: int) -> Sent | None:
        """Count one; what the window has seen if this ends it. The hot path: it touches the window's sums only."""
        if (self._records + self._window_records) % self._sampling == 0:
            self._latencies_us.append(latency_us)
        self._window_records += 1
        self._window_size_bytes += size_bytes
        self._window_latency_us_total += latency_us
        if latency_us > self._window_latency_us_max:
            self._window_latency_us_max = latency_us
        if now_ms - self._window_start_ms < self._interval_ms:
            return None
        return self._end_window(now_ms)

    def total(self, *, now_ms: int) -> Sent:
        return Sent(
            self._records + self._window_records,
            self._size_bytes + self._window_size_bytes,
            self._latency_us_total + self._window_latency_us_total,
            max(self._latency_us_max, self._window_latency_us_max),
            now_ms - self._start_ms,
        )

    def percentiles_ms(self, *fractions: float) -> list[int]:
        return [round_to_ms(latency_us) for latency_us in percentiles(self._latencies_us, *fractions)]

    def _end_window(self, now_ms: int) -> Sent:
        ended = Sent(
            self._window_records,
            self._window_size_bytes,
            self._window_latency_us_total,
            self._window_latency_us_max,
            now_ms - self._window_start_ms,
        )
        self.windows_ended += 1
        self._records += ended.records
        self._size_bytes += ended.size_bytes
        self._latency_us_total += ended.latency_us_total
        self._latency_us_max = max(self._latency_us_max, ended.latency_us_max)
        self._window_start_ms = now_ms
        self._window_records = self._window_size_bytes = 0
        self._window_latency_us_total = self._window_latency_us_max = 0
        return ended


def percentiles(values: Sequence[int], *fractions: float) -> list[int]:
    """Kafka's: the value at that fraction of the sorted list, cut to a whole index; 0 where there are none."""
    ordered = sorted(values)
    return [ordered[int(fraction * len(ordered))] if ordered else 0 for fraction in fractions]


def round_to_ms(duration_us: int) -> int:
    return (duration_us + 500) // 1000


class Consumed(NamedTuple):
    """How far a consumer is at some moment, and how far it was at the moment before."""

    start_ms: int
    end_ms: int
    records: int
    records_before: int
    size_bytes: int
    size_bytes_before: int
    rebalance_ms: int  # Between the two.

    @property
    def fetch_ms(self) -> int:
        return self.end_ms - self.start_ms - self.rebalance_ms


class ConsumeStatistics:
    """Records consumed and time spent waiting for a share of the partitions, by interval and altogether."""

    def __init__(self, *, now_ms: int, interval_ms: int) -> None:
        self._start_ms = self._reported_ms = self._join_start_ms = now_ms
        self._interval_ms = interval_ms
        self.records = self.size_bytes = 0
        self._records_reported = self._size_bytes_reported = 0
        self._rebalance_ms = self._rebalance_ms_reported = 0
        self._assigned: set[tuple[str, int]] = set()

    def assign(self, partitions: set[tuple[str, int]], *, now_ms: int) -> None:
        """Waiting ends with the first partitions; more of them, while some are held, interrupt nothing."""
        if not self._assigned:
            self._rebalance_ms += now_ms - self._join_start_ms
        self._assigned |= partitions

    def revoke(self, partitions: set[tuple[str, int]], *, now_ms: int) -> None:
        self._assigned -= partitions
        if not self._assigned:
            self._join_start_ms = now_ms

    def record(self, sizes_bytes: Sequence[int], *, now_ms: int) -> Consumed | None:
        """Count what one poll brought. An interval that is over ends with the first of it, as in Kafka's tool."""
        if not sizes_bytes:
            return None
        ended: Consumed | None = None
        self.records += 1
        self.size_bytes += sizes_bytes[0]
        if now_ms - self._reported_ms >= self._interval_ms:
            ended = self._end_interval(now_ms)
        self.records += len(sizes_bytes) - 1
        self.size_bytes += sum(sizes_bytes) - sizes_bytes[0]
        return ended

    def total(self, *, now_ms: int) -> Consumed:
        return Consumed(self._start_ms, now_ms, self.records, 0, self.size_bytes, 0, self._rebalance_ms)

    def _end_interval(self, now_ms: int) -> Consumed:
        ended = Consumed(
            self._reported_ms,
            now_ms,
            self.records,
            self._records_reported,
            self.size_bytes,
            self._size_bytes_reported,
            self._rebalance_ms - self._rebalance_ms_reported,
        )
        self._reported_ms = now_ms
        self._records_reported, self._size_bytes_reported = self.records, self.size_bytes
        self._rebalance_ms_reported = self._rebalance_ms
        return ended
