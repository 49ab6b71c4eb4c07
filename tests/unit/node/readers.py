"""Readers of a driven node: fetches whose answers are looked at when they come, with or without a session."""

from collections.abc import Iterable
from typing import Any, Final

from headrace.node.apis import Parts
from headrace.node.later import Later
from headrace.protocol.batch import whole_batches
from headrace.protocol.fetch import NO_SESSION, SESSION_EPOCH_FINAL, SESSION_EPOCH_INITIAL
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.unit.node.driven_node import TIMESTAMP_MS, DrivenNode, Message

VERSION: Final = 12  # The last that names topics.
BYTES_MAX: Final = 1 << 20


def batch_of(*values: bytes, **more: Any) -> bytes:
    return encode_batch([Record(None, value, timestamp_ms=TIMESTAMP_MS) for value in values], **more)


def send_produce(
    driven: DrivenNode, *batches: tuple[str, int, bytes | None], acks: int = 1
) -> Parts | Later[Parts] | None:
    """One request with these batches (topic, partition, records), as a turn of its own."""
    topics = [
        {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
        for topic, partition, batch in batches
    ]
    answer = driven.send("Produce", 9, {"acks": acks, "timeout_ms": 1000, "topic_data": topics})
    driven.node.finish_turn()
    return answer


def produced_rows(driven: DrivenNode, answer: Parts | Later[Parts] | None) -> list[Message]:
    topics = driven.receive("Produce", 9, answer)["responses"]
    return [row for topic in topics for row in topic["partition_responses"]]


def write(driven: DrivenNode, topic: str, *values: bytes, partition: int = 0, acks: int = 1) -> int:
    """One batch, as a turn of its own; its first offset."""
    (row,) = produced_rows(driven, send_produce(driven, (topic, partition, batch_of(*values)), acks=acks))
    assert row["error_code"] == 0, row
    offset: int = row["base_offset"]
    return offset


class Fetched:
    """One fetch, under way or answered."""

    def __init__(self, driven: DrivenNode, version: int, answer: Parts | Later[Parts] | None) -> None:
        self._driven = driven
        self._version = version
        self._parts: list[Parts] = []
        self.later = answer if isinstance(answer, Later) else None
        if isinstance(answer, Later):
            answer.then(self._parts.append)
        else:
            assert answer is not None
            self._parts.append(answer)

    def is_answered(self) -> bool:
        return bool(self._parts)

    def wait(self) -> Message:
        """Let the world go on until it is answered."""
        self._driven.world.run_until_true(lambda: self.is_answered())
        return self._driven.receive("Fetch", self._version, self._parts[0])

    def rows(self) -> dict[tuple[str | bytes, int], Message]:
        """By topic and partition, of an answer without an error of its own."""
        answer = self.wait()
        assert answer["error_code"] == 0, answer
        return {
            (topic["topic"] if self._version <= VERSION else topic["topic_id"], row["partition_index"]): row
            for topic in answer["responses"]
            for row in topic["partitions"]
        }

    def values(self) -> list[bytes]:
        return [value for row in self.rows().values() for value in values_in(row)]


def values_in(row: Message, *, from_offset: int = 0) -> list[bytes]:
    return [value for offset, value in records_in(row) if offset >= from_offset]


def records_in(row: Message) -> list[tuple[int, bytes]]:
    """Offsets and values of the whole batches in a partition's answer."""
    data = row["records"] or b""
    found = []
    for position, header in whole_batches(data):
        for record in decode_records(data[position : position + header.size_bytes]):
            assert record.value is not None
            found.append((record.offset, record.value))
    return found


Asked = tuple[str | bytes, int, int]  # Topic (or its id), partition, offset.


def fetch(
    driven: DrivenNode,
    *asked: Asked,
    wait_ms: int = 500,
    bytes_min: int = 1,
    bytes_max: int = BYTES_MAX,
    partition_bytes_max: int = BYTES_MAX,
    session: tuple[int, int] = (NO_SESSION, SESSION_EPOCH_FINAL),
    forget: Iterable[tuple[str | bytes, int]] = (),
    version: int = VERSION,
    **partition: Any,
) -> Fetched:
    """One fetch, as a turn of its own."""
    key = "topic" if version <= VERSION else "topic_id"
    session_id, epoch = session
    body = {
        "max_wait_ms": wait_ms,
        "min_bytes": bytes_min,
        "max_bytes": bytes_max,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [
            {
                key: topic,
                "partitions": [
                    {
                        "partition": index,
                        "fetch_offset": offset,
                        "partition_max_bytes": partition_bytes_max,
                        **partition,
                    }
                ],
            }
            for topic, index, offset in asked
        ],
        "forgotten_topics_data": [{key: topic, "partitions": [index]} for topic, index in forget],
    }
    fetched = Fetched(driven, version, driven.send("Fetch", version, body))
    driven.node.finish_turn()
    return fetched


class Session:
    """A reader with a session: it names its partitions once, then only those whose offset it moved."""

    def __init__(self, driven: DrivenNode, *asked: Asked, version: int = VERSION, **limits: Any) -> None:
        self._driven = driven
        self._version = version
        self._limits = limits
        self.opened = fetch(
            driven, *asked, session=(NO_SESSION, SESSION_EPOCH_INITIAL), version=version, **{**limits, "wait_ms": 0}
        )
        self.id: int = self.opened.wait()["session_id"]
        assert self.id != NO_SESSION
        self.epoch = 1

    def fetch(self, *asked: Asked, **more: Any) -> Fetched:
        fetched = fetch(
            self._driven,
            *asked,
            session=(self.id, self.epoch),
            version=self._version,
            **{**self._limits, **more},
        )
        self.epoch += 1
        return fetched
