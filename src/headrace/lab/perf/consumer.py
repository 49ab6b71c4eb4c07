"""Consume so many records as a member of a group, and print how it goes: the run behind `kafka-consumer-perf-test`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headrace.lab.perf.formats import consumer_header, detailed_line, timed_out_line, total_line
from headrace.lab.perf.statistics import ConsumeStatistics

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

    Rebalanced = Callable[[object, list[TopicPartition]], None]

_POLL_S: Final = 0.1


class Consumer(Protocol):
    """What is used of librdkafka's."""

    def subscribe(self, topics: list[str], *, on_assign: "Rebalanced", on_revoke: "Rebalanced") -> None: ...

    def poll(self, timeout: float) -> "Message | None": ...

    def consume(self, num_messages: int, timeout: float) -> "list[Message]": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    topics: Sequence[str]
    records: int
    timeout_ms: int = 10_000  # Between two records.
    interval_ms: int = 5_000
    poll_records_max: int = 500
    is_detailed: bool = False
    has_header: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where lines go, what the time is and how it is written, and who may say that it is enough."""

    print_line: Callable[[str], None]
    complain: Callable[[str], None]
    check: Callable[[], None]
    date_text: Callable[[int], str]
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


def run(consumer: Consumer, plan: Plan, around: Surroundings) -> None:
    if plan.has_header:
        around.print_line(consumer_header(is_detailed=plan.is_detailed))
    clock_ms = around.clock_ms
    now_ms = consumed_ms = clock_ms()
    statistics = ConsumeStatistics(now_ms=now_ms, interval_ms=plan.interval_ms)
    consumer.subscribe(
        list(plan.topics),
        on_assign=lambda _, partitions: statistics.assign(_places(partitions), now_ms=clock_ms()),
        on_revoke=lambda _, partitions: statistics.revoke(_places(partitions), now_ms=clock_ms()),
    )
    sizes_of = _Sizes(around.complain)
    while statistics.records < plan.records and now_ms - consumed_ms <= plan.timeout_ms:
        left = min(plan.poll_records_max, plan.records - statistics.records)
        sizes_bytes = sizes_of(_poll(consumer, left))
        now_ms = clock_ms()
        if sizes_bytes:
            consumed_ms = now_ms
        ended = statistics.record(sizes_bytes, now_ms=now_ms)
        if ended is not None and plan.is_detailed:
            around.print_line(detailed_line(ended, around.date_text))
        around.check()
    total = statistics.total(now_ms=clock_ms())
    if total.records < plan.records:
        around.print_line(timed_out_line(plan.timeout_ms))
    if not plan.is_detailed:
        around.print_line(total_line(total, around.date_text))


def _poll(consumer: Consumer, records_max: int) -> "list[Message]":
    """What is there, at once; where nothing is, the first that comes. librdkafka's own batches wait to be full."""
    found = consumer.consume(records_max, 0)
    if found:
        return found
    first = consumer.poll(_POLL_S)
    return [] if first is None else [first]


class _Sizes:
    """Sizes of records, key and value; and what came in place of records."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._told: set[str] = set()

    def __call__(self, messages: "Sequence[Message]") -> list[int]:
        sizes_bytes = []
        for message in messages:
            if message.error() is not None:
                self._tell(message)
                continue
            key = message.key()
            sizes_bytes.append(len(message) if key is None else len(message) + len(key))
        return sizes_bytes

    def _tell(self, message: "Message") -> None:
        from confluent_kafka import KafkaError, KafkaException

        error = message.error()
        assert error is not None
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(error)
        # It may yet be created; until the timeout, that is what Kafka's tool waits for.
        text = f"{error.str()} ({error.name()})"
        if text not in self._told:
            self._told.add(text)
            self._complain(text)


def _places(partitions: "Sequence[TopicPartition]") -> set[tuple[str, int]]:
    return {(partition.topic, partition.partition) for partition in partitions}
