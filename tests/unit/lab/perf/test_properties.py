"""Java's settings as librdkafka's."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from headrace.errors import ConfigError
from headrace.lab.perf.properties import consumer_properties, producer_properties

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_kafkas_defaults_are_in_force() -> None:
    told = producer_properties(NOBODY).librdkafka
    assert told | NOBODY == told
    assert told["batch.size"] == "16384"
    assert told["queue.buffering.max.kbytes"] == "32768"
    assert told["queue.buffering.max.messages"] == "0"
    assert told["message.max.bytes"] == "1048576"
    assert told["enable.idempotence"] == "true"
    assert told["client.id"] == "perf-producer-client"
    assert consumer_properties(NOBODY).librdkafka["isolation.level"] == "read_uncommitted"


def test_what_is_said_wins() -> None:
    found = producer_properties(
        NOBODY | {"acks": "1", "linger.ms": "10", "buffer.memory": "65536", "max.block.ms": "5", "client.id": "me"}
    )
    told = found.librdkafka
    assert (told["acks"], told["linger.ms"], told["queue.buffering.max.kbytes"]) == ("1", "10", "64")
    assert told["client.id"] == "me"
    assert found.block_ms_max == 5
    assert "buffer.memory" not in told
    assert "max.block.ms" not in told
    assert consumer_properties(NOBODY | {"max.poll.records": "7"}).poll_records_max == 7


@pytest.mark.parametrize(
    ("said", "is_idempotent"),
    [
        ({}, "true"),
        ({"acks": "-1"}, "true"),
        ({"acks": "1"}, "false"),
        ({"acks": "0"}, "false"),
        ({"retries": "0"}, "false"),
        ({"max.in.flight.requests.per.connection": "6"}, "false"),
        ({"enable.idempotence": "false"}, "false"),
    ],
)
def test_a_producer_is_idempotent_unless_something_excludes_it(said: dict[str, str], is_idempotent: str) -> None:
    assert producer_properties(NOBODY | said).librdkafka["enable.idempotence"] == is_idempotent


def test_a_transactional_producer_needs_no_word_about_it() -> None:
    told = producer_properties(NOBODY | {"transactional.id": "t"}).librdkafka
    assert told["transactional.id"] == "t"
    assert "enable.idempotence" not in told
    assert told["delivery.timeout.ms"] == "60000"
    Producer(told | {"log_level": "0"})


def test_what_librdkafka_calls_otherwise() -> None:
    told = consumer_properties(
        NOBODY
        | {
            "fetch.max.wait.ms": "0",
            "receive.buffer.bytes": "-1",
            "send.buffer.bytes": "4096",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        }
    ).librdkafka
    assert told["fetch.wait.max.ms"] == "0"
    assert told["socket.receive.buffer.bytes"] == "0"
    assert told["socket.send.buffer.bytes"] == "4096"
    assert told["partition.assignment.strategy"] == "range,cooperative-sticky"
    assert not {"key.deserializer", "fetch.max.wait.ms", "receive.buffer.bytes"} & told.keys()


def test_security_is_carried_over() -> None:
    told = producer_properties(
        NOBODY
        | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="U" password="P";',
            "ssl.endpoint.identification.algorithm": "https",
        }
    ).librdkafka
    assert (told["sasl.username"], told["sasl.password"]) == ("U", "P")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("partitioner.class", "com.example.Mine", "a Java class cannot be loaded here"),
        ("interceptor.classes", "com.example.Mine", "a Java class cannot be loaded here"),
        ("buffer.memory", "much", "buffer.memory=much is not a whole number"),
        ("max.in.flight.requests.per.connection", "few", "=few is not a whole number"),
        ("partition.assignment.strategy", "com.example.Mine", "=com.example.Mine is not supported here"),
        ("ssl.provider", "x", "ssl.provider is not supported here"),
    ],
)
def test_what_cannot_be_had_is_named(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        producer_properties(NOBODY | {name: value})


def test_what_nobody_knows_is_named_by_librdkafka() -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        Producer(producer_properties(NOBODY | {"no.such.setting": "1"}).librdkafka)


def test_what_changes_nothing_is_told() -> None:
    assert producer_properties(NOBODY | {"metrics.num.samples": "3"}).without_effect == ("metrics.num.samples",)


def test_librdkafka_takes_all_of_it() -> None:
    quiet = {"log_level": "0"}
    Producer(quiet | producer_properties(NOBODY | {"compression.gzip.level": "3"}).librdkafka)
    consumer = consumer_properties(NOBODY | {"group.id": "g", "check.crcs": "false"})
    Consumer(quiet | consumer.librdkafka).close()
