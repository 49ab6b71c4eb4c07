"""Compacted logs carried between Headrace and Apache Kafka.

Kafka's own reader of segments finds nothing to say about what we compacted; each broker serves what the other left of a
log, at the offsets where it was, goes on compacting it, and a Java consumer sees just that.
"""

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.protocol.batch import whole_batches
from headrace.storage.checkpoints import CLEAN_SHUTDOWN
from tests.interop.clients import CLIENTS
from tests.interop.dumped import dump
from tests.interop.records import Record, hashes
from tests.interop.test_segments import CHECKPOINTS, files, forget_partitions
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import ToolMissing, without_tool

KEYS: Final = 300
UPDATES: Final = 12_000  # Some megabytes: a few of the smallest segments that Kafka allows.
CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "500",
}
CLEANED: Final = "cleaner-offset-checkpoint"
# Kafka looks every fifteen seconds.
PATIENCE_S: Final = 90.0


class Known(NamedTuple):
    offset: int
    value: bytes | None
    timestamp_ms: int


Log = dict[bytes, Known]


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Headrace]:
    properties = {"log.retention.ms": "-1", "log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "0"}
    fresh = Headrace(tmp_path / "headrace", properties=properties)
    yield fresh
    fresh.discard()


def create(broker: RunningBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=CONFIG)])[topic].result(30)


def update(broker: RunningBroker, topic: str, last: Log, *, codec: str, seed: int, count: int = UPDATES) -> None:
    """Values for keys, many times over, some of them deleted half-way; what is last goes into `last`."""

    def delivered(error: object, message: Any) -> None:
        assert error is None
        key, offset = message.key(), message.offset()
        if key not in last or last[key].offset < offset:
            last[key] = Known(offset, message.value(), message.timestamp()[1])

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "acks": "1", "linger.ms": 5,
         "batch.num.messages": 100, "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    stamp = 1_700_000_000_000 + seed * 1_000_000
    chance = random.Random(seed)
    for number in range(count):
        key = (number * 7 + seed) % KEYS
        value: bytes | None = chance.randbytes(200 + number % 50)
        if key % 10 == seed % 10 and number >= count // 2:
            if number >= count // 2 + KEYS:
                continue
            value = None
        producer.produce(topic, value, b"key-%d" % key, partition=0, on_delivery=delivered, timestamp=stamp + number)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(broker: RunningBroker, topic: str) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False,
         "enable.partition.eof": True, "auto.offset.reset": "error"}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if (error := message.error()) is None:
                    found.append(message)
                elif error.name() == "_PARTITION_EOF":
                    return found
                else:
                    raise AssertionError(error)
    finally:
        consumer.close()
    raise AssertionError("the end was not reached")


def check(broker: RunningBroker, topic: str, last: Log) -> list[Any]:
    """Of each key the last record is there, at its offset and with its time; nothing comes out of order."""
    found = read(broker, topic)
    offsets = [message.offset() for message in found]
    assert offsets == sorted(set(offsets))
    latest = {message.key(): Known(message.offset(), message.value(), message.timestamp()[1]) for message in found}
    assert latest == last
    return found


def check_with_java(broker: RunningBroker, topic: str, found: list[Any]) -> None:
    java = CLIENTS["java"]
    java.prepare()
    (report,) = java.consume(broker.bootstrap, [topic], timestamps=True)
    records = [
        Record(partition=0, key=message.key(), value=message.value(), timestamp_ms=message.timestamp()[1])
        for message in found
    ]
    ends = {"first": found[0].offset(), "last": found[-1].offset()}
    assert report["0"] == hashes(records, timestamps=True)["0"] | ends


def wait_compacted(directory: Path, *, records_max: int) -> None:
    """Until what is sealed holds few records more than there are keys, and the cleaner has said so."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := sealed_records(directory)) > records_max or not is_cleaned(directory):
        assert time.monotonic() < deadline, f"{left} records are left in {directory}"
        time.sleep(0.2)


def is_cleaned(directory: Path) -> bool:
    checkpoint = directory.parent / CLEANED
    topic = directory.name.rpartition("-")[0]
    return checkpoint.exists() and any(line.split()[0] == topic for line in checkpoint.read_text().splitlines() if line)


def sealed_records(directory: Path) -> int:
    try:
        return sum(
            header.record_count
            for path in files(directory, ".log")[:-1]
            for _, header in whole_batches(path.read_bytes())
        )
    except FileNotFoundError:  # It is being swapped.
        return 1 << 60


def cleaned_offset(broker: RunningBroker, topic: str) -> int:
    lines = (broker.data_dir / CLEANED).read_text().splitlines()[2:]
    return next(int(line.split()[2]) for line in lines if line.split()[0] == topic)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafkas_reader_has_no_complaint_about_what_we_compacted(node: Headrace, codec: str) -> None:
    node.start()
    create(node, "ours")
    last: Log = {}
    update(node, "ours", last, codec=codec, seed=1)
    directory = node.partition_dir("ours", 0)
    wait_compacted(directory, records_max=2 * KEYS)
    found = check(node, "ours", last)
    check_with_java(node, "ours", found)
    node.stop()
    dumped = dump(files(directory, ".log", ".index", ".timeindex", ".snapshot"), compacted=True)
    assert dumped.complaints == []
    assert dumped.offsets == [message.offset() for message in found]
    written = [header for path in files(directory, ".log") for _, header in whole_batches(path.read_bytes())]
    assert any(header.delete_horizon_ms for header in written)
    sane = dump(files(directory, ".index", ".timeindex"), options=["--index-sanity-check"])
    assert sane.complaints == []


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_kafka_serves_and_compacts_what_we_compacted(
    apache: ApacheKafka, node: Headrace, topic_name: str, end: str
) -> None:
    node.start()
    create(node, topic_name)
    last: Log = {}
    update(node, topic_name, last, codec="lz4", seed=1, count=2 * UPDATES)
    ours = node.partition_dir(topic_name, 0)
    wait_compacted(ours, records_max=2 * KEYS)
    {"stopped": node.stop, "killed": node.kill}[end]()
    create(apache, topic_name)
    update(apache, topic_name, {}, codec="none", seed=9, count=KEYS)  # Kafka makes folders a while after the topic.
    with away(apache, end):
        theirs = apache.partition_dir(topic_name, 0)
        shutil.copy(theirs / "partition.metadata", ours)
        shutil.rmtree(theirs)
        shutil.copytree(ours, theirs)
        for checkpoint in CHECKPOINTS:
            forget_partitions(apache.data_dir / checkpoint, topic_name)
        take_over_checkpoint(node.data_dir / CLEANED, apache.data_dir / CLEANED, topic_name)
    check_with_java(apache, topic_name, check(apache, topic_name, last))
    cleaned_by_us = cleaned_offset(apache, topic_name)
    update(apache, topic_name, last, codec="none", seed=3)
    deadline = time.monotonic() + PATIENCE_S
    while cleaned_offset(apache, topic_name) <= cleaned_by_us:
        assert time.monotonic() < deadline, "Kafka did not go on compacting"
        time.sleep(0.5)
    check(apache, topic_name, last)


def test_we_serve_and_compact_what_kafka_compacted(apache: ApacheKafka, node: Headrace, topic_name: str) -> None:
    """And recover it: nothing says that it was left in order, so that all of it is read, gaps included."""
    create(apache, topic_name)
    last: Log = {}
    update(apache, topic_name, last, codec="snappy", seed=1, count=2 * UPDATES)
    theirs = apache.partition_dir(topic_name, 0)
    wait_compacted(theirs, records_max=3 * KEYS)
    with away(apache, "stopped"):
        ours = node.partition_dir(topic_name, 0)
        shutil.copytree(theirs, ours)
        take_over_checkpoint(apache.data_dir / CLEANED, node.data_dir / CLEANED, topic_name)
    node.start()
    check_with_java(node, topic_name, check(node, topic_name, last))
    cleaned_by_kafka = cleaned_offset(node, topic_name)
    # It does not know its settings: those are no files of the log.
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    set_configs(admin, topic_name)
    update(node, topic_name, last, codec="none", seed=3)
    deadline = time.monotonic() + PATIENCE_S
    while cleaned_offset(node, topic_name) <= cleaned_by_kafka:
        assert time.monotonic() < deadline, f"nothing was compacted: {node.log_text()}"
        time.sleep(0.2)
    check(node, topic_name, last)
    node.kill()
    node.start()
    check(node, topic_name, last)


@contextmanager
def away(apache: ApacheKafka, end: str) -> Iterator[None]:
    """Stopped for a while; when it is back it trusts what it finds, or reads everything as after a kill."""
    apache.stop()
    if end == "killed":
        (apache.data_dir / CLEAN_SHUTDOWN).unlink()
    try:
        yield
    finally:
        apache.start()


def set_configs(admin: AdminClient, topic: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in CONFIG.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(30)


def take_over_checkpoint(source: Path, target: Path, topic: str) -> None:
    """The line of one topic, added to what is there."""
    kept = target.read_text().splitlines()[2:] if target.exists() else []
    kept = [line for line in kept if line.split()[0] != topic]
    kept += [line for line in source.read_text().splitlines()[2:] if line.split()[0] == topic]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")
