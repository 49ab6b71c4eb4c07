"""Messages to text and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.message_text import (
    Encoding,
    Message,
    parse_json,
    render_json,
    template_renderer,
    unescape,
)
from headrace.errors import ConfigError

MESSAGE = Message(b"key", b"va\xfflue", [("h", b"1"), ("n", None)], partition=3, offset=7, timestamp_ms=1_000)


def render(template: str, message: Message = MESSAGE, encoding: Encoding = Encoding.TEXT, null: str = "") -> bytes:
    return template_renderer(template, encoding=encoding, null=null)(message)


def test_every_field() -> None:
    assert render("%p/%o@%t %k=%v [%h] 100%%", null="~") == b"3/7@1000 key=va\xfflue [h=1,n=~] 100%"


def test_a_template_without_fields_and_one_with_nothing_else() -> None:
    assert render("x") == b"x"
    assert render("%v") == b"va\xfflue"
    assert render("") == b""


def test_escapes_in_a_template() -> None:
    assert render(r"%k\t%v\n\x00\\n") == b"key\tva\xfflue\n\0\\n"


def test_encodings_touch_keys_values_and_headers_only() -> None:
    assert render("%o %k %v %h", encoding=Encoding.HEX) == b"7 6b6579 7661ff6c7565 h=31,n="
    assert render("%o %k", encoding=Encoding.BASE64) == b"7 a2V5"


def test_null_is_not_empty() -> None:
    assert render("%k|%v", Message(None, b""), null="NULL") == b"NULL|"
    assert render("%t", Message(None, None), null="?") == b"?"


def test_percent_and_escape_characters_in_data_are_left_alone() -> None:
    assert render("%v", Message(None, rb"100%k \n")) == rb"100%k \n"


@pytest.mark.parametrize("template", ["%x", "50%", "%K"])
def test_an_unknown_field_is_named(template: str) -> None:
    with pytest.raises(ConfigError, match="unknown field"):
        render(template)


@pytest.mark.parametrize("text", [r"\q", r"\x1", r"\xzz"])
def test_an_unknown_escape_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="unknown escape"):
        unescape(text)


def test_json_is_one_line_of_readable_text() -> None:
    line = render_json(Message("größe".encode(), b"a\nb", partition=1, offset=2, timestamp_ms=3))
    assert line.decode() == ('{"partition":1,"offset":2,"timestamp_ms":3,"key":"größe","value":"a\\nb","headers":[]}')


def test_json_of_bytes_that_are_not_text() -> None:
    assert json.loads(render_json(Message(None, b"\xff")))["value"] == {"base64": "/w=="}


def test_a_header_name_that_is_not_text_still_makes_json() -> None:
    name = b"\xff".decode("utf-8", "surrogateescape")
    assert json.loads(render_json(Message(None, None, [(name, None)])))["headers"] == [[name, None]]


@given(
    key=st.none() | st.binary(),
    value=st.none() | st.binary() | st.text().map(str.encode),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary())),
    timestamp_ms=st.none() | st.integers(0, 2**62),
)
def test_json_carries_any_message(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int | None,
) -> None:
    message = Message(key, value, headers, timestamp_ms=timestamp_ms)
    line = render_json(message._replace(topic="t", partition=4, offset=9))
    assert b"\n" not in line
    assert parse_json(line) == message


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"nope", "not JSON"),
        (b'"text"', "not a JSON object"),
        (b'{"valeu":"x"}', "unknown field 'valeu'"),
        (b'{"value":7}', "value is 7"),
        (b'{"value":{"base64":"?"}}', "value: "),
        (b'{"value":{"base64":"aa==","x":1}}', "value is"),
        (b'{"headers":[["only-a-name"]]}', "not \\[name, value\\]"),
        (b'{"headers":["ab"]}', "not \\[name, value\\]"),
        (b'{"timestamp_ms":"now"}', "timestamp_ms"),
        (b'{"timestamp_ms":true}', "timestamp_ms"),
        (b"\xff", "not JSON"),
    ],
)
def test_json_that_is_no_message(line: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_json(line)
