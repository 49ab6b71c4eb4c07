"""Every message and version against the bytes that Apache Kafka 4.1.1 makes of it, header included.

The files come from `tests/golden/kafka/capture.py`: three values of each, everything set to values that differ from
field to field, everything as empty as it may be, and one in between.
"""

import base64
import json
from typing import Any, NamedTuple

import pytest

from headrace.protocol.fields import Array, Bytes, F, Struct, Type, Uuid
from headrace.protocol.header import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)
from headrace.protocol.messages import MESSAGES
from headrace.protocol.schema import ApiMessages, Message
from tests.golden.kafka.files import MESSAGE_LINES, NEWER_THAN_KAFKA, camel_case
from tests.message_values import VERSIONED, with_defaults

CLIENT_ID, CORRELATION_ID = "golden", 7


class Golden(NamedTuple):
    api: ApiMessages
    message: Message
    version: int
    value: dict[str, Any]
    body: bytes
    header: bytes

    @property
    def is_request(self) -> bool:
        return self.message is self.api.request


def read_golden() -> list[Golden]:
    golden = []
    for text in MESSAGE_LINES.read_text("utf-8").splitlines():
        line = json.loads(text)
        api = MESSAGES[line["key"]]
        message = api.request if line["message"].endswith("request") else api.response
        assert message.name == line["message"]
        value = from_kafka(message.struct, line["version"], line["value"])
        golden.append(
            Golden(
                api,
                message,
                line["version"],
                value,
                bytes.fromhex(line["hex"]),
                bytes.fromhex(line["header"]),
            )
        )
    return golden


def from_kafka(struct: Struct, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Kafka's JSON as our dict. Only tagged fields may be left out, as they are at their defaults."""
    carried = {camel_case(field.name): field for field in struct.fields if field.in_version(version)}
    assert value.keys() <= carried.keys()
    assert {name for name, field in carried.items() if field.tag is None} <= value.keys()
    return {carried[name].name: item_from_kafka(carried[name], version, item) for name, item in value.items()}


def item_from_kafka(field: F, version: int, item: Any) -> Any:
    return None if item is None else type_from_kafka(field.type, version, item)


def type_from_kafka(type_: Type, version: int, item: Any) -> Any:
    match type_:
        case Array():
            return [type_from_kafka(type_.of, version, each) for each in item]
        case Struct():
            return from_kafka(type_, version, item)
        case Bytes():
            return base64.b64decode(item)
        case Uuid():
            return base64.urlsafe_b64decode(item + "==")
        case _:
            return item


GOLDEN = read_golden()


def golden_id(golden: Golden) -> str:
    return f"{golden.message.name.replace(' ', '-')}-v{golden.version}"


def test_every_version_of_every_table_was_captured() -> None:
    captured = {(golden.message.name, golden.version) for golden in GOLDEN}
    newer = {
        (f"{name} {direction}", version) for name, version in NEWER_THAN_KAFKA for direction in ("request", "response")
    }
    assert captured == {(message.name, version) for message, version in VERSIONED} - newer


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_kafka_writes_the_same(golden: Golden) -> None:
    assert golden.message.encode(golden.value, golden.version).hex() == golden.body.hex()
    assert golden.message.read(golden.body, golden.version) == (
        with_defaults(golden.message.struct, golden.value),
        len(golden.body),
    )


@pytest.mark.parametrize("golden", GOLDEN, ids=golden_id)
def test_kafka_heads_it_the_same(golden: Golden) -> None:
    key, version = golden.api.key, golden.version
    if golden.is_request:
        encoded = encode_request_header(
            api_key=key, api_version=version, correlation_id=CORRELATION_ID, client_id=CLIENT_ID
        )
        assert encoded.hex() == golden.header.hex()
        assert parse_request_header(golden.header + golden.body) == (
            key,
            version,
            CORRELATION_ID,
            CLIENT_ID,
            len(golden.header),
        )
    else:
        encoded = encode_response_header(api_key=key, api_version=version, correlation_id=CORRELATION_ID)
        assert encoded.hex() == golden.header.hex()
        assert parse_response_header(golden.header + golden.body, api_key=key, api_version=version) == (
            CORRELATION_ID,
            len(golden.header),
        )
