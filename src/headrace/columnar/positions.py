"""Where in a topic to begin and where to end, as people say it, and which offsets that is.

A position is `"earliest"`, `"latest"`, an offset (a plain integer) or a moment (a datetime with its zone): the first
record that is not older. It is given for everything at once, or by partition, or by topic, or by topic and partition:

    start="earliest"    start=datetime(2026, 11, 1, tzinfo=UTC)    start={0: 120, 1: "latest"}
    start={"clicks": {0: 120}, "views": "earliest"}

An end is not read itself, as in `range`. Knows nothing of brokers: `timestamp_asked` says what has to be asked of them,
`settle` takes the answers.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from headrace.errors import ConfigError, HeadraceError
from headrace.ids import TopicName, TopicPartition
from headrace.wire.offsets import EARLIEST, LATEST

Position = int | datetime | Literal["earliest", "latest"] | str
ByPartition = Mapping[int, Position]
Positions = Position | ByPartition | Mapping[str, Position | ByPartition]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST}
_NOT_FOUND: Final = -1


class Range(NamedTuple):
    """Offsets from the first up to, not with, the end; without an end where it is None."""

    place: TopicPartition
    first: int
    end: int | None


class OffsetsGone(HeadraceError):
    """Offsets that were asked for are not in the log: deleted already, or never written.

    `what` says which, without the advice to those who read with `headrace.columnar`.
    """

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what, advice)
        self.what = what
        self._advice = advice

    def __str__(self) -> str:
        return f"{self.what}. {self._advice}" if self._advice else self.what


def choose(positions: Positions, place: TopicPartition, *, otherwise: Position) -> Position:
    """The position that was given for one partition; where it is not named, `otherwise`."""
    chosen: Any = positions
    for key in (place.topic, place.partition):
        if isinstance(chosen, Mapping) and any(isinstance(each, type(key)) for each in chosen):
            chosen = chosen.get(key, otherwise)
    position: Position = otherwise if isinstance(chosen, Mapping) else chosen  # A mapping of nothing.
    return position


def check_names(positions: Positions, places: Iterable[TopicPartition], *, word: str) -> None:
    """ConfigError where a position is given for what is not there, which would be ignored otherwise."""
    if not isinstance(positions, Mapping):
        return
    known = set(places)
    topics = {place.topic for place in known}
    for key, inner in positions.items():
        if isinstance(key, str):
            if key not in topics:
                raise ConfigError(f"{word} names topic {key!r}; those read are {', '.join(sorted(topics))}")
            partitions = inner if isinstance(inner, Mapping) else {}
            missing = [number for number in partitions if TopicPartition(TopicName(key), number) not in known]
        else:
            missing = [] if any(place.partition == key for place in known) else [key]
        if missing:
            raise ConfigError(f"{word} names partition {missing[0]}, which is not there")


def timestamp_asked(position: Position, *, word: str) -> int | None:
    """What to ask ListOffsets for; None where the position is an offset already."""
    if isinstance(position, bool):
        raise ConfigError(f"{word}={position!r} is not a position")
    if isinstance(position, int):
        if position < 0:
            raise ConfigError(f"{word}={position}: an offset is at least 0")
        return None
    if isinstance(position, datetime):
        if position.tzinfo is None:
            raise ConfigError(f"{word}={position}: a moment needs its time zone, as in datetime(..., tzinfo=UTC)")
        # Rounded up: a record of the millisecond before is older than asked.
        milliseconds = -((_EPOCH - position) // timedelta(milliseconds=1))
        if milliseconds < 0:
            raise ConfigError(f"{word}={position}: a moment is not before 1970")
        return milliseconds
    if position in _NAMED:
        return _NAMED[position]
    raise ConfigError(
        f'{word}={position!r} is not a position: "earliest", "latest", an offset or a datetime with its zone'
    )


def settle(
    place: TopicPartition,
    *,
    start: int,
    end: int | None,
    earliest: int,
    latest: int,
    skip_missing: bool,
) -> Range:
    """The offsets to read, given where the log begins and ends.

    A moment behind the last record is answered with no offset, and means the end of the log.
    """
    first = latest if start == _NOT_FOUND else start
    last = latest if end == _NOT_FOUND else end
    if first < earliest:
        if not skip_missing:
            raise OffsetsGone(
                f"{place} begins at offset {earliest}: {first} and what follows was deleted",
                'Begin at "earliest", or say missing="skip"',
            )
        first = earliest
    for word, offset in (("start", first), ("end", last)):
        if offset is not None and offset > latest:
            raise OffsetsGone(f"{place} ends at offset {latest}, before the {word} that was asked for, {offset}")
    return Range(place, first, None if last is None else max(first, last))
