"""Records as rows, so that what `headrace.columnar` reads can be laid beside what another client reads, field by field.

Also `Columnar`, which is `headrace.columnar` behind the face of the other clients' drivers.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace import columnar
from tests.clients.drivers import DEADLINE_S, DRIVERS
from tests.clients.scenario import Message

Headers = tuple[tuple[str, bytes | None], ...]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Row(NamedTuple):
    partition: int
    offset: int
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime.
    message: Message


def rows_of(batches: pa.Table | Iterable[pa.RecordBatch]) -> list[Row]:
    """In the order of partition and offset; that it was kept within a partition is checked."""
    table = batches if isinstance(batches, pa.Table) else pa.Table.from_batches(batches)
    found = []
    last: dict[int, int] = {}
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    for one, timestamp_ms in zip(table.drop(["timestamp"]).to_pylist(), times, strict=True):
        partition, offset = one["partition"], one["offset"]
        assert offset > last.get(partition, -1), f"offset {offset} after {last[partition]} in partition {partition}"
        last[partition] = offset
        headers = tuple((header["key"], header["value"]) for header in one["headers"])
        message = Message(one["key"], one["value"], headers, timestamp_ms)
        found.append(Row(partition, offset, one["timestamp_type"], message))
    return sorted(found, key=lambda row: row[:2])


def read_rows(bootstrap: str, topic: str, **how: Any) -> list[Row]:
    return rows_of(columnar.read(bootstrap, topic, **how).read_all())


def confluent_rows(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Row]:
    """All that confluent-kafka finds from the beginning to the end of each partition."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
         "enable.partition.eof": True, "auto.offset.reset": "error", "isolation.level": isolation,
         "fetch.wait.max.ms": 10}
    )  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
        places = [TopicPartition(topic, number) for number in partitions]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)[0]
        consumer.assign(places)
        rows = []
        unfinished = set(partitions)
        deadline_s = time.monotonic() + DEADLINE_S
        while unfinished:
            assert time.monotonic() < deadline_s, f"no end of partitions {unfinished}"
            for message in consumer.consume(500, 0.05):
                if (error := message.error()) is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    unfinished.discard(message.partition())
                    continue
                headers = tuple((name, content) for name, content in message.headers() or [])
                kind, timestamp_ms = message.timestamp()
                carried = Message(message.key(), message.value(), headers, timestamp_ms)
                is_log_time = int(kind == TIMESTAMP_LOG_APPEND_TIME)
                rows.append(Row(message.partition(), message.offset(), is_log_time, carried))
        return sorted(rows, key=lambda row: row[:2])
    finally:
        consumer.close()


def table_of(messages: Sequence[Message], *, partitions: Sequence[int] | None = None) -> pa.Table:
    """As `columnar.write` takes it."""
    columns = {
        "key": pa.array([message.key for message in messages], pa.binary()),
        "value": pa.array([message.value for message in messages], pa.binary()),
        "headers": pa.array(
            [[{"key": name, "value": content} for name, content in message.headers] for message in messages], _HEADERS
        ),
        "timestamp": pa.array([message.timestamp_ms for message in messages], pa.timestamp("ms", "UTC")),
    }
    if partitions is not None:
        columns["partition"] = pa.array(partitions, pa.int32())
    return pa.table(columns)


class Columnar:
    name = "columnar"

    def create_topic(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        DRIVERS["confluent-kafka"].create_topic(bootstrap, topic, partitions=partitions)

    def produce(
        self, bootstrap: str, topic: str, by_partition: Mapping[int, Iterable[Message]], *, codec: Any, acks: Any
    ) -> None:
        placed = [(partition, message) for partition, found in by_partition.items() for message in found]
        table = table_of([message for _, message in placed], partitions=[partition for partition, _ in placed])
        written = columnar.write(
            bootstrap, topic, table, partition="partition", compression=codec, acks=acks, idempotent=acks == "all"
        )
        assert written.records + written.unacknowledged == len(placed)

    def consume(self, bootstrap: str, topic: str, partition: int, *, count: int) -> list[Message]:
        rows = rows_of(columnar.read(bootstrap, {topic: [partition]}).read_all())
        assert [row.offset for row in rows] == list(range(len(rows)))
        return [row.message for row in rows]
