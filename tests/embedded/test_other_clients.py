"""The other Python clients on an embedded broker: groups, faults and time, as they meet them."""

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import MessageSizeTooLargeError as KafkaPythonTooLarge

from headrace.testing import Broker


def test_kafka_python(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=10)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=10_000,
    )
    try:
        with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="orders", times=2) as fault:
            producer.send("orders", b"1", key=b"alice").get(10)
        assert fault.hits == 2
        with (
            broker.faults.error("MESSAGE_TOO_LARGE", api="Produce", topic="orders"),
            pytest.raises(KafkaPythonTooLarge),
        ):
            producer.send("orders", b"2").get(10)
        with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Fetch", topic="orders") as fault:
            assert next(consumer).value == b"1"
            assert fault.hits == 1
        consumer.commit()
        group = broker.groups()["billing"]
        assert group.offsets["orders", 0].offset == 1
        assert [member.assignment for member in group.members] == [{"orders": (0,)}]
        broker.clock.advance_mono(seconds=60)
        assert broker.groups()["billing"].members == ()
        broker.produce("orders", b"3")  # After an error that is not tried again this client's producer is at its end.
        assert next(consumer).value == b"3"  # It joined again.
    finally:
        consumer.close()
        producer.close()


def test_aiokafka(broker: Broker) -> None:
    async def use() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=10, enable_idempotence=True)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with producer, consumer:
            with broker.faults.disconnect(api="Produce", topic="orders", handled=True) as fault:
                await producer.send_and_wait("orders", b"1")
            assert fault.hits == 1
            assert broker.log("orders").values == [b"1"]
            with broker.faults.error("MESSAGE_TOO_LARGE", api="Produce"), pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait("orders", b"2")
            message = await asyncio.wait_for(consumer.getone(), 20)
            assert message.value == b"1"
            await consumer.commit()
            assert broker.groups()["billing"].offsets["orders", 0].offset == 1

    asyncio.run(use())


def test_a_test_thread_that_never_rests_does_not_starve_a_broker_beside_it(broker: Broker) -> None:
    """The reason for a process of its own; with its switch interval, a thread gets on as well."""

    def write_some(to: Broker) -> float:
        producer = KafkaProducer(bootstrap_servers=to.bootstrap)
        began_s = time.monotonic()
        try:
            for _ in range(50):
                future = producer.send("orders", b"1")
                spin_until(lambda future=future: bool(future.is_done))
        finally:
            producer.close()
        return time.monotonic() - began_s

    assert write_some(broker) < 30
    with Broker(in_thread=True) as beside:
        assert write_some(beside) < 60


def spin_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        pass
