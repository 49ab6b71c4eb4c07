"""The stamp that an audited sender puts on each message: one header, of plain text.

    headrace-audit: 1;web-7;1763247600000123;12;host-a.example;4711;1763247601234

A version, then who sent it (producer, incarnation), the number of the span, the host, the sequence and the event time
in milliseconds. A *span* is a run of messages that one incarnation sent to one topic with event times in one window;
it numbers them from 0. So a stamp says which message it is, and what is published of a span says how many there are.

Text, because whoever has headers can then count with what they have: `split(value, ';')` in any SQL. The parts that
change with each message come last, so that the rest is made once. Knows nothing of topics, windows or clients.
"""

import re
from typing import Final, NamedTuple

from headrace.errors import ConfigError, HeadraceError

STAMP_HEADER: Final = "headrace-audit"
SEPARATOR: Final = ";"
FIELDS: Final = ("version", "producer", "incarnation", "span", "host", "sequence", "time_ms")
VERSION: Final = "1"
# Numbers are of 63 bits, as Arrow and SQL have them.
NUMBER_MAX: Final = 2**63 - 1

_NAME: Final = "[A-Za-z0-9._:-]{1,200}"
_NUMBER: Final = "[0-9]{1,19}"
PATTERN: Final = f"{VERSION};({_NAME});({_NUMBER});({_NUMBER});({_NAME});({_NUMBER});({_NUMBER})"

_WHOLE: Final = re.compile(PATTERN.encode())
_UNNAMEABLE: Final = re.compile("[^A-Za-z0-9._:-]")


class BadStamp(HeadraceError):
    """A header of our name that is no stamp."""


class SpanId(NamedTuple):
    producer: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}/{self.incarnation}/{self.number}"


class Stamp(NamedTuple):
    span: SpanId
    host: str
    sequence: int
    time_ms: int


def stamp_prefix(span: SpanId, *, host: str) -> str:
    """What the stamps of a span have in common; `SEQUENCE;TIME_MS` completes it."""
    return f"{VERSION};{span.producer};{span.incarnation};{span.number};{host};"


def encode_stamp(stamp: Stamp) -> bytes:
    return f"{stamp_prefix(stamp.span, host=stamp.host)}{stamp.sequence};{stamp.time_ms}".encode()


def parse_stamp(value: bytes | None) -> Stamp:
    found = _WHOLE.fullmatch(value or b"")
    if found is None:
        raise BadStamp(f"{value!r} is no stamp of version {VERSION}")
    producer, incarnation, number, host, sequence, time_ms = found.groups()
    numbers = [int(word) for word in (incarnation, number, sequence, time_ms)]
    if max(numbers) > NUMBER_MAX:
        raise BadStamp(f"{value!r} has a number of more than 63 bits")
    return Stamp(SpanId(producer.decode(), numbers[0], numbers[1]), host.decode(), numbers[2], numbers[3])


def check_name(name: str, *, word: str) -> str:
    """A name that fits into a stamp, or ConfigError."""
    if not re.fullmatch(_NAME, name):
        raise ConfigError(f"{word}={name!r}: 1 to 200 of letters, digits, '.', '_', ':' and '-' are a name here")
    return name


def nameable(text: str) -> str:
    """Any text made to fit, for names that were not chosen for us."""
    return _UNNAMEABLE.sub("-", text)[:200] or "-"
