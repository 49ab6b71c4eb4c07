"""Messages out of a cluster, and onto standard output: partitions read directly, in no group.

Nothing is committed and nobody is disturbed. What a poll brought comes as a list, so that what handles messages
one by one stays out of the client library.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from headrace.cli.connection import FETCH_STEADILY, Connection
from headrace.cli.message_text import Message, Render
from headrace.cli.topic_facts import offsets
from headrace.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

POLL_S: Final = 0.05  # A poll that is not full waits this long; so does a follower.
POLL_MESSAGES: Final = 5_000
# The client library's TIMESTAMP_NOT_AVAILABLE and TIMESTAMP_LOG_APPEND_TIME, which are asked for every message.
_NO_TIMESTAMP: Final = 0
_LOG_APPEND_TIME: Final = 2


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


class Bounds(NamedTuple):
    """Where to begin in one partition, and where it ended when we looked."""

    start: int
    end: int


def read_directly(
    cluster: Connection,
    places: Sequence[TopicPartition],
    begin: Start,
    *,
    follow: bool,
    settings: Mapping[str, Any] | None = None,
) -> Generator[list[Message], None, None]:
    """What each poll brought, up to where the partitions ended when it was asked, or for ever."""
    bounds = find_bounds(cluster, cluster.admin(), places, begin)
    yield from read_between(cluster, bounds, follow=follow, settings=settings)


def read_between(
    cluster: Connection,
    bounds: Mapping[TopicPartition, Bounds],
    *,
    follow: bool,
    settings: Mapping[str, Any] | None = None,
    arrivals: Callable[[], Mapping[TopicPartition, int]] = dict,
) -> Generator[list[Message], None, None]:
    """`arrivals` is asked after each poll what else there is to read by now, and from where."""
    ends = None if follow else _ends(bounds)
    consumer = cluster.consumer(
        {
            "group.id": "headrace-consume",  # The library wants a name; nothing is ever committed under it.
            "enable.auto.commit": False,
            "enable.partition.eof": ends is not None,
            "auto.offset.reset": "error",  # Rather than go on elsewhere without a word.
            **FETCH_STEADILY,
            **(settings or {}),
        }
    )
    try:
        _assign(consumer, bounds)
        for messages in polls(consumer, ends):
            yield messages
            if come := arrivals():
                consumer.incremental_assign(_client_partitions(come))
    finally:
        consumer.close()


def find_bounds(
    cluster: Connection, admin: "AdminClient", places: Sequence[TopicPartition], begin: Start
) -> dict[TopicPartition, Bounds]:
    """A start that is no longer, or not yet, in the log moves to the nearest that is."""
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
    return {place: Bounds(starts[place], latest[place]) for place in places}


def _ends(bounds: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, int]:
    return {place: bound.end for place, bound in bounds.items() if bound.start < bound.end}


def _assign(consumer: "Consumer", bounds: Mapping[TopicPartition, Bounds]) -> None:
    consumer.assign(_client_partitions({place: bound.start for place, bound in bounds.items()}))


def _client_partitions(starts: Mapping[TopicPartition, int]) -> list[Any]:
    from confluent_kafka import TopicPartition as ClientPartition

    return [ClientPartition(*place, start) for place, start in starts.items()]


def polls(consumer: "Consumer", ends: dict[TopicPartition, int] | None) -> Iterator[list[Message]]:
    """What each poll brought; the last one once every partition has come to its end, which None never does.

    Messages beyond the end, from producers that are still at work, are left out: the answer is what the topic
    held when it was asked. Transaction markers and compaction leave offsets without a message, so reaching the
    end of the log counts as well.
    """
    from confluent_kafka import KafkaError, KafkaException

    while ends is None or ends:
        messages = []
        polled: list[Any] = consumer.consume(POLL_MESSAGES, POLL_S)
        for consumed in polled:
            error, place = consumed.error(), place_of(consumed)
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if ends is not None:
                    ends.pop(place, None)
                continue
            offset = consumed.offset()
            if ends is None or offset < ends.get(place, 0):
                messages.append(message_of(consumed))
            if ends is not None and offset + 1 >= ends.get(place, 0):
                ends.pop(place, None)
        yield messages


def place_of(consumed: Any) -> TopicPartition:
    return TopicPartition(TopicName(consumed.topic()), consumed.partition())


def message_of(consumed: Any) -> Message:
    """The client library's message as ours."""
    timestamp_kind, timestamp_ms = consumed.timestamp()
    return Message(
        key=consumed.key(),
        value=consumed.value(),
        headers=consumed.headers() or (),
        partition=consumed.partition(),
        offset=consumed.offset(),
        timestamp_ms=None if timestamp_kind == _NO_TIMESTAMP else timestamp_ms,
        topic=consumed.topic(),
        is_stamped_by_broker=timestamp_kind == _LOG_APPEND_TIME,
    )


class Printer:
    """Standard output, for no more than so many messages."""

    def __init__(self, render: Render, *, ending: bytes, count: int | None) -> None:
        self._render = render
        self._ending = ending
        self._left = count
        self.printed = 0

    def is_done(self) -> bool:
        return self._left == 0

    def print(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those of them that were printed. When it returns, they have left this process."""
        if self._left is not None:
            messages = messages[: self._left]
            self._left -= len(messages)
        if messages:
            out = sys.stdout.buffer
            out.write(b"".join([self._render(message) + self._ending for message in messages]))
            out.flush()  # So that a follower sees each message when it comes.
            self.printed += len(messages)
        return messages


def print_all(brought: Iterable[list[Message]], printer: Printer) -> None:
    if printer.is_done():
        return
    for messages in brought:
        printer.print(messages)
        if printer.is_done():
            return


def until_quiet(
    brought: Iterable[list[Message]], quiet_s: float, *, now_s: Callable[[], float] = time.monotonic
) -> Iterator[list[Message]]:
    """The same, until nothing has come for so long."""
    since_s = now_s()
    for messages in brought:
        yield messages
        if messages:
            since_s = now_s()
        elif now_s() - since_s >= quiet_s:
            return
