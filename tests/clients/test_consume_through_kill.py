"""A consumer that is half-way through when the node dies goes on where it was.

An unclean stop gives the partition a new leader epoch. A client that learns of it asks whether its position still
exists before it reads on.
"""

import time
from collections.abc import Callable, Generator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition

from headrace.testing.node_process import NodeProcess
from tests.clients.drivers import DRIVERS
from tests.clients.forgiven import refused_connections_forgiven
from tests.clients.scenario import messages

Counts = Generator[int, None, None]

SENT = messages(300, seed=8)
METADATA_AGE_MS = 200
DEADLINE_S = 30.0


def read_with_kafka_python(bootstrap: str) -> Counts:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, max_poll_records=10, metadata_max_age_ms=METADATA_AGE_MS
    )
    try:
        partition = TopicPartition("kept", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while True:
            yield sum(map(len, consumer.poll(timeout_ms=200).values()))
    finally:
        consumer.close()


def read_with_confluent(bootstrap: str) -> Counts:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "queued.min.messages": 1, "fetch.queue.backoff.ms": 10,
         "topic.metadata.refresh.interval.ms": METADATA_AGE_MS, "fetch.message.max.bytes": 2000}
    )  # fmt: skip
    try:
        consumer.assign([ConfluentPartition("kept", 0, 0)])
        while True:
            yield sum(message.error() is None for message in consumer.consume(10, 0.2))
    finally:
        consumer.close()


@pytest.mark.parametrize("read", [read_with_kafka_python, read_with_confluent])
def test_a_consumer_carries_on_through_a_kill(read: Callable[[str], Counts], node: NodeProcess) -> None:
    writer = DRIVERS["confluent-kafka"]
    writer.create_topic(node.bootstrap, "kept", partitions=1)
    for first in range(0, len(SENT), 10):
        writer.produce(node.bootstrap, "kept", {0: SENT[first : first + 10]}, codec="none", acks="1")
    with refused_connections_forgiven():
        assert read_through_a_kill(read(node.bootstrap), node) == len(SENT)


def read_through_a_kill(counts: Counts, node: NodeProcess) -> int:
    """How many messages came, of which the first hundred before the kill."""
    deadline_s = time.monotonic() + DEADLINE_S
    count = 0
    while count < 100 and time.monotonic() < deadline_s:
        count += next(counts)
    node.kill()
    node.start()
    while count < len(SENT) and time.monotonic() < deadline_s:
        count += next(counts)
        time.sleep(METADATA_AGE_MS / 5000)  # Long enough in all for the new epoch to become known on the way.
    counts.close()
    return count
