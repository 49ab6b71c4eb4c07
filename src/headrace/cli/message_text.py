"""Messages as text: the templates and the JSON lines that `consume` writes and `produce` reads back.

JSON carries any message without loss: bytes that are UTF-8 are a string, others are `{"base64": "..."}`, and
null is null. Pure functions on bytes; who moves the messages is not known here.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headrace.errors import ConfigError

Headers = Sequence[tuple[str, bytes | None]]


class Message(NamedTuple):
    """What a consumer is given, and what a producer may say; None is 'not said' except in key and value."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None
    is_stamped_by_broker: bool = False  # Whose clock the timestamp was read from.


class Encoding(StrEnum):
    """How the bytes of keys and values are written."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


_ENCODERS: Final[dict[Encoding, Callable[[bytes], bytes]]] = {
    Encoding.TEXT: bytes,
    Encoding.HEX: binascii.hexlify,
    Encoding.BASE64: base64.b64encode,
}

Render = Callable[[Message], bytes]

_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_FIELD: Final = re.compile(rb"%(.?)", re.DOTALL)
# What %k and the like stand for.
TEMPLATE_FIELDS: Final = {
    b"k": "key",
    b"v": "value",
    b"o": "offset",
    b"p": "partition",
    b"t": "timestamp_ms",
    b"h": "headers",
    b"T": "topic",
}
# What a line of JSON may have: what a message is, and where it was.
MESSAGE_FIELDS: Final = frozenset(
    {"key", "value", "headers", "timestamp_ms", "topic", "partition", "offset", "timestamp_type"}
)


def unescape(text: str) -> bytes:
    r"""What a shell cannot easily pass: \n, \t, \r, \0, \\ and \xNN for any byte."""
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[end : match.start()].encode())
        if match[1]:
            parts.append(bytes.fromhex(match[1]))
        elif match[2] in _ESCAPED:
            parts.append(_ESCAPED[match[2]].encode())
        else:
            raise ConfigError(rf"unknown escape \{match[2]} in {text!r}: \n \t \r \0 \\ and \xNN are known")
        end = match.end()
    parts.append(text[end:].encode())
    return b"".join(parts)


def parse_template(template: str) -> list[bytes | str]:
    """What it is made of: text as bytes, and the names of fields."""
    parts: list[bytes | str] = []
    plain = unescape(template)
    end = 0
    for match in _FIELD.finditer(plain):
        if match[1] != b"%" and match[1] not in TEMPLATE_FIELDS:
            raise ConfigError(
                f"unknown field {match[0].decode()!r} in {template!r}: %k %v %o %p %t %h %T and %% are known"
            )
        parts += [plain[end : match.start()], b"%" if match[1] == b"%" else TEMPLATE_FIELDS[match[1]]]
        end = match.end()
    parts.append(plain[end:])
    return [part for part in parts if part]


def _constant(text: bytes) -> Render:
    return lambda message: text


def template_renderer(template: str, *, encoding: Encoding, null: str = "") -> Render:
    """A function that fills %k %v %o %p %t %h %T in. It is made once and called for every message."""
    encode, nothing = _ENCODERS[encoding], null.encode()

    def content(data: bytes | None) -> bytes:
        return nothing if data is None else encode(data)

    def number(value: int | None) -> bytes:
        return nothing if value is None else b"%d" % value

    def headers(message: Message) -> bytes:
        return b",".join(
            name.encode("utf-8", "surrogateescape") + b"=" + content(value) for name, value in message.headers
        )

    fields: dict[str, Render] = {
        "key": lambda message: content(message.key),
        "value": lambda message: content(message.value),
        "offset": lambda message: number(message.offset),
        "partition": lambda message: number(message.partition),
        "timestamp_ms": lambda message: number(message.timestamp_ms),
        "headers": headers,
        "topic": lambda message: (message.topic or "").encode(),
    }
    parts = [_constant(part) if isinstance(part, bytes) else fields[part] for part in parse_template(template)]
    if len(parts) == 1:
        return parts[0]
    return lambda message: b"".join([part(message) for part in parts])


def message_fields(message: Message) -> dict[str, Any]:
    """The message as JSON has it."""
    return {
        **({} if message.topic is None else {"topic": message.topic}),
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "key": json_bytes(message.key),
        "value": json_bytes(message.value),
        "headers": [[name, json_bytes(value)] for name, value in message.headers],
    }


def render_json(message: Message) -> bytes:
    """One line that `parse_json` turns into the same key, value, headers and time."""
    line = json.dumps(message_fields(message), ensure_ascii=False, separators=(",", ":"))
    # A header name need not be UTF-8. Its stray bytes come as lone surrogates, which JSON can escape.
    return line.encode("utf-8", "backslashreplace")


def parse_json(line: bytes) -> Message:
    """A message from a line of JSON, or ConfigError saying what is wrong with it.

    The topic, the partition and the offset that `consume` writes tell where a message was, not where it shall go:
    they are not taken over.
    """
    return message_from(parse_object(line))


def parse_object(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError("not a JSON object")
    return fields


def message_from(fields: dict[str, Any]) -> Message:
    """What `message_fields` made."""
    if unknown := fields.keys() - MESSAGE_FIELDS:
        raise ConfigError(f"unknown field {sorted(unknown)[0]!r}")
    timestamp_ms = fields.get("timestamp_ms")
    if not (timestamp_ms is None or (isinstance(timestamp_ms, int) and not isinstance(timestamp_ms, bool))):
        raise ConfigError(f"timestamp_ms is {timestamp_ms!r}, not a whole number")
    headers = []
    for header in fields.get("headers") or []:
        match header:
            case [str(name), value]:
                headers.append((name, _bytes_of(f"header {name!r}", value)))
            case _:
                raise ConfigError(f"header {header!r} is not [name, value]")
    return Message(
        key=_bytes_of("key", fields.get("key")),
        value=_bytes_of("value", fields.get("value")),
        headers=headers,
        timestamp_ms=timestamp_ms,
    )


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes_of(what: str, value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str(text), **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as error:
                raise ConfigError(f"{what}: {error}") from None
        case _:
            raise ConfigError(f'{what} is {value!r}: a string, null or {{"base64": "..."}} is wanted')
