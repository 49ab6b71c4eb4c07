"""Settings as kafka-configs takes and prints them."""

import pytest

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
    entry = {
        "name": "retention.ms",
        "value": "5",
        "config_source": 1,
        "is_sensitive": False,
        "synonyms": [
            {"name": "retention.ms", "value": "5", "source": 1},
            {"name": "log.retention.ms", "value": "6", "source": 3},
            {"name": "log.retention.ms", "value": None, "source": 5},
        ],
    }
    assert entry_line(entry) == (
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=6, DEFAULT_CONFIG:log.retention.ms=null}"
    )
