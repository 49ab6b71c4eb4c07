"""Where a group's offsets go when they are reset: what can be asked for, and what comes of it.

Pure: what a cluster has to say arrives as arguments. As with Kafka's own tool, an offset outside the log moves
to the nearest end of it, a time after the last message is the end, and a partition without a commit has no
offset to shift.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never

import typer

from headrace.cli.group_facts import LogBounds
from headrace.cli.output import CommandError
from headrace.ids import TopicName, TopicPartition

_TOPIC_SCOPE: Final = re.compile(r"([^:]+)(?::(\d+(?:,\d+)*))?")


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ToTime:
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ToEarliest: ...


@dataclass(frozen=True, slots=True)
class ToLatest: ...


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """Stays where it is; a partition without a commit begins at the end."""


@dataclass(frozen=True, slots=True)
class ShiftBy:
    count: int


Target = ToOffset | ToTime | ToEarliest | ToLatest | ToCurrent | ShiftBy


class TopicScope(NamedTuple):
    """A topic, and which of its partitions; none said means all."""

    topic: TopicName
    partitions: tuple[int, ...]


def parse_scope(text: str) -> TopicScope:
    """`orders` or `orders:0,3`."""
    match = _TOPIC_SCOPE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION")
    partitions = tuple(map(int, match[2].split(","))) if match[2] else ()
    return TopicScope(TopicName(match[1]), partitions)


def new_offset(
    target: Target, place: TopicPartition, *, committed: int | None, bounds: LogBounds, at_time: int | None = None
) -> int:
    """Where one partition goes. `at_time` is the first offset at or after the time asked for, if there is one."""
    match target:
        case ToOffset(offset):
            return _within(bounds, offset)
        case ToTime():
            return bounds.end if at_time is None else at_time
        case ToEarliest():
            return bounds.earliest
        case ToLatest():
            return bounds.end
        case ToCurrent():
            return bounds.end if committed is None else committed
        case ShiftBy(count):
            if committed is None:
                raise CommandError(f"{place} has no committed offset to shift; say --to-offset, or leave it out")
            return _within(bounds, committed + count)
        case _:
            assert_never(target)


def _within(bounds: LogBounds, offset: int) -> int:
    return min(max(offset, bounds.earliest), bounds.end)
