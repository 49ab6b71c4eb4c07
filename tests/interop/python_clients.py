"""The Python clients of `tests/clients` on the scenarios of these tests.

Sent once to each broker, however many tests look at it.
"""

from collections.abc import Sequence
from functools import cache

from confluent_kafka import Consumer, TopicPartition

from tests.clients.drivers import DRIVERS
from tests.clients.scenario import Message
from tests.interop.exchange import Exchange, topic_of
from tests.interop.records import PARTITIONS, SCENARIOS, Record


def able(name: str, records: Sequence[Record]) -> list[Record]:
    """The records as far as a client can say them."""
    if name == "confluent-kafka":
        return list(records)
    return [
        record
        for record in records
        if (record.key is not None or record.value is not None)
        and all(value is not None for _, value in record.headers)
    ]


@cache
def sent(exchange: Exchange, name: str) -> dict[str, list[Record]]:
    """What a client sent, by scenario, in the order of each partition."""
    able_to = {scenario: able(name, SCENARIOS[scenario].records) for scenario in SCENARIOS}
    exchange.create_topics(*(topic_of(name, scenario) for scenario in SCENARIOS))
    for scenario, records in able_to.items():
        by_partition = {
            partition: [_message(record) for record in records if record.partition == partition]
            for partition in range(PARTITIONS)
        }
        DRIVERS[name].produce(
            exchange.broker.bootstrap,
            topic_of(name, scenario),
            by_partition,
            codec=SCENARIOS[scenario].codec,
            acks=SCENARIOS[scenario].acks,
        )
    return able_to


def read(name: str, bootstrap: str, topic: str, *, partition: int, count: int) -> list[Record]:
    """The first so many records of a partition, and whatever else comes with them."""
    return [
        Record(
            partition=partition,
            key=message.key,
            value=message.value,
            headers=message.headers,
            timestamp_ms=message.timestamp_ms,
        )
        for message in DRIVERS[name].consume(bootstrap, topic, partition, count=count)
    ]


def end_offset(bootstrap: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return int(end)
    finally:
        consumer.close()


def _message(record: Record) -> Message:
    assert record.timestamp_ms is not None
    return Message(record.key, record.value, record.headers, record.timestamp_ms)
