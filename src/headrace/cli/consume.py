"""`headrace consume`: what a topic holds, from anywhere in it, in any form.

Reads partitions directly, in no group: nothing is committed, nobody is disturbed. By default it shows what
was there when it was started, and stops.
"""

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, assert_never

import typer

from headrace.cli.connection import FETCH_STEADILY, Connection, connected
from headrace.cli.message_text import Encoding, Message, Render, render_json, template_renderer, unescape
from headrace.cli.output import AsJson, CommandError
from headrace.cli.topic_facts import find_topics, offsets
from headrace.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

_POLL_S: Final = 0.05  # A poll that is not full waits this long; so does a follower.
_POLL_MESSAGES: Final = 5_000
_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Earliest: ...


@dataclass(frozen=True, slots=True)
class Latest: ...


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    timestamp_ms: int


Start = Earliest | Latest | AtOffset | BeforeEnd | AtTime


def parse_start(text: str, *, now_ms: int) -> Start:
    """Where to begin: a word, an offset, a count from the end, how long ago, or a time."""
    if text == "earliest":
        return Earliest()
    if text == "latest":
        return Latest()
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        return AtOffset(number) if number >= 0 else BeforeEnd(-number)
    if (match := re.fullmatch(r"@(\d+)", text)) is not None:
        return AtTime(int(match[1]))
    if (match := _AGO.fullmatch(text)) is not None:
        return AtTime(now_ms - round(float(match[1]) * _UNIT_MS[match[2]]))
    try:
        # A time without a zone is meant as the clock on the wall shows it.
        return AtTime(round(datetime.fromisoformat(text).timestamp() * 1000))
    except ValueError:
        raise typer.BadParameter(
            f"--from {text!r}: earliest, latest, an offset, -N for the last N, 10m for ten minutes ago, "
            "2026-01-31T12:00 or @MILLISECONDS"
        ) from None


@connected
def consume(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.", show_default=False)],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest (waits for what comes), an offset, -N for the last N of each partition, "
            "10m for ten minutes ago, an ISO time, or @MILLISECONDS.",
        ),
    ] = "earliest",
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="Stop after so many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")] = False,
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", min=0, help="Only this one. May be repeated.")
    ] = [],  # noqa: B006
    template: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="TEMPLATE",
            help="%k key, %v value, %o offset, %p partition, %t time in ms, %h headers; \\n \\t \\xNN.",
        ),
    ] = "%v",
    encoding: Annotated[
        Encoding, typer.Option("--encoding", "-e", help="For bytes that are not text.")
    ] = Encoding.TEXT,
    delimiter: Annotated[str, typer.Option(help="After each message.")] = "\\n",
    null: Annotated[str, typer.Option(help="Shown for a null key or value.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print messages; stops at the end of the topic unless told to follow."""
    begin = parse_start(start, now_ms=time.time_ns() // 1_000_000)
    render = render_json if as_json else template_renderer(template, encoding=encoding, null=null)
    ending = b"\n" if as_json else unescape(delimiter)
    admin = cluster.admin()
    places = _partitions(cluster, admin, topic, only=partition)
    bounds = _bounds(cluster, admin, places, begin)
    ends = None if follow or isinstance(begin, Latest) else _ends(bounds)
    consumer = cluster.consumer(
        {
            "group.id": "headrace-consume",  # The library wants a name; nothing is ever committed under it.
            "enable.auto.commit": False,
            "enable.partition.eof": ends is not None,
            "auto.offset.reset": "error",  # Rather than go on elsewhere without a word.
            **FETCH_STEADILY,
        }
    )
    try:
        _assign(consumer, topic, bounds)
        _print_messages(_polls(consumer, ends), render, ending=ending, count=count)
    finally:
        consumer.close()


class Bounds(NamedTuple):
    """Where to begin in one partition, and where it ended when we looked."""

    start: int
    end: int


def _partitions(cluster: Connection, admin: "AdminClient", topic: str, *, only: list[int]) -> list[TopicPartition]:
    (found,) = find_topics(cluster, admin, [topic])
    numbers = {one.id for one in found.partitions}
    if missing := sorted(set(only) - numbers):
        raise CommandError(f"topic {topic!r} has partitions 0 to {len(numbers) - 1}, not {missing[0]}")
    return [TopicPartition(TopicName(topic), number) for number in sorted(only or numbers)]


def _bounds(cluster: Connection, admin: "AdminClient", places: list[TopicPartition], begin: Start) -> dict[int, Bounds]:
    """By partition. A start that is no longer, or not yet, in the log moves to the nearest that is."""
    from confluent_kafka.admin import OffsetSpec

    earliest = offsets(cluster, admin, places, OffsetSpec.earliest())
    latest = offsets(cluster, admin, places, OffsetSpec.latest())
    match begin:
        case Earliest():
            starts = earliest
        case Latest():
            starts = latest
        case AtOffset(offset):
            starts = {place: min(max(offset, earliest[place]), latest[place]) for place in places}
        case BeforeEnd(count):
            starts = {place: max(earliest[place], latest[place] - count) for place in places}
        case AtTime(timestamp_ms):
            found = offsets(cluster, admin, places, OffsetSpec.for_timestamp(timestamp_ms))
            # No message so late: the end.
            starts = {place: found[place] if found[place] >= 0 else latest[place] for place in places}
        case _:
            assert_never(begin)
    return {place.partition: Bounds(starts[place], latest[place]) for place in places}


def _ends(bounds: Mapping[int, Bounds]) -> dict[int, int]:
    return {partition: bound.end for partition, bound in bounds.items() if bound.start < bound.end}


def _assign(consumer: "Consumer", topic: str, bounds: Mapping[int, Bounds]) -> None:
    from confluent_kafka import TopicPartition as ClientPartition

    consumer.assign([ClientPartition(topic, partition, bound.start) for partition, bound in bounds.items()])


def _polls(consumer: "Consumer", ends: dict[int, int] | None) -> Iterator[list[Message]]:
    """What each poll brought; the last one once every partition has come to its end, which None never does.

    Messages beyond the end, from producers that are still at work, are left out: the answer is what the topic
    held when it was asked. Transaction markers and compaction leave offsets without a message, so reaching the
    end of the log counts as well.
    """
    from confluent_kafka import KafkaError, KafkaException

    while ends is None or ends:
        messages = []
        polled: list[Any] = consumer.consume(_POLL_MESSAGES, _POLL_S)
        for consumed in polled:
            error, partition = consumed.error(), consumed.partition()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if ends is not None:
                    ends.pop(partition, None)
                continue
            offset = consumed.offset()
            if ends is None or offset < ends.get(partition, 0):
                messages.append(_message(consumed))
            if ends is not None and offset + 1 >= ends.get(partition, 0):
                ends.pop(partition, None)
        yield messages


def _message(consumed: Any) -> Message:
    timestamp_kind, timestamp_ms = consumed.timestamp()
    return Message(
        key=consumed.key(),
        value=consumed.value(),
        headers=consumed.headers() or (),
        partition=consumed.partition(),
        offset=consumed.offset(),
        timestamp_ms=timestamp_ms if timestamp_kind else None,
    )


def _print_messages(polls: Iterable[list[Message]], render: Render, *, ending: bytes, count: int | None) -> None:
    out = sys.stdout.buffer
    left = count
    if left == 0:
        return
    for messages in polls:
        if left is not None:
            messages = messages[:left]
            left -= len(messages)
        out.write(b"".join([render(message) + ending for message in messages]))
        out.flush()  # So that a follower sees each message when it comes.
        if left == 0:
            return
