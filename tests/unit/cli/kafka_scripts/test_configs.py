"""Settings as kafka-configs takes and prints them."""

import pytest
from confluent_kafka.admin import ConfigEntry, ConfigSource

from headrace.cli.kafka_scripts.configs import entry_line, parse_added
from headrace.cli.kafka_scripts.flags import Misused


def test_brackets_hold_commas_together() -> None:
    assert parse_added("a=1,b=[x,y,z],c=") == {"a": "1", "b": "x,y,z", "c": ""}
    assert parse_added(" a = 1 ") == {"a": "1"}


@pytest.mark.parametrize("text", ["a", "a=1,b", "=1"])
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(Misused, match="key=val"):
        parse_added(text)


def test_a_setting_with_where_it_comes_from() -> None:
    default = ConfigEntry("log.retention.ms", None, source=ConfigSource.DEFAULT_CONFIG)
    own = ConfigEntry("retention.ms", "5", source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    entry = ConfigEntry(
        "retention.ms",
        "5",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        synonyms={"retention.ms": own, "log.retention.ms": default},
    )
    assert entry_line(entry) == (
        "  retention.ms=5 sensitive=false "
        "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, DEFAULT_CONFIG:log.retention.ms=null}"
    )
