"""One repeat as it goes: seconds of senders, of consumers and of the machine, and what they come to.

Seconds count from when sending starts. Those of the warm-up are kept and count for nothing; latencies are of everything
that was answered from there on, however late. Throughputs are of whole seconds of sending, divided by how many these
are: how much of a row belongs to a part of its second is not known. What ends with a number of messages, or within a
second, is divided by the time until the last of it had come.

Rows in, lines out: knows neither processes nor files.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.lab.consumed import Consumed
from headrace.lab.gate import Losses, Thresholds, repeat_gate
from headrace.lab.histogram import Histogram, bucket_range_ns
from headrace.lab.rates import steadiness
from headrace.lab.readings.company import CpuUse
from headrace.lab.readings.consuming_summary import Consuming
from headrace.lab.results import LOSSES, Bottleneck, RepeatLine, SecondLine, Steady
from headrace.lab.schedule import SECOND_NS
from headrace.lab.sent import utc_text
from headrace.lab.timeline import Second

_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_NS_PER_MS: Final = 1e6
_MIB: Final = 2**20
_ALMOST_S: Final = 1e-3  # A second that lacks no more than this is a whole one.


class _Covered(NamedTuple):
    """What a throughput is of: the rows of seconds before `end`, and the time that these cover."""

    end: float
    elapsed_s: float


class Course:
    def __init__(
        self,
        *,
        cell: Mapping[str, Any],
        repeat: int,
        warm_up_s: int,
        has_plan: bool,
        has_consumers: bool,
        consumes_after: bool = False,
        is_counted: bool = False,
    ) -> None:
        self._cell = dict(cell)
        self._repeat = repeat
        self._warm_up_s = warm_up_s
        self._has_plan = has_plan  # Without one there is neither lateness nor a latency from it.
        self._has_consumers = has_consumers
        self._consumes_after = consumes_after
        self._is_counted = is_counted  # It ends with a number of messages.
        self.start_utc_ns = 0
        self.sent: dict[int, Second] = {}
        self.consumed: dict[int, Consumed] = {}
        self.cpu: dict[int, CpuUse] = {}
        self.events: list[str] = []  # Faults that were done, and when; why messages failed, and how many.
        self._written = 0
        self._has_throttled = False  # Consumers were, in a second that was told.

    # --- Filling it ----------------------------------------------------------------------------------------------

    def add_sent(self, second: int, row: Second) -> None:
        self.sent.setdefault(second, Second()).merge(row)

    def add_consumed(self, second: int, row: Consumed) -> None:
        self.consumed.setdefault(second, Consumed()).merge(row)

    def add_cpu(self, second: int, use: CpuUse) -> None:
        self.cpu[second] = self.cpu[second].plus(use) if second in self.cpu else use

    @property
    def delivered(self) -> int:
        """Acknowledged, or given to the network where nobody answers."""
        return sum(row.acknowledged + row.unanswered for row in self.sent.values())

    def losses(self, *, unsent: int = 0, unanswered: int = 0, unconsumed: int = 0) -> Losses:
        """What failed, of the measured seconds; the rest is known when all is over."""
        rows = [row for second, row in self.sent.items() if second >= self._warm_up_s]
        return Losses(
            planned=sum(row.planned for row in rows),
            failed=sum(row.failed for row in rows),
            unsent=unsent,
            unanswered=unanswered,
            unconsumed=unconsumed,
        )

    def consuming(self, *, groups: int, elapsed_s: float) -> Consuming:
        """Of all groups; `elapsed_s` is how long was sent, or how long a backlog was consumed."""
        if self._consumes_after:
            consumed = [*self.consumed.values()]
            return Consuming(
                written=[],
                consumed=[row.messages for row in consumed],
                elapsed_s=elapsed_s,
                is_backlog=True,
                throttled_s=_throttled_s(consumed),
            )
        whole = range(int(elapsed_s + _ALMOST_S))
        rows = [self.sent.get(second, Second()) for second in whole]
        consumed = [self.consumed.get(second, Consumed()) for second in whole]
        return Consuming(
            written=[groups * (row.acknowledged + row.unanswered) for row in rows],
            consumed=[row.messages for row in consumed],
            elapsed_s=float(len(whole)),
            is_backlog=False,
            throttled_s=_throttled_s(consumed),
        )

    # --- Second by second ----------------------------------------------------------------------------------------

    def lines(self, before: int | None = None) -> Iterator[SecondLine]:
        """Of the seconds before one, or of all that are left; each once, in order."""
        end = max((*self.sent, *self.consumed), default=-1) + 1 if before is None else before
        while self._written < end:
            yield self._line(self._written)
            self._written += 1

    def _line(self, second: int) -> SecondLine:
        row, consumed = self.sent.get(second, Second()), self.consumed.get(second, Consumed())
        use = self.cpu.get(second)
        more: dict[str, Any] = {"second": second, "is_warm_up": second < self._warm_up_s}
        if row.latency_planned.count and self._has_plan:
            more["planned_latency_p99_ms"] = _quantile_ms(row.latency_planned, 0.99)
        if consumed.end_to_end.count:
            more["end_to_end_p99_ms"] = _quantile_ms(consumed.end_to_end, 0.99)
            more["consumed_bytes"] = consumed.size_bytes
        self._has_throttled |= consumed.throttled_ns_max > 0
        if self._has_throttled:
            more["consumers_throttled_ms"] = round(consumed.throttled_ns_max / _NS_PER_MS, 3)
        if use is not None:
            more["broker_cpu_percent"] = round(use.percent_of_core(use.brokers_s), 1)
            more["client_cpu_percent"] = round(use.percent_of_core(use.clients_s), 1)
            more["others_cpu_percent"] = round(use.percent_of_core(use.others_s), 1)
        return SecondLine(
            cell=self._cell,
            repeat=self._repeat,
            at=utc_text(self.start_utc_ns + second * SECOND_NS),
            planned=row.planned,
            sent=row.sent,
            acknowledged=row.acknowledged + row.unanswered,
            failed=row.failed,
            consumed=consumed.messages,
            bytes=row.sent_bytes,
            lateness_ms=_quantile_ms(row.lateness, 0.99) if row.lateness.count and self._has_plan else None,
            more=more,
        )

    # --- As a whole ----------------------------------------------------------------------------------------------

    def repeat_line(
        self,
        *,
        sending_s: float,
        answered_s: float | None = None,
        consumed_s: float | None = None,
        consuming_s: float | None = None,
        stall_share: float | None = None,
        thresholds: Thresholds | None = None,
        machine: Mapping[str, float] | None = None,
        losses: Losses | None = None,
        bottleneck: Bottleneck | None = None,
        consumer_bottleneck: Bottleneck | None = None,
        partial: str | None = None,
    ) -> RepeatLine:
        """`sending_s` is how long was sent, with the warm-up; `answered_s` and `consumed_s` are when the last message
        was answered and consumed; `consuming_s` is from when consumers had their partitions to the last message.
        `machine` are metrics of it, where it was read; `losses` are told where there are any."""
        measured_s = max(0.0, sending_s - self._warm_up_s)
        use = self._cpu(sending_s)
        throughputs: dict[str, float] = {}
        if measured_s:
            throughputs |= self._sent_a_second(self._covered(sending_s, answered_s))
        if self._consumes_after and consuming_s:
            throughputs |= self._consumed_a_second(_Covered(math.inf, consuming_s))
        elif self._has_consumers and not self._consumes_after and measured_s:
            throughputs |= self._consumed_a_second(self._covered(sending_s, consumed_s))
        losses = losses or self.losses()
        lost = dict(zip(LOSSES, (losses.failed, losses.unsent, losses.unanswered), strict=True))
        metrics: dict[str, float] = {
            **self._metrics(throughputs, use),
            **{name: count for name, count in lost.items() if count},
            **_rounded(machine or {}),
        }
        disturbance = use.disturbance(stall_share=stall_share)
        return RepeatLine(
            cell=self._cell,
            repeat=self._repeat,
            metrics=metrics,
            histograms={name: buckets_us(each) for name, each in self._histograms().items()},
            steady=self._steady(measured_s),
            gate=repeat_gate(metrics, disturbance, thresholds, losses=losses),
            disturbance=round(disturbance.excess((thresholds or Thresholds()).disturbance), 3),
            bottleneck=bottleneck,
            consumer_bottleneck=consumer_bottleneck,
            events=self.events,
            partial=partial,
        )

    def _covered(self, sending_s: float, until_s: float | None) -> _Covered:
        whole = int(sending_s - self._warm_up_s + _ALMOST_S)
        if whole and not self._is_counted:
            return _Covered(self._warm_up_s + whole, whole)
        return _Covered(math.inf, max(sending_s, until_s or 0.0) - self._warm_up_s)

    def _sent_a_second(self, covered: _Covered) -> dict[str, float]:
        rows = [row for second, row in self.sent.items() if self._warm_up_s <= second < covered.end]
        return {
            "rate_per_s": sum(row.acknowledged + row.unanswered for row in rows) / covered.elapsed_s,
            "mb_per_s": sum(row.answered_bytes for row in rows) / covered.elapsed_s / _MIB,
        }

    def _consumed_a_second(self, covered: _Covered) -> dict[str, float]:
        begin = 0 if self._consumes_after else self._warm_up_s
        rows = [row for second, row in self.consumed.items() if begin <= second < covered.end]
        return {
            "consumed_per_s": sum(row.messages for row in rows) / covered.elapsed_s,
            "consumed_mb_per_s": sum(row.size_bytes for row in rows) / covered.elapsed_s / _MIB,
        }

    def _metrics(self, throughputs: Mapping[str, float], use: CpuUse) -> dict[str, float]:
        found = dict(throughputs)
        for name, histogram in self._histograms().items():
            if name == "lateness":
                found["lateness_p99_ms"] = _quantile_ms(histogram, 0.99)
            else:
                found |= {f"{name}_{each}_ms": _quantile_ms(histogram, share) for each, share in _QUANTILES.items()}
        if use.elapsed_s:
            found["broker_cpu_percent"] = use.percent_of_core(use.brokers_s)
            found["client_cpu_percent"] = use.percent_of_core(use.clients_s)
        return _rounded(found)

    def _histograms(self) -> dict[str, Histogram]:
        rows = [row for second, row in sorted(self.sent.items()) if second >= self._warm_up_s]
        found = {"send_latency": _merged([row.latency_sent for row in rows])}
        if self._has_plan:
            found["planned_latency"] = _merged([row.latency_planned for row in rows])
            found["lateness"] = _merged([row.lateness for row in rows])
        if self._has_consumers:
            late = [row for second, row in sorted(self.consumed.items()) if second >= self._warm_up_s]
            found["end_to_end"] = _merged([row.end_to_end for row in late])
        return {name: histogram for name, histogram in found.items() if histogram.count}

    def _steady(self, measured_s: float) -> Steady:
        whole = range(self._warm_up_s, self._warm_up_s + int(measured_s + _ALMOST_S))
        rows = [self.sent.get(second, Second()) for second in whole]
        found = steadiness([row.acknowledged + row.unanswered for row in rows])
        return Steady(
            is_steady=found.is_steady,
            variation=_finite(found.variation),
            slope_per_minute=round(found.slope_per_min.value, 5),
            slope_low_per_minute=_finite(found.slope_per_min.low),
            slope_high_per_minute=_finite(found.slope_per_min.high),
        )

    def _cpu(self, sending_s: float) -> CpuUse:
        """While throughputs were measured; and after that, where it is then that messages are consumed."""
        total = CpuUse()
        for second, use in self.cpu.items():
            if second >= self._warm_up_s and (second < sending_s or self._consumes_after):
                total = total.plus(use)
        return total


def buckets_us(histogram: Histogram) -> list[list[float]]:
    """Upper bounds in microseconds, and how many values each bucket has."""
    value = histogram.to_json()
    return [
        [round((bucket_range_ns(bucket)[1] + 1) / 1000, 3), count]
        for bucket, count in zip(value["buckets"], value["counts"], strict=True)
    ]


def _throttled_s(rows: Sequence[Consumed]) -> float:
    """Of the consumer that was held back most in all of them: to hold back others at other times makes it no longer."""
    totals: Counter[int] = Counter()
    for row in rows:
        totals.update(row.throttled_ns)
    return max(totals.values(), default=0) / SECOND_NS


def _finite(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in metrics.items()}


def _merged(several: Sequence[Histogram]) -> Histogram:
    total = Histogram()
    for each in several:
        total.merge(each)
    return total


def _quantile_ms(histogram: Histogram, share: float) -> float:
    return round((histogram.quantile_ns(share) or 0) / _NS_PER_MS, 3)
