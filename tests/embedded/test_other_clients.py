"""The other Python clients on an embedded broker: groups, faults and time, as they meet them."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import MessageSizeTooLargeError as KafkaPythonTooLarge

from headrace.testing import Broker

REQUESTS = 100
_NEVER_S = 1000.0  # Between a thread's turns.


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
    """A process of its own is answering even if this one gives its interpreter away to nobody; a broker in a thread
    needs the shorter turns that it asks for."""
    its_own_s = sys.getswitchinterval()
    sys.setswitchinterval(_NEVER_S)
    try:
        assert answered_while_spinning(broker) == REQUESTS
        with Broker(in_thread=True) as beside:
            assert answered_while_spinning(beside) == REQUESTS
    finally:
        sys.setswitchinterval(its_own_s)


def answered_while_spinning(broker: Broker) -> int:
    """Of another process's requests, while this thread lets no other have the interpreter unless it is made to."""
    command = [sys.executable, str(Path(__file__).with_name("round_trips.py")), broker.bootstrap, str(REQUESTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        while asking.poll() is None:
            spin(seconds=0.2)
        assert asking.stdout is not None
        assert asking.returncode == 0
        return int(asking.stdout.read())


def spin(*, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        pass
