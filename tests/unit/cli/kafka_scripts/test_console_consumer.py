"""Messages as Kafka's console consumer prints them."""

import pytest

from headrace.cli.kafka_scripts.console_consumer import message_renderer
from headrace.cli.kafka_scripts.flags import Misused
from headrace.cli.message_text import Message
from headrace.cli.output import CommandError

MESSAGE = Message(b"k", b"v", [("h", b"1"), ("i", None)], partition=2, offset=7, timestamp_ms=5, topic="t")
SERIALIZATION = "org.apache.kafka.common.serialization."


def text(message: Message = MESSAGE, **properties: str) -> bytes:
    return message_renderer({name.replace("_", "."): value for name, value in properties.items()})(message)


def test_a_value_and_the_end_of_the_line() -> None:
    assert text() == b"v\n"
    assert text(line_separator="|") == b"v|"


def test_everything_in_kafkas_order() -> None:
    shown = dict.fromkeys(
        ("print_value", "print_key", "print_headers", "print_offset", "print_partition", "print_timestamp"), "true"
    )
    assert text(**shown) == b"CreateTime:5\tPartition:2\tOffset:7\th:1,i:null\tk\tv\n"
    assert text(**shown, key_separator=" ", headers_separator=";", null_literal="-") == (
        b"CreateTime:5 Partition:2 Offset:7 h:1;i:- k v\n"
    )


def test_without_a_value_the_last_part_ends_the_line() -> None:
    assert text(print_key="true", print_value="false") == b"k\n"
    assert text(print_value="false") == b""


def test_what_is_not_there() -> None:
    bare = Message(None, None, partition=0, offset=0)
    assert text(bare, print_key="true", print_headers="true", print_timestamp="true") == (
        b"NO_TIMESTAMP\tNO_HEADERS\tnull\tnull\n"
    )


def test_who_stamped_it() -> None:
    stamped = MESSAGE._replace(is_stamped_by_broker=True)
    assert text(stamped, print_timestamp="true") == b"LogAppendTime:5\tv\n"


def test_numbers() -> None:
    number = MESSAGE._replace(key=b"\xff\xff\xff\xff", value=b"\0" * 7 + b"\x05")
    long = f"{SERIALIZATION}LongDeserializer"
    how = {"key_deserializer": f"{SERIALIZATION}IntegerDeserializer", "value_deserializer": long}
    assert text(number, print_key="true", **how) == b"-1\t5\n"
    with pytest.raises(CommandError, match="not a number of 8 bytes"):
        text(MESSAGE, value_deserializer=long)


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(Misused, match=r"print\.keys"):
        text(print_keys="true")
    with pytest.raises(Misused, match=r"com\.example\.Mine"):
        text(value_deserializer="com.example.Mine")
