"""What DescribeConfigs will say; the expectations were observed on Apache Kafka 4.1.1."""

from headrace.node.config_entries import ConfigEntry, SynonymEntry, describe_broker, describe_topic
from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.node.settings import Source


def topic_entry(name: str, broker: BrokerConfig, overrides: dict[str, str] | None = None) -> ConfigEntry:
    topic = TopicConfig.resolve(broker, overrides or {})
    return next(entry for entry in describe_topic(topic, broker) if entry.name == name)


def broker_entry(name: str, broker: BrokerConfig) -> ConfigEntry:
    return next(entry for entry in describe_broker(broker) if entry.name == name)


def test_a_default() -> None:
    entry = topic_entry("segment.bytes", BrokerConfig())
    assert entry == ConfigEntry(
        name="segment.bytes",
        value="1073741824",
        source=Source.DEFAULT,
        read_only=False,
        sensitive=False,
        synonyms=(SynonymEntry("log.segment.bytes", "1073741824", Source.DEFAULT),),
        type_code=3,
        documentation=TopicConfig.rows["segment.bytes"].doc,
    )
    assert entry.is_default


def test_synonyms_run_from_the_strongest_to_the_default() -> None:
    broker = BrokerConfig.resolve(
        {"log.segment.bytes": "2097152"},
        dynamic={"log.segment.bytes": "4000000"},
        dynamic_default={"log.segment.bytes": "3000000"},
    )
    behind = (
        SynonymEntry("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER),
        SynonymEntry("log.segment.bytes", "3000000", Source.DYNAMIC_BROKER_DEFAULT),
        SynonymEntry("log.segment.bytes", "2097152", Source.STATIC_BROKER),
        SynonymEntry("log.segment.bytes", "1073741824", Source.DEFAULT),
    )
    entry = topic_entry("segment.bytes", broker)
    assert (entry.value, entry.source, entry.synonyms) == ("4000000", Source.DYNAMIC_BROKER, behind)
    entry = topic_entry("segment.bytes", broker, {"segment.bytes": " 5000000 "})
    own = SynonymEntry("segment.bytes", "5000000", Source.TOPIC)
    assert (entry.value, entry.source, entry.synonyms) == ("5000000", Source.TOPIC, (own, *behind))


def test_a_coarser_name_alone_leaves_no_synonyms() -> None:
    broker = BrokerConfig.resolve({"log.retention.hours": "5"})
    entry = topic_entry("retention.ms", broker)
    assert (entry.value, entry.source, entry.synonyms) == ("18000000", Source.DEFAULT, ())
    assert topic_entry("flush.ms", broker).synonyms == ()
    entry = broker_entry("log.retention.hours", broker)
    assert (entry.value, entry.source, entry.read_only) == ("5", Source.STATIC_BROKER, True)


def test_a_finer_name_shows_the_coarser_ones_behind_it() -> None:
    broker = BrokerConfig.resolve(
        {"log.retention.hours": "5", "log.retention.minutes": "300"}, dynamic={"log.retention.ms": "100000"}
    )
    expected = (
        SynonymEntry("log.retention.ms", "100000", Source.DYNAMIC_BROKER),
        SynonymEntry("log.retention.minutes", "300", Source.STATIC_BROKER),
        SynonymEntry("log.retention.hours", "5", Source.STATIC_BROKER),
        SynonymEntry("log.retention.hours", "168", Source.DEFAULT),
    )
    assert topic_entry("retention.ms", broker).synonyms == expected
    entry = broker_entry("log.retention.ms", broker)
    assert (entry.value, entry.read_only, entry.synonyms) == ("100000", False, expected)
    assert broker_entry("log.retention.minutes", broker).synonyms == expected[1:]


def test_a_setting_without_a_broker_name_is_a_default_until_overridden() -> None:
    name = "leader.replication.throttled.replicas"
    entry = topic_entry(name, BrokerConfig())
    assert (entry.value, entry.source, entry.synonyms, entry.type_code) == ("", Source.DEFAULT, (), 7)
    entry = topic_entry(name, BrokerConfig(), {name: "0:1, 1:2"})
    assert (entry.value, entry.synonyms) == ("0:1,1:2", (SynonymEntry(name, "0:1,1:2", Source.TOPIC),))


def test_settings_for_tests_are_shown_only_where_they_were_given() -> None:
    def names(overrides: dict[str, str]) -> set[str]:
        topic = TopicConfig.resolve(BrokerConfig(), overrides)
        return {entry.name for entry in describe_topic(topic, BrokerConfig())}

    assert "internal.segment.bytes" not in names({})
    assert "internal.segment.bytes" in names({"internal.segment.bytes": "1000"})


def test_unset_broker_settings_have_no_value() -> None:
    entry = broker_entry("log.retention.ms", BrokerConfig())
    assert (entry.value, entry.source, entry.synonyms) == (None, Source.DEFAULT, ())


def test_every_setting_is_described_once() -> None:
    topic = [entry.name for entry in describe_topic(TopicConfig(), BrokerConfig())]
    broker = [entry.name for entry in describe_broker(BrokerConfig())]
    assert topic == [row.name for row in TopicConfig.rows.values() if not row.internal]
    assert broker == [row.name for row in BrokerConfig.rows.values() if not row.internal]
