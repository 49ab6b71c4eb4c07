import re
from pathlib import Path

import pytest

import headrace
from headrace.errors import ApiError, ConfigError, ErrorCode
from headrace.node.configs import (
    BrokerConfig,
    TopicConfig,
    parse_broker_override,
    parse_topic_override,
)


def test_every_attribute_bears_its_settings_name() -> None:
    for table in (TopicConfig, BrokerConfig):
        for row in table.rows.values():
            assert row.attribute == row.name.replace(".", "_")
            assert row.doc.endswith(".")


def test_the_type_of_a_default_is_the_type_of_its_annotation() -> None:
    for table in (TopicConfig, BrokerConfig):
        config = table()
        for row in table.rows.values():
            declared = table.__annotations__[row.attribute]
            assert isinstance(getattr(config, row.attribute), getattr(declared, "__origin__", declared))


def test_a_setting_that_claims_to_act_is_read_by_somebody() -> None:
    package = Path(headrace.__file__).parent
    own = {"configs.py", "settings.py", "config_entries.py", "config_page.py"}
    text = "\n".join(file.read_text() for file in package.rglob("*.py") if file.name not in own)
    read = set(re.findall(r"\.([a-z_]+)", text))
    inside = {"broker_id", "internal_segment_bytes", "message_timestamp_type", "remote_storage_enable"}
    inherited = {synonym.name for row in TopicConfig.rows.values() for synonym in row.synonyms}
    for row in TopicConfig.rows.values():
        assert row.acts == (row.attribute in read | inside), row.name
    for row in BrokerConfig.rows.values():
        if row.name not in inherited:
            assert row.acts == (row.attribute in read | inside), row.name


def test_a_broker_setting_acts_if_the_topic_setting_above_it_does() -> None:
    for row in TopicConfig.rows.values():
        for synonym in row.synonyms:
            assert BrokerConfig.rows[synonym.name].acts == row.acts, synonym.name


def test_a_topic_without_overrides_is_what_the_broker_says() -> None:
    inherited = TopicConfig.resolve(BrokerConfig(), {})
    defaults = TopicConfig()
    for row in TopicConfig.rows.values():
        assert getattr(inherited, row.attribute) == getattr(defaults, row.attribute), row.name


def test_the_finest_retention_that_was_given_holds() -> None:
    given = {"log.retention.hours": "5"}
    assert TopicConfig.resolve(BrokerConfig.resolve(given), {}).retention_ms == 5 * 3_600_000
    given["log.retention.minutes"] = "7"
    assert TopicConfig.resolve(BrokerConfig.resolve(given), {}).retention_ms == 7 * 60_000
    given["log.retention.ms"] = "9"
    assert TopicConfig.resolve(BrokerConfig.resolve(given), {}).retention_ms == 9
    assert TopicConfig.resolve(BrokerConfig.resolve(given), {"retention.ms": "-1"}).retention_ms == -1


@pytest.mark.parametrize("name", ["log.retention.hours", "log.retention.minutes", "log.retention.ms"])
def test_negative_retention_is_for_ever_in_any_unit(name: str) -> None:
    assert TopicConfig.resolve(BrokerConfig.resolve({name: "-1"}), {}).retention_ms == -1


def test_flush_by_time_falls_back_to_the_scheduler() -> None:
    by_scheduler = BrokerConfig.resolve({"log.flush.scheduler.interval.ms": "3000"})
    assert TopicConfig.resolve(by_scheduler, {}).flush_ms == 3000
    by_interval = BrokerConfig.resolve({"log.flush.scheduler.interval.ms": "3000", "log.flush.interval.ms": "70"})
    assert TopicConfig.resolve(by_interval, {}).flush_ms == 70


def test_dynamic_values_lie_over_static_ones() -> None:
    config = BrokerConfig.resolve(
        {"message.max.bytes": "1", "log.segment.bytes": "2000000", "num.partitions": "4"},
        dynamic={"message.max.bytes": "3"},
        dynamic_default={"message.max.bytes": "2", "log.segment.bytes": "3000000"},
    )
    assert (config.message_max_bytes, config.log_segment_bytes, config.num_partitions) == (3, 3_000_000, 4)


def test_views_that_storage_reads() -> None:
    topic = TopicConfig.resolve(
        BrokerConfig(), {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
    )
    assert (topic.log_append_time, topic.deletes) == (True, False)
    assert (TopicConfig().log_append_time, TopicConfig().deletes) == (False, True)


def test_small_segments_for_tests_go_round_the_lower_bound() -> None:
    with pytest.raises(ApiError, match="Value must be at least 1048576"):
        TopicConfig.resolve(BrokerConfig(), {"segment.bytes": "1000"})
    assert TopicConfig.resolve(BrokerConfig(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_an_unknown_name_is_reported_before_a_wrong_value() -> None:
    with pytest.raises(ApiError, match=r"^Unknown topic config name: zz$"):
        TopicConfig.resolve(BrokerConfig(), {"segment.ms": "abc", "zz": "1"})


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(ApiError, match=r"conflict topic config setting min.compaction.lag.ms \(100\) > max"):
        TopicConfig.resolve(BrokerConfig(), {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"})
    with pytest.raises(ApiError, match=r"^Tiered Storage functionality is disabled in the broker\."):
        TopicConfig.resolve(BrokerConfig(), {"remote.storage.enable": "true"})


def test_one_override_is_parsed_alone() -> None:
    assert parse_topic_override("retention.ms", " 17 ") == 17
    with pytest.raises(ApiError) as refused:
        parse_topic_override("retention.ms", "abc")
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_broker_override_must_be_dynamic_and_valid() -> None:
    assert parse_broker_override("log.segment.bytes", "2000000") == 2_000_000
    for name, text, words in [
        ("num.partitions", "3", "Cannot update these configs dynamically: Set(num.partitions)"),
        (
            "log.segment.bytes",
            "3",
            "Invalid value 3 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        ("num.io.threads", "3", "Unknown broker config name: num.io.threads"),
    ]:
        with pytest.raises(ApiError) as refused:
            parse_broker_override(name, text)
        assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num.partition": "1"}, "unknown setting num.partition; did you mean num.partitions?"),
        ({"num.io.thread": "1"}, "unknown setting num.io.thread; did you mean num.io.threads?"),
        ({"qqq": "1"}, "unknown setting qqq"),
        (
            {"num.partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            {"authorizer.class.name": "A"},
            "authorizer.class.name is not supported, and ignoring it could let through what it should stop",
        ),
        ({"node.id": "1", "broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"log.roll.ms": "0"}, "Invalid value 0 for configuration segment.ms: Value must be at least 1"),
        (
            {"log.retention.minutes": "0"},
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1",
        ),
    ],
)
def test_a_broker_that_cannot_be_configured_says_why(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.resolve(given)
    assert str(refused.value) == words


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig.resolve({"broker.id": "7"}).node_id == 7
    assert BrokerConfig.resolve({"node.id": "7"}).broker_id == 7
    assert BrokerConfig.resolve({"node.id": "7", "broker.id": "7"}).node_id == 7


def test_names_without_effect_are_told_once() -> None:
    config = BrokerConfig.resolve(
        {"num.io.threads": "8", "listener.name.internal.ssl.keystore.location": "x", "num.partitions": "2",
         "log.preallocate": "true"},
        dynamic={"log.preallocate": "false"},
    )  # fmt: skip
    assert sorted(config.names_without_effect()) == [
        "listener.name.internal.ssl.keystore.location", "log.preallocate", "num.io.threads",
    ]  # fmt: skip
