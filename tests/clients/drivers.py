"""Three Python clients that nobody here wrote, behind one face: confluent-kafka, kafka-python and aiokafka.

Each produces to given partitions and reads by assignment; no driver helps its client along beyond that.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tests.clients.scenario import Message

DEADLINE_S = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Driver(Protocol):
    name: str

    def create_topic(self, bootstrap: str, topic: str, *, partitions: int) -> None: ...

    def produce(
        self, bootstrap: str, topic: str, by_partition: Mapping[int, Iterable[Message]], *, codec: str, acks: str
    ) -> None:
        """Returns once everything is acknowledged (or, with acks=0, handed over); raises otherwise."""
        ...

    def consume(self, bootstrap: str, topic: str, partition: int, *, count: int) -> list[Message]: ...


class Confluent:
    name = "confluent-kafka"

    def create_topic(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(DEADLINE_S)

    def produce(
        self, bootstrap: str, topic: str, by_partition: Mapping[int, Iterable[Message]], *, codec: str, acks: str
    ) -> None:
        from confluent_kafka import Producer

        failures: list[Any] = []
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": acks, "linger.ms": 5,
             "enable.idempotence": acks == "all", "message.max.bytes": 2_000_000}
        )  # fmt: skip
        for partition, found in by_partition.items():
            for message in found:
                producer.produce(
                    topic,
                    value=message.value,
                    key=message.key,
                    partition=partition,
                    headers=list(message.headers),
                    timestamp=message.timestamp_ms,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert not failures, failures[0]

    def consume(self, bootstrap: str, topic: str, partition: int, *, count: int) -> list[Message]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            found: list[Message] = []
            deadline_s = time.monotonic() + DEADLINE_S
            while len(found) < count and time.monotonic() < deadline_s:
                for message in consumer.consume(500, 0.2):
                    assert message.error() is None, message.error()
                    assert message.offset() == len(found)
                    headers = tuple((name, content) for name, content in message.headers() or [])
                    found.append(Message(message.key(), message.value(), headers, message.timestamp()[1]))
            return found
        finally:
            consumer.close()


class KafkaPython:
    name = "kafka-python"

    def create_topic(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        finally:
            admin.close()

    def produce(
        self, bootstrap: str, topic: str, by_partition: Mapping[int, Iterable[Message]], *, codec: str, acks: str
    ) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            linger_ms=5,
            max_request_size=2_000_000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for partition, found in by_partition.items()
                for message in found
            ]
            producer.flush(DEADLINE_S)
            for future in futures:
                future.get(DEADLINE_S)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, partition: int, *, count: int) -> list[Message]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
        try:
            assigned = TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, 0)
            found: list[Message] = []
            deadline_s = time.monotonic() + DEADLINE_S
            while len(found) < count and time.monotonic() < deadline_s:
                for batch in consumer.poll(timeout_ms=200).values():
                    for record in batch:
                        assert record.offset == len(found)
                        headers = tuple((name, content) for name, content in record.headers)
                        found.append(Message(record.key, record.value, headers, record.timestamp))
            return found
        finally:
            consumer.close()


class Aiokafka:
    name = "aiokafka"

    def create_topic(self, bootstrap: str, topic: str, *, partitions: int) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            try:
                await admin.create_topics([NewTopic(topic, partitions, 1)])
            finally:
                await admin.close()

        asyncio.run(create())

    def produce(
        self, bootstrap: str, topic: str, by_partition: Mapping[int, Iterable[Message]], *, codec: str, acks: str
    ) -> None:
        from aiokafka import AIOKafkaProducer

        async def produce() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == "all" else int(acks),
                enable_idempotence=acks == "all",
                linger_ms=5,
                max_request_size=2_000_000,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=partition,
                        timestamp_ms=message.timestamp_ms,
                    )
                    for partition, found in by_partition.items()
                    for message in found
                ]
                await asyncio.gather(*futures)
            finally:
                await producer.stop()

        asyncio.run(produce())

    def consume(self, bootstrap: str, topic: str, partition: int, *, count: int) -> list[Message]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def consume() -> list[Message]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
            await consumer.start()
            try:
                assigned = TopicPartition(topic, partition)
                consumer.assign([assigned])
                consumer.seek(assigned, 0)
                found: list[Message] = []
                deadline_s = time.monotonic() + DEADLINE_S
                while len(found) < count and time.monotonic() < deadline_s:
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        for record in batch:
                            assert record.offset == len(found)
                            headers = tuple((name, content) for name, content in record.headers)
                            found.append(Message(record.key, record.value, headers, record.timestamp))
                return found
            finally:
                await consumer.stop()

        return asyncio.run(consume())


DRIVERS: dict[str, Driver] = {driver.name: driver for driver in (Confluent(), KafkaPython(), Aiokafka())}
