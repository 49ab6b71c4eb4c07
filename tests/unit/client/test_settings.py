"""What librdkafka is told, in either spelling."""

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.client import Consumer, Producer
from headrace.client.settings import consumer_settings, producer_settings
from headrace.errors import ConfigError
from headrace.wire.settings import client_settings

JAVA = {
    "bootstrap.servers": "broker:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="KEY" password="SECRET";',
}


def test_java_and_librdkafka_spell_the_same_settings() -> None:
    told = consumer_settings(None, JAVA, {})
    assert told["bootstrap.servers"] == "broker:9093"
    assert (told["sasl.username"], told["sasl.password"]) == ("KEY", "SECRET")
    told = consumer_settings("here:1", {"sasl.username": "KEY", "client.id": "me"}, {})
    assert told["bootstrap.servers"] == "here:1"
    assert (told["sasl.username"], told["client.id"]) == ("KEY", "me")


def test_a_properties_file_will_do(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in JAVA.items()))
    assert producer_settings(None, file, {})["sasl.password"] == "SECRET"


def test_one_file_means_the_same_to_both_clients(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file that Confluent Cloud gives people, with its lines for a Schema Registry."""
    file = tmp_path / "client.properties"
    registry = {"schema.registry.url": "https://example.com", "basic.auth.credentials.source": "USER_INFO"}
    file.write_text("".join(f"{name}={value}\n" for name, value in (JAVA | registry).items()))
    named = client_settings(config=file).not_in_force
    assert named == ("basic.auth.credentials.source", "schema.registry.url")
    with caplog.at_level(logging.INFO, "headrace.client"):
        assert not registry.keys() & consumer_settings(None, file, {}).keys()
    assert caplog.messages == [f"not in force here: {', '.join(named)}"]
    Producer(None, config=file).close()  # librdkafka has nothing against it.
    Consumer(None, "group", config=file).close()


def test_the_users_word_counts_for_more_than_a_default_and_less_than_a_promise() -> None:
    given = {"partition.assignment.strategy": "range", "error_cb": print}
    told = consumer_settings("here:1", given, {"error_cb": len})
    assert told["partition.assignment.strategy"] == "range"
    assert told["error_cb"] is len
    assert consumer_settings("here:1", {}, {})["partition.assignment.strategy"] == "cooperative-sticky"


@pytest.mark.parametrize("name", ["group.id", "auto.offset.reset", "enable.auto.commit", "auto.commit.interval.ms"])
def test_what_a_consumer_says_in_its_own_way(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not set here: use "):
        Consumer("here:1", "group", config={name: "1"})


@pytest.mark.parametrize("name", ["partitioner", "linger.ms", "batch.num.messages", "transactional.id"])
def test_what_a_producer_says_in_its_own_way(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not set here: use "):
        Producer("here:1", config={name: "1"})


def test_no_receipt_without_acknowledgement() -> None:
    with pytest.raises(ConfigError, match="acks=0"):
        Producer("here:1", config={"acks": 0})


@pytest.mark.parametrize(
    ("config", "idempotent"),
    [({}, "true"), ({"acks": "all"}, "true"), ({"acks": 1}, None), ({"enable.idempotence": False}, "false")],
)
def test_a_producer_is_idempotent_where_it_can_be(config: dict[str, Any], idempotent: str | None) -> None:
    assert producer_settings("here:1", config, {}).get("enable.idempotence") == idempotent


def test_a_setting_that_nobody_knows_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        Producer("here:1", config={"no.such.setting": "1"})


def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="start is"):
        Consumer("here:1", "group", start="earliest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="None is never"):
        Consumer("here:1", "group", commit_every_s=0)
    with pytest.raises(ValueError, match="a partitioner is"):
        Producer("here:1", partitioner="murmur2")  # type: ignore[arg-type]
