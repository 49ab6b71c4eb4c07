"""Lines as Kafka's console producer reads them."""

import pytest

from headrace.cli.kafka_scripts.console_producer import line_format, line_parser
from headrace.cli.kafka_scripts.flags import Misused
from headrace.cli.message_text import Message
from headrace.errors import ConfigError


def message(line: bytes, **properties: str) -> Message:
    return line_parser(line_format({name.replace("_", "."): text for name, text in properties.items()}))(line)


def test_a_line_is_a_value() -> None:
    assert message(b"a\tb:c") == Message(None, b"a\tb:c", [])
    assert message(b"a\r") == Message(None, b"a", [])


def test_keys() -> None:
    assert message(b"k\tv\tw", parse_key="true") == Message(b"k", b"v\tw", [])
    assert message(b"k::v", parse_key=" TRUE ", key_separator="::") == Message(b"k", b"v", [])
    assert message(b"k:v", parse_key="false", key_separator=":") == Message(None, b"k:v", [])


def test_headers_before_the_key() -> None:
    whole = message(b"h:1,i:x:y\tk\tv", parse_key="true", parse_headers="true")
    assert whole == Message(b"k", b"v", [("h", b"1"), ("i", b"x:y")])
    alone = message(b"h=1;i=2|v", parse_headers="true", headers_delimiter="|", headers_separator=";",
                    headers_key_separator="=")  # fmt: skip
    assert alone == Message(None, b"v", [("h", b"1"), ("i", b"2")])


def test_nulls() -> None:
    how = {"parse_key": "true", "parse_headers": "true", "null_marker": "NULL"}
    assert message(b"NULL\tNULL\tNULL", **how) == Message(None, None, [])
    assert message(b"h:NULL\tk\tv", **how) == Message(b"k", b"v", [("h", None)])
    with pytest.raises(ConfigError, match="stands for null"):
        message(b"NULL:x\tk\tv", **how)


@pytest.mark.parametrize("line", [b"v", b"h:1\tv"])
def test_what_is_missing_is_an_error_unless_told_to_ignore_it(line: bytes) -> None:
    with pytest.raises(ConfigError, match=r"no (key separator|headers delimiter) found"):
        message(line, parse_key="true", parse_headers="true")
    assert message(b"v", parse_key="true", ignore_error="true") == Message(None, b"v", [])
    ignored = message(b"h\tv", parse_headers="true", ignore_error="true")
    assert ignored == Message(None, b"v", [("h", None)])


@pytest.mark.parametrize(
    "properties",
    [
        {"parse.keys": "true"},
        {"headers.delimiter": ","},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"null.marker": ":", "headers.key.separator": ":"},
    ],
)
def test_what_cannot_be_meant(properties: dict[str, str]) -> None:
    with pytest.raises(Misused):
        line_format(properties)
