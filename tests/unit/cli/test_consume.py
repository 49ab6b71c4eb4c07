"""Where to begin, where to stop, and what is printed in between; against a consumer made of lists."""

import io
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException

from headrace.cli import consume
from headrace.cli.consume import AtOffset, AtTime, BeforeEnd, Earliest, Latest, Start, parse_start
from headrace.cli.message_text import Encoding, Message, template_renderer


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("0", AtOffset(0)),
        ("12345", AtOffset(12345)),
        ("-10", BeforeEnd(10)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("250ms", AtTime(999_750)),
        ("10s", AtTime(990_000)),
        ("1.5m", AtTime(910_000)),
        ("2h", AtTime(1_000_000 - 7_200_000)),
        ("1d", AtTime(1_000_000 - 86_400_000)),
        ("2026-01-31T12:00:00+00:00", AtTime(1_769_860_800_000)),
        ("2026-01-31T12:00:00.250Z", AtTime(1_769_860_800_250)),
    ],
)
def test_ways_to_say_where(text: str, start: Start) -> None:
    assert parse_start(text, now_ms=1_000_000) == start


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 31, 12, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert parse_start(local.isoformat(), now_ms=0) == AtTime(1_769_860_800_000)


@pytest.mark.parametrize("text", ["", "first", "10x", "@now", "1-2", "--5", "2026-13-01"])
def test_what_is_no_place_to_begin(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest"):
        parse_start(text, now_ms=0)


class FakeMessage:
    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d/%d" % (self._partition, self._offset)

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5


class FakeConsumer:
    """Gives out prepared polls; asking for more than there are is a test that would have waited for ever."""

    def __init__(self, *polls: list[FakeMessage]) -> None:
        self.polls = list(polls)

    def consume(self, _count: int, _timeout_s: float) -> list[FakeMessage]:
        return self.polls.pop(0)


def end_of(partition: int) -> FakeMessage:
    return FakeMessage(partition, 0, KafkaError(KafkaError._PARTITION_EOF))


def values_read(consumer: Any, ends: dict[int, int] | None, polls: int | None = None) -> list[list[bytes | None]]:
    read: list[list[bytes | None]] = []
    for messages in consume._polls(consumer, ends):
        read.append([message.value for message in messages])
        if len(read) == polls:
            break
    return read


def test_it_stops_when_every_partition_has_come_to_its_end() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), FakeMessage(1, 5)], [], [FakeMessage(0, 1)], [FakeMessage(1, 6)])
    assert values_read(consumer, {0: 2, 1: 7}) == [[b"0/0", b"1/5"], [], [b"0/1"], [b"1/6"]]


def test_what_came_after_the_question_is_no_part_of_the_answer() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), FakeMessage(0, 1), FakeMessage(0, 2)], [FakeMessage(1, 0)])
    assert values_read(consumer, {0: 1, 1: 1}) == [[b"0/0"], [b"1/0"]]


def test_an_end_that_no_message_has_is_still_the_end() -> None:
    # The last offsets are a transaction's marker, or were compacted away.
    assert values_read(FakeConsumer([FakeMessage(0, 0)], [end_of(0)]), {0: 5}) == [[b"0/0"], []]


def test_a_jump_over_the_end_is_the_end() -> None:
    assert values_read(FakeConsumer([FakeMessage(0, 9)]), {0: 5}) == [[]]


def test_nothing_there_is_nothing_asked() -> None:
    assert values_read(FakeConsumer(), {}) == []


def test_a_follower_goes_on_beyond_any_end() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), end_of(0)], [], [FakeMessage(0, 1)])
    assert values_read(consumer, None, polls=3) == [[b"0/0"], [], [b"0/1"]]


def test_an_error_ends_it() -> None:
    failed = FakeMessage(0, 0, KafkaError(KafkaError._AUTO_OFFSET_RESET))
    with pytest.raises(KafkaException):
        values_read(FakeConsumer([failed]), {0: 1})


@pytest.mark.parametrize(
    ("count", "shown"), [(None, b"a;b;c;"), (0, b""), (1, b"a;"), (2, b"a;b;"), (3, b"a;b;c;"), (9, b"a;b;c;")]
)
def test_no_more_than_the_count(count: int | None, shown: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    polls = [[Message(None, b"a"), Message(None, b"b")], [], [Message(None, b"c")]]
    consume._print_messages(polls, template_renderer("%v", encoding=Encoding.TEXT), ending=b";", count=count)
    assert out.buffer.getvalue() == shown  # type: ignore[attr-defined]
