"""Files carried between Headrace and Apache Kafka, in both directions.

Kafka's own reader of segments must find nothing to say about ours; each broker must serve what the other wrote,
message for message, and carry on writing to it.
"""

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.drivers import CODECS, DRIVERS
from tests.clients.scenario import Message, digest, messages, spread
from tests.interop.dumped import dump
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import ToolMissing, without_tool

PARTITIONS: Final = 2
# The smallest segments that Kafka allows, and index entries often enough to be worth checking.
CONFIG: Final = {"segment.bytes": str(1 << 20), "index.interval.bytes": "500"}
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)

Sent = dict[int, list[Message]]


@pytest.fixture(autouse=True)
def java() -> None:
    """Every test here needs Kafka's jars, also those that need no broker of it."""
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Headrace]:
    """A node of the test's own; it starts only when told to."""
    fresh = Headrace(tmp_path / "headrace", properties={"log.retention.ms": "-1"})
    yield fresh
    fresh.discard()


def create_topic(broker: RunningBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=CONFIG)])[topic].result(30)


def write(broker: RunningBroker, topic: str, *, codecs: tuple[str, ...] = CODECS, acks: str = "all") -> Sent:
    """Each codec by two clients, idempotent with acks=all: several segments, small batches and large."""
    sent: Sent = {partition: [] for partition in range(PARTITIONS)}
    writers = itertools.cycle([DRIVERS["kafka-python"], DRIVERS["aiokafka"]])
    for seed, (codec, driver) in enumerate(zip(codecs, writers, strict=False)):
        singles = spread(messages(200, seed=seed), PARTITIONS)
        write_singly(broker, topic, singles, codec=codec, acks=acks)
        extend(sent, singles)
        large = messages(0, seed=seed, large=True) * PARTITIONS
        share = spread(messages(400, seed=seed) + large, PARTITIONS)
        driver.produce(broker.bootstrap, topic, share, codec=codec, acks=acks)
        extend(sent, share)
    return sent


def extend(sent: Sent, more: Sent) -> None:
    for partition, found in more.items():
        sent[partition] += found


def write_singly(broker: RunningBroker, topic: str, sent: Sent, *, codec: str, acks: str) -> None:
    """Each message in a batch of its own, which gives indexes something to do."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "acks": acks, "linger.ms": 0,
         "enable.idempotence": acks == "all", "batch.num.messages": 1}
    )  # fmt: skip
    for partition, found in sent.items():
        for message in found:
            producer.produce(
                topic, message.value, message.key, partition,
                timestamp=message.timestamp_ms, headers=list(message.headers),
            )  # fmt: skip
    assert producer.flush(30) == 0


def check(broker: RunningBroker, topic: str, sent: Sent) -> None:
    for name, driver in DRIVERS.items():
        for partition, expected in sent.items():
            found = driver.consume(broker.bootstrap, topic, partition, count=len(expected))
            assert digest(found) == digest(expected), f"{name} read {len(found)} of {len(expected)} from {partition}"


def files(directory: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed-and-restarted"])
def test_kafkas_reader_has_no_complaint_about_our_files(node: Headrace, killed: bool) -> None:
    node.start()
    create_topic(node, "ours")
    sent = write(node, "ours")
    if killed:
        node.kill()
        node.start()
        extend(sent, write(node, "ours", codecs=("lz4",)))
    node.stop()
    for partition, expected in sent.items():
        directory = node.partition_dir("ours", partition)
        assert len(files(directory, ".log")) >= 4
        assert sum(path.stat().st_size for path in files(directory, ".index")) > 8 * 50
        found = dump(files(directory, ".log", ".index", ".timeindex", ".snapshot"))
        assert found.complaints == []
        assert found.offsets == list(range(len(expected)))
        assert set(found.codecs) == set(CODECS)
        sane = dump(files(directory, ".index", ".timeindex"), options=["--index-sanity-check"])
        assert sane.complaints == []


def test_kafkas_reader_does_complain_when_there_is_cause(node: Headrace) -> None:
    node.start()
    create_topic(node, "ours")
    write(node, "ours", codecs=("none",))
    node.stop()
    directory = node.partition_dir("ours", 0)
    # One less in an entry's offset, in an entry's timestamp, and in the first batch's records.
    for suffix, position in ((".index", 3), (".timeindex", 7), (".log", 100)):
        damaged = directory / f"{0:020d}{suffix}"
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:position] + bytes([whole[position] - 1]) + whole[position + 1 :])
        assert dump([damaged]).complaints, suffix
        damaged.write_bytes(whole)
        assert not dump([damaged]).complaints, suffix


ENDS: Final[dict[str, Callable[[RunningBroker], None]]] = {
    "stopped": lambda broker: broker.stop(),
    "killed": lambda broker: broker.kill(),
}


@contextmanager
def ended(broker: RunningBroker, end: str) -> Iterator[None]:
    """Out of the way for a while; back whatever happens, for the tests that come after."""
    ENDS[end](broker)
    try:
        yield
    finally:
        broker.start()


@pytest.mark.parametrize("end", ENDS)
def test_we_serve_what_kafka_wrote(apache: ApacheKafka, node: Headrace, topic_name: str, end: str) -> None:
    create_topic(apache, topic_name)
    sent = write(apache, topic_name)
    with ended(apache, end):
        for partition in sent:
            written = apache.partition_dir(topic_name, partition)
            assert len(files(written, ".log")) >= 4
            shutil.copytree(written, node.partition_dir(topic_name, partition))
    node.start()
    check(node, topic_name, sent)
    extend(sent, write(node, topic_name, codecs=("zstd",)))
    check(node, topic_name, sent)
    node.kill()
    node.start()
    check(node, topic_name, sent)
    assert not re.search(" (warning|error) ", node.log_text()), node.log_text()


@pytest.mark.parametrize("end", ENDS)
def test_kafka_serves_what_we_wrote(apache: ApacheKafka, node: Headrace, topic_name: str, end: str) -> None:
    """After a stop it trusts our indexes, snapshots and epochs; after a kill it reads everything again."""
    node.start()
    create_topic(node, topic_name)
    sent = write(node, topic_name)
    ENDS[end](node)
    create_topic(apache, topic_name)
    write(apache, topic_name, codecs=("none",))  # Kafka makes folders some time after it made the topic.
    with ended(apache, end):
        for partition in sent:
            theirs, ours = apache.partition_dir(topic_name, partition), node.partition_dir(topic_name, partition)
            shutil.copy(theirs / "partition.metadata", ours)
            shutil.rmtree(theirs)
            shutil.copytree(ours, theirs)
        for checkpoint in CHECKPOINTS:
            forget_partitions(apache.data_dir / checkpoint, topic_name)
        logged_chars = len(apache.log_text())
    check(apache, topic_name, sent)
    # Without idempotence: unlike us, Kafka may give out an id again that a log from elsewhere remembers.
    extend(sent, write(apache, topic_name, codecs=("zstd",), acks="1"))
    check(apache, topic_name, sent)
    assert topic_name not in apache.log_text()[logged_chars:]


def forget_partitions(checkpoint: Path, topic: str) -> None:
    """Take a topic's lines out of a checkpoint: a version, a count, and a line for each partition."""
    text = checkpoint.read_text()
    if not text:
        return  # Kafka makes the file before it has anything to write.
    version, _, *lines = text.splitlines()
    kept = [line for line in lines if line.split()[0] != topic]
    checkpoint.write_text("\n".join([version, str(len(kept)), *kept]) + "\n")
