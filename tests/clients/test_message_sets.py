"""`headrace.client.Producer` on a real broker: where messages go, when they leave, and what a receipt knows."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from headrace.client import ClientError, DeliveryFailed, Message, Producer, UnknownTopic, Unreachable, Written
from headrace.testing import Broker

# Kafka's own test vectors of murmur2, as partitions of twelve: (hash & 0x7fffffff) % 12.
JAVA_PARTITIONS = {
    key: (murmur2 & 0x7FFFFFFF) % 12
    for key, murmur2 in {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }.items()
}


@pytest.fixture
def producer(headrace_broker: Broker) -> Iterator[Producer]:
    with Producer(headrace_broker.bootstrap) as made:
        yield made


def test_one_message_and_a_set(headrace_broker: Broker, headrace_topic: str, producer: Producer) -> None:
    assert producer.send(headrace_topic, b"test message str").result(10) == (Written(0, 0),)
    full = Message(b"two", key=b"k", headers=(("trace", b"7"), ("none", None)), timestamp_ms=1_234_567)
    assert producer.send(headrace_topic, [b"one", full]).result(10) == (Written(0, 1), Written(0, 2))
    log = headrace_broker.log(headrace_topic, 0)
    assert log.values == [b"test message str", b"one", b"two"]
    assert (log[2].key, log[2].timestamp_ms) == (b"k", 1_234_567)
    assert list(log[2].headers) == [("trace", b"7"), ("none", None)]


@pytest.mark.headrace_topic(partitions=12)
def test_a_key_goes_where_the_java_client_sends_it(headrace_topic: str, producer: Producer) -> None:
    written = producer.send(headrace_topic, [Message(b"v", key=key) for key in JAVA_PARTITIONS]).result(10)
    assert [one.partition for one in written] == list(JAVA_PARTITIONS.values())


@pytest.mark.headrace_topic(partitions=12)
def test_random_has_no_regard_for_keys(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap, partitioner="random") as producer:
        written = producer.send(headrace_topic, [Message(b"v", key=b"same")] * 200).result(10)
    assert len({one.partition for one in written}) > 6


@pytest.mark.headrace_topic(partitions=3)
def test_a_partitioner_of_ones_own(headrace_broker: Broker, headrace_topic: str) -> None:
    def by_length(message: Message, partitions: int) -> int:
        return len(message.value or b"") % partitions

    with Producer(headrace_broker.bootstrap, partitioner=by_length) as producer:
        written = producer.send(headrace_topic, [b"1", b"22", b"333", Message(b"4444", partition=2)]).result(10)
        assert [one.partition for one in written] == [1, 2, 0, 2]
    with (
        Producer(headrace_broker.bootstrap, partitioner=lambda message, partitions: partitions) as producer,
        pytest.raises(ValueError, match="chose 3 of the 3 partitions"),
    ):
        producer.send(headrace_topic, b"v")


def test_a_batch_leaves_when_it_is_full(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap, batch_messages_max=100, linger_ms=30_000) as producer:
        before = headrace_broker.statistics().requests.get("Produce", 0)
        began_s = time.monotonic()
        producer.send(headrace_topic, [Message(b"v", partition=0)] * 1_000).result(10)
        assert time.monotonic() - began_s < 10
        assert headrace_broker.statistics().requests["Produce"] - before == 10


def test_a_batch_leaves_when_it_has_waited(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap, linger_ms=400) as producer:
        producer.send(headrace_topic, b"the first waits for the connection as well").result(10)
        before = headrace_broker.statistics().requests["Produce"]
        began_s = time.monotonic()
        first = producer.send(headrace_topic, b"first")
        second = producer.send(headrace_topic, b"second")
        first.result(10)
        second.result(10)
        assert 0.35 < time.monotonic() - began_s < 5
        assert headrace_broker.statistics().requests["Produce"] - before == 1


def test_a_flush_waits_for_nothing_but_answers(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap, linger_ms=60_000) as producer:
        receipt = producer.send(headrace_topic, b"v")
        producer.flush(10)
        assert receipt.done()


def test_awaited(headrace_broker: Broker, headrace_topic: str, producer: Producer) -> None:
    async def send() -> list[tuple[Written, ...]]:
        return await asyncio.gather(*(producer.send(headrace_topic, b"%d" % number) for number in range(5)))

    assert sorted(asyncio.run(send())) == [(Written(0, offset),) for offset in range(5)]


def test_what_is_not_acknowledged_is_not_written(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap) as producer:
        with headrace_broker.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic=headrace_topic):
            receipt = producer.send(headrace_topic, [b"1", b"2"])
            with pytest.raises(DeliveryFailed, match=r"2 of 2 messages to .*TOPIC_AUTHORIZATION_FAILED") as raised:
                receipt.result(10)
        assert raised.value.written == (None, None)
    with Producer(headrace_broker.bootstrap) as producer:
        assert producer.send(headrace_topic, b"3").result(10) == (Written(0, 0),)
    assert headrace_broker.log(headrace_topic, 0).values == [b"3"]


def test_one_that_is_too_large_fails_alone(headrace_topic: str, producer: Producer) -> None:
    receipt = producer.send(headrace_topic, [b"small", b"x" * 2_000_000, b"small"])
    with pytest.raises(DeliveryFailed, match=r"number 1: .*MSG_SIZE_TOO_LARGE") as raised:
        receipt.result(10)
    assert raised.value.written == (Written(0, 0), None, Written(0, 1))


def test_a_lost_answer_neither_loses_nor_doubles(headrace_broker: Broker, headrace_topic: str) -> None:
    with Producer(headrace_broker.bootstrap, config={"retry.backoff.ms": 50}) as producer:
        producer.send(headrace_topic, b"0").result(10)
        with headrace_broker.faults.disconnect(api="Produce", topic=headrace_topic, handled=True) as fault:
            assert producer.send(headrace_topic, b"1").result(20) == (Written(0, 1),)
        assert fault.hits == 1
    assert headrace_broker.log(headrace_topic, 0).values == [b"0", b"1"]


def test_a_failure_that_nobody_asked_about_is_raised_by_flush_and_by_close(
    headrace_broker: Broker, headrace_topic: str
) -> None:
    with headrace_broker.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic=headrace_topic, times=None):
        producer = Producer(headrace_broker.bootstrap)
        producer.send(headrace_topic, b"1")
        with pytest.raises(DeliveryFailed):
            producer.flush(10)
        producer.flush(10)
        producer.send(headrace_topic, b"2")
        with pytest.raises(DeliveryFailed):
            producer.close()
        producer = Producer(headrace_broker.bootstrap)
        assert isinstance(producer.send(headrace_topic, b"3").exception(10), DeliveryFailed)
        producer.close()


def test_close_gives_up_in_time_and_says_so(headrace_broker: Broker, headrace_topic: str) -> None:
    producer = Producer(headrace_broker.bootstrap)
    producer.send(headrace_topic, b"0").result(10)
    with headrace_broker.faults.drop(api="Produce", topic=headrace_topic, times=None):
        receipt = producer.send(headrace_topic, b"1")
        with pytest.raises(ClientError, match="not acknowledged within"):
            producer.flush(0.2)
        with pytest.raises(DeliveryFailed, match="_PURGE_INFLIGHT"):
            producer.close(timeout_s=0.2)
    assert receipt.done()
    with pytest.raises(ClientError, match="the producer is closed"):
        producer.send(headrace_topic, b"2")
    producer.close()


def test_nobody_there_and_no_such_topic() -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        with (
            Producer(broker.bootstrap, partitioner=lambda message, partitions: 0, timeout_s=0.5) as producer,
            pytest.raises(UnknownTopic, match="there is no topic 'nowhere' at "),
        ):
            producer.send("nowhere", b"v")
        gone = broker.bootstrap
    with (
        Producer(gone, partitioner=lambda message, partitions: 0, timeout_s=1) as producer,
        pytest.raises(Unreachable, match=f"cannot reach {gone}: .*refused"),
    ):
        producer.send("anything", b"v")
