"""`headrace.columnar` beside the clients that people have: the same keys, values, headers, timestamps and offsets.

Each writer's records are read by confluent-kafka and by us, and what we write by all of them. The same with the Java
client, on Apache Kafka too, is in `tests/interop/test_columnar.py`.
"""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import columnar
from headrace.columnar import reading
from headrace.testing.node_process import NodeProcess
from headrace.wire.offsets import list_offsets
from tests.clients.columnar_rows import Columnar, Row, confluent_rows, read_rows, rows_of, table_of
from tests.clients.drivers import CODECS, DRIVERS, Driver
from tests.clients.scenario import Message, spread

PARTITIONS = 3
WRITERS: dict[str, Driver] = DRIVERS | {"columnar": Columnar()}
# The others refuse a record with neither key nor value, and a header without a value.
SAYS_NULLS = {"confluent-kafka", "columnar"}


def awkward(count: int, *, seed: int, nulls: bool) -> list[Message]:
    """Every combination of null, empty, short and long, with 0 to 3 headers, at times that go to and fro."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        key = chance.choice([None, b"", b"%d" % number, chance.randbytes(chance.choice([1, 63, 64, 200]))])
        value = chance.choice(
            [None, b"", b"v%d" % number, chance.randbytes(chance.choice([63, 64, 127, 8191, 8192])), b"abc" * 900]
        )
        if key is None and value is None and not nulls:
            value = b"something"
        contents = [b"", b"\xff\x00", chance.randbytes(70), b"text", *([None] if nulls else [])]
        headers = tuple(
            (chance.choice(["", "trace", "gr\u00fc\u00dfe", "n" * 130]), chance.choice(contents))
            for _ in range(chance.randrange(4))
        )
        time_ms = 1_600_000_000_000 + chance.choice([0, number * 7, -number, 2**33])
        made.append(Message(key, value, headers, time_ms))
    made.insert(count // 2, Message(b"large", chance.randbytes(900_000), (("size", b"900000"),), 1_600_000_000_000))
    return made


def rows_sent(by_partition: dict[int, list[Message]]) -> list[Row]:
    return [
        Row(partition, offset, 0, message)
        for partition, messages in by_partition.items()
        for offset, message in enumerate(messages)
    ]


def create(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    wanted = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([wanted])[topic].result(30)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", WRITERS)
def test_records_of_every_client_are_read_as_confluent_kafka_reads_them(
    writer: str, codec: str, shared_node: NodeProcess, topic_name: str
) -> None:
    bootstrap = shared_node.bootstrap
    sent = spread(awkward(300, seed=CODECS.index(codec), nulls=writer in SAYS_NULLS), PARTITIONS)
    create(bootstrap, topic_name, PARTITIONS)
    WRITERS[writer].produce(bootstrap, topic_name, sent, codec=codec, acks="all")
    ours = read_rows(bootstrap, topic_name)
    assert ours == confluent_rows(bootstrap, topic_name)
    assert ours == rows_sent(sent)


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_we_write_are_read_by_every_client(codec: Any, shared_node: NodeProcess, topic_name: str) -> None:
    """In many small batches; in large ones they come above."""
    bootstrap = shared_node.bootstrap
    sent = awkward(300, seed=30 + CODECS.index(codec), nulls=True)
    create(bootstrap, topic_name, 1)
    written = columnar.write(bootstrap, topic_name, table_of(sent), compression=codec, batch_bytes=4096)
    assert written.records == len(sent)
    assert written.partitions == {0: (len(sent), 0, len(sent) - 1)}
    for name, reader in DRIVERS.items():
        assert reader.consume(bootstrap, topic_name, 0, count=len(sent)) == sent, name


@pytest.mark.parametrize("writer", WRITERS)
def test_the_time_of_the_append_is_told_from_that_of_the_record(
    writer: str, shared_node: NodeProcess, topic_name: str
) -> None:
    bootstrap = shared_node.bootstrap
    create(bootstrap, topic_name, 1, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    sent = awkward(20, seed=50, nulls=False)
    WRITERS[writer].produce(bootstrap, topic_name, {0: sent}, codec="gzip", acks="all")
    ours = read_rows(bootstrap, topic_name)
    assert ours == confluent_rows(bootstrap, topic_name)
    assert {row.timestamp_type for row in ours} == {1}
    assert all(row.message.timestamp_ms >= before_ms for row in ours)
    assert [row.message._replace(timestamp_ms=0) for row in ours] == [one._replace(timestamp_ms=0) for one in sent]


def test_any_part_of_a_topic_is_those_rows_of_the_whole(shared_node: NodeProcess, topic_name: str) -> None:
    bootstrap = shared_node.bootstrap
    create(bootstrap, topic_name, PARTITIONS)
    sent = spread(awkward(240, seed=60, nulls=True), PARTITIONS)
    DRIVERS["confluent-kafka"].produce(bootstrap, topic_name, sent, codec="zstd", acks="all")
    everything = confluent_rows(bootstrap, topic_name)
    chance = random.Random(61)
    for _ in range(25):
        size = [len(messages) for messages in sent.values()]
        start = {number: chance.randrange(size[number] + 1) for number in range(PARTITIONS)}
        end = {number: chance.randrange(size[number] + 1) for number in range(PARTITIONS)}
        found = read_rows(bootstrap, topic_name, start=start, end=end, batch_rows=chance.choice([None, 1, 17]))
        assert found == [row for row in everything if start[row.partition] <= row.offset < end[row.partition]]


def test_a_column_does_not_depend_on_which_others_are_read(shared_node: NodeProcess, topic_name: str) -> None:
    bootstrap = shared_node.bootstrap
    create(bootstrap, topic_name, 1)
    DRIVERS["confluent-kafka"].produce(
        bootstrap, topic_name, {0: awkward(100, seed=70, nulls=True)}, codec="lz4", acks="all"
    )
    whole = columnar.read(bootstrap, topic_name).read_all()
    for columns in (*([name] for name in whole.column_names), ["value", "offset"], ["headers", "key", "timestamp"]):
        assert columnar.read(bootstrap, topic_name, columns=columns).read_all() == whole.select(columns)


def test_a_topic_copied_is_the_same_topic(shared_node: NodeProcess, topic_name: str) -> None:
    bootstrap, copy = shared_node.bootstrap, f"{topic_name}-copy"
    for topic in (topic_name, copy):
        create(bootstrap, topic, PARTITIONS)
    sent = spread(awkward(200, seed=80, nulls=True), PARTITIONS)
    DRIVERS["confluent-kafka"].produce(bootstrap, topic_name, sent, codec="snappy", acks="all")
    columnar.write(bootstrap, copy, columnar.read(bootstrap, topic_name), partition="partition", compression="zstd")
    assert confluent_rows(bootstrap, copy) == confluent_rows(bootstrap, topic_name)


def test_what_is_followed_is_what_was_written(shared_node: NodeProcess, topic_name: str) -> None:
    """While two clients write, in several goes, into partitions that were empty when it began."""
    bootstrap = shared_node.bootstrap
    create(bootstrap, topic_name, PARTITIONS)
    wanted = 0

    def followed() -> Iterator[pa.RecordBatch]:
        nonlocal wanted
        reader = columnar.follow(bootstrap, topic_name)
        for number in range(6):
            sent = spread(awkward(40, seed=90 + number, nulls=True), PARTITIONS)
            writer = WRITERS[sorted(SAYS_NULLS)[number % 2]]
            writer.produce(bootstrap, topic_name, sent, codec=CODECS[number % 5], acks="all")
            wanted += sum(map(len, sent.values()))
            while wanted > 0:
                batch = reader.read_next_batch()
                wanted -= batch.num_rows
                yield batch
        reader.close()

    assert rows_of(followed()) == confluent_rows(bootstrap, topic_name)


def test_a_topic_may_grow_while_its_ends_are_asked_for(
    shared_node: NodeProcess, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = shared_node.bootstrap
    create(bootstrap, topic_name, 1)
    number = 0

    def grow() -> None:
        nonlocal number
        columnar.write(bootstrap, topic_name, pa.table({"value": [b"%d" % number]}))
        number += 1

    def list_and_grow(*args: Any, **how: Any) -> Any:
        found = list_offsets(*args, **how)
        grow()
        return found

    grow()
    monkeypatch.setattr(reading, "list_offsets", list_and_grow)
    with closing(columnar.Scan(bootstrap, topic_name)) as scan:
        ((_, _, end),) = scan.ranges
        assert end is not None
        assert [row.offset for row in rows_of(scan)] == list(range(end))
    with closing(columnar.Scan(bootstrap, topic_name, start="latest", end=None)) as scan:
        ((_, first, _),) = scan.ranges
        offset = pa.Table.from_batches([next(iter(scan))])["offset"][0].as_py()
        assert offset == first < number


def test_keys_land_where_murmur2_of_librdkafka_puts_them(shared_node: NodeProcess, topic_name: str) -> None:
    bootstrap, partitions = shared_node.bootstrap, 7
    theirs, ours = f"{topic_name}-theirs", f"{topic_name}-ours"
    for topic in (theirs, ours):
        create(bootstrap, topic, partitions)
    chance = random.Random(100)
    keys = [b"", *(chance.randbytes(size) for size in range(1, 40)), *(b"user-%d" % number for number in range(2000))]
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    for key in keys:
        producer.produce(theirs, key=key, value=b"")
    assert producer.flush(30) == 0
    columnar.write(bootstrap, ours, pa.table({"key": keys, "value": [b""] * len(keys)}))
    assert placed(read_rows(bootstrap, ours)) == placed(confluent_rows(bootstrap, theirs))


def placed(rows: list[Row]) -> dict[int, list[bytes | None]]:
    """Keys by partition, in their order."""
    found: dict[int, list[bytes | None]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.message.key)
    return found
