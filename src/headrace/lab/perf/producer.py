"""Send so many records at a rate, and print how it goes: the run behind `kafka-producer-perf-test`.

Latency is librdkafka's own, from the call that hands a record over to its acknowledgement, plus what the record waited
for room in the buffer before; when Python gets round to hearing of it does not matter. As in Kafka's tool it counts
from the actual send, not from the planned one: a sender that is held up sends later and does not show it.

Nothing is printed from within the client library's callbacks, which lose errors: lines wait until the next step.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.lab.perf.failures import Failures
from headrace.lab.perf.formats import IN_STEADY_STATE, SUMMARY_FRACTIONS, summary_line, warmup_line, window_line
from headrace.lab.perf.statistics import SendStatistics
from headrace.lab.perf.throttle import Throttle

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# So many records are handed over before acknowledgements are looked at, where no pause gives time for it.
_RECORDS_A_STEP: Final = 64
_STEP_S: Final = 0.1


class Delivered(Protocol):
    def __call__(self, error: "KafkaError | None", message: "Message", waited_us: int = 0) -> None: ...


class Producer(Protocol):
    """What is used of librdkafka's."""

    def produce(
        self, topic: str, value: bytes, *, on_delivery: "Callable[[KafkaError | None, Message], None]"
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...

    def init_transactions(self) -> None: ...

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    topic: str
    records: int
    rate_per_s: float  # Below zero: as fast as it goes.
    warmup_records: int = 0
    interval_ms: int = 5_000
    block_ms_max: int = 60_000
    transaction_ms: int | None = None  # Without, there are no transactions.


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where lines go, what the time is, and who may say that it is enough."""

    print_line: Callable[[str], None]
    complain: Callable[[str], None]
    check: Callable[[], None]
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    clock_ns: Callable[[], int] = time.perf_counter_ns


def run(producer: Producer, plan: Plan, payloads: Iterator[bytes], around: Surroundings) -> Failures:
    """What could not be sent is the caller's to check, once everything is printed."""
    if plan.transaction_ms is not None:
        producer.init_transactions()
    if plan.warmup_records:
        around.print_line(warmup_line(plan.warmup_records))
    sending = _Sending(producer, plan, around)
    sending.send_all(payloads)
    sending.finish()
    return sending.failures


class _Sending:
    def __init__(self, producer: Producer, plan: Plan, around: Surroundings) -> None:
        self._producer, self._plan, self._around = producer, plan, around
        self._clock_ms = around.clock_ms
        self.failures = Failures(around.complain)
        self._lines: list[str] = []
        self._statistics = self._begin_statistics(plan.records)
        self._steady: SendStatistics | None = None

    def send_all(self, payloads: Iterator[bytes]) -> None:
        producer, plan, clock_ns = self._producer, self._plan, self._around.clock_ns
        throttle = Throttle(plan.rate_per_s, start_ns=clock_ns()) if plan.rate_per_s > 0 else None
        delivered: Delivered = self._delivered
        transaction_ns = (plan.transaction_ms or 0) * 1_000_000
        transaction_start_ns: int | None = None
        for number, value in enumerate(itertools.islice(payloads, plan.records)):
            if transaction_ns and transaction_start_ns is None:
                producer.begin_transaction()
                transaction_start_ns = clock_ns()
            send_ns = clock_ns()
            if plan.warmup_records and number == plan.warmup_records:
                self._steady = self._begin_statistics(plan.records - number)
                delivered = self._delivered_steadily
            try:
                producer.produce(plan.topic, value, on_delivery=delivered)
            except BufferError:
                self._send_when_there_is_room(value, delivered)
            if transaction_start_ns is not None and send_ns - transaction_start_ns >= transaction_ns:
                producer.commit_transaction()
                transaction_start_ns = None
            pause_s = 0.0 if throttle is None else throttle.pause_s(number, now_ns=send_ns)
            if pause_s:
                self._serve(pause_s)
            elif number % _RECORDS_A_STEP == 0:
                self._serve(0)
        if transaction_start_ns is not None:
            producer.commit_transaction()

    def finish(self) -> None:
        # Every record is acknowledged or given up within delivery.timeout.ms.
        while self._producer.flush(_STEP_S):
            self._tell()
        self._tell()
        now_ms = self._around.clock_ms()
        self._print_summary(self._statistics, now_ms, is_steady_state=False)
        if self._steady is not None:
            self._print_summary(self._steady, now_ms, is_steady_state=True)

    def _begin_statistics(self, records: int) -> SendStatistics:
        return SendStatistics(
            records_planned=records, now_ms=self._around.clock_ms(), interval_ms=self._plan.interval_ms
        )

    def _print_summary(self, statistics: SendStatistics, now_ms: int, *, is_steady_state: bool) -> None:
        total, percentiles_ms = statistics.total(now_ms=now_ms), statistics.percentiles_ms(*SUMMARY_FRACTIONS)
        self._around.print_line(summary_line(total, percentiles_ms, is_steady_state=is_steady_state))

    def _send_when_there_is_room(self, value: bytes, delivered: Delivered) -> None:
        clock_ns = self._around.clock_ns
        start_ns = clock_ns()
        while True:
            self._producer.poll(_STEP_S)  # Until something was acknowledged.
            self._tell()
            waited_us = (clock_ns() - start_ns) // 1000
            try:
                late = partial(delivered, waited_us=waited_us)
                self._producer.produce(self._plan.topic, value, on_delivery=late)
                return
            except BufferError:
                if waited_us > self._plan.block_ms_max * 1000:
                    self.failures.add(f"no room in the buffer within {self._plan.block_ms_max} ms")
                    return

    def _serve(self, pause_s: float) -> None:
        """Hear of acknowledgements, for as long as there is nothing else to do."""
        deadline_ns = self._around.clock_ns() + int(pause_s * 1e9)
        left_s = pause_s
        while True:
            self._producer.poll(left_s)
            left_s = (deadline_ns - self._around.clock_ns()) / 1e9
            if left_s <= 0:
                break
        self._tell()

    def _tell(self) -> None:
        self._around.check()
        self.failures.tell()
        lines, self._lines = self._lines, []
        for line in lines:
            self._around.print_line(line)

    # --- called by the client library ---

    def _delivered(self, error: "KafkaError | None", message: "Message", waited_us: int = 0) -> None:
        if error is not None:
            self.failures.add(f"{error.str()} ({error.name()})")
            return
        # Of a delivery report the latency is never None. The hot path: no call that can be spared.
        latency_us = int(message.latency() * 1e6 + 0.5) + waited_us  # type: ignore[operator]
        window = self._statistics.record(latency_us, len(message), self._clock_ms())
        if window is not None and self._steady is None:
            self._lines.append(window_line(window))

    def _delivered_steadily(self, error: "KafkaError | None", message: "Message", waited_us: int = 0) -> None:
        """The record came after those to warm up with: it counts in both."""
        self._delivered(error, message, waited_us)
        if error is not None:
            return
        assert self._steady is not None
        is_first = self._steady.windows_ended == 0
        latency_us = int(message.latency() * 1e6 + 0.5) + waited_us  # type: ignore[operator]
        window = self._steady.record(latency_us, len(message), self._clock_ms())
        if window is not None:
            self._lines += [*([IN_STEADY_STATE] if is_first else []), window_line(window)]
