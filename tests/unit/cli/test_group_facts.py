"""Lag in messages and in seconds; the latter against a consumer made of lists."""

from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from headrace.cli.group_facts import LogBounds, first_ages_s, lag
from headrace.ids import TopicName, TopicPartition


def test_lag_is_what_is_left_to_read() -> None:
    assert lag(10, LogBounds(0, 25)) == 15
    assert lag(25, LogBounds(0, 25)) == 0
    assert lag(30, LogBounds(0, 25)) == -5  # The log was cut: shown as it is.
    assert lag(None, LogBounds(0, 25)) is None
    assert lag(10, None) is None


def at(partition: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), partition)


class FakeMessage:
    def __init__(
        self, partition: int, timestamp_ms: int, *, kind: int = TIMESTAMP_CREATE_TIME, error: KafkaError | None = None
    ) -> None:
        self._partition, self._timestamp, self._error = partition, (kind, timestamp_ms), error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def error(self) -> KafkaError | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp


class FakeConsumer:
    def __init__(self, *polls: list[FakeMessage]) -> None:
        self.polls = list(polls)
        self.assigned: list[tuple[int, int]] = []
        self.paused: list[int] = []

    def assign(self, partitions: list[Any]) -> None:
        self.assigned = [(one.partition, one.offset) for one in partitions]

    def pause(self, partitions: list[Any]) -> None:
        self.paused += [one.partition for one in partitions]

    def consume(self, _count: int, _timeout_s: float) -> list[FakeMessage]:
        return self.polls.pop(0) if self.polls else []


class Clock:
    """Half a second passes with every look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.5
        return self.now_s


def ages(consumer: Any, starts: dict[int, int]) -> dict[int, float | None]:
    wanted = {at(partition): offset for partition, offset in starts.items()}
    found = first_ages_s(consumer, wanted, timeout_s=5, now_s=lambda: 100.0, mono_s=Clock())
    return {place.partition: age_s for place, age_s in found.items()}


def test_the_first_message_of_each_partition_tells_its_age() -> None:
    consumer = FakeConsumer(
        [FakeMessage(0, 90_000), FakeMessage(0, 95_000)], [], [FakeMessage(1, 99_500), FakeMessage(0, 96_000)]
    )
    assert ages(consumer, {0: 7, 1: 8}) == {0: 10.0, 1: 0.5}
    assert consumer.assigned == [(0, 7), (1, 8)]
    assert consumer.paused == [0, 1]  # One message of each, and then nothing more.


def test_a_message_from_the_future_is_not_behind() -> None:
    assert ages(FakeConsumer([FakeMessage(0, 101_000)]), {0: 0}) == {0: 0.0}


def test_offsets_without_a_message_leave_nothing_to_read() -> None:
    assert ages(FakeConsumer([FakeMessage(0, 0, error=KafkaError(KafkaError._PARTITION_EOF))]), {0: 0}) == {0: 0.0}


def test_what_nobody_can_say_is_unknown() -> None:
    gone = FakeMessage(0, 0, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))
    unstamped = FakeMessage(1, -1, kind=TIMESTAMP_NOT_AVAILABLE)
    assert ages(FakeConsumer([gone, unstamped]), {0: 0, 1: 0, 2: 0}) == {0: None, 1: None, 2: None}
