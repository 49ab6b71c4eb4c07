"""Messages as librdkafka hands them out, and a consumer that only commits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition


@dataclass(frozen=True, slots=True)
class FakeMessage:
    at: tuple[str, int, int]
    content: bytes = b"v"
    name: bytes | None = None

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_000)

    def key(self) -> bytes | None:
        return self.name

    def value(self) -> bytes:
        return self.content

    def headers(self) -> Any:
        return None

    def __len__(self) -> int:
        return len(self.content)


@dataclass(frozen=True, slots=True)
class FakeTopicPartition:
    """One with an error, such as only librdkafka itself can make."""

    topic: str
    partition: int
    offset: int
    error: KafkaError | None = None


@dataclass(slots=True)
class FakeConsumer:
    refuse_with: KafkaException | None = None
    commits: list[dict[tuple[str, int], int]] = field(default_factory=list)

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> Sequence[TopicPartition]:
        if self.refuse_with is not None:
            raise self.refuse_with
        self.commits.append({(one.topic, one.partition): one.offset for one in offsets})
        return offsets
