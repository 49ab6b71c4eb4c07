"""When messages are to be sent: planned moments, in nanoseconds since the start, whatever the system does meanwhile.

A schedule gives its moments in blocks, in rising order, without end, and the same ones each time it is asked: no
moment depends on when another message was sent. That is what makes a stall visible (docs/sender.md).

Several senders share a schedule by taking every n-th message of it, so that together they follow it exactly, Poisson
and replayed ones too, and a run is the same run from however many processes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from headrace.errors import ConfigError

Int64s = npt.NDArray[np.int64]

SECOND_NS: Final = 1_000_000_000
_BLOCK: Final = 1 << 14


class Schedule(Protocol):
    def blocks(self) -> Iterator[Int64s]: ...


@dataclass(frozen=True, slots=True)
class Constant:
    """One message every so often."""

    rate_per_s: float

    def blocks(self) -> Iterator[Int64s]:
        step_ns = SECOND_NS / self.rate_per_s
        for first in count(0, _BLOCK):
            yield np.rint(np.arange(first, first + _BLOCK) * step_ns).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Messages that know nothing of each other: gaps are exponential."""

    rate_per_s: float
    seed: int

    def blocks(self) -> Iterator[Int64s]:
        random = np.random.default_rng(self.seed)
        last_ns = 0.0
        while True:
            moments = last_ns + np.cumsum(random.exponential(SECOND_NS / self.rate_per_s, _BLOCK))
            last_ns = float(moments[-1])
            yield moments.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Bursts:
    """So many messages at one moment, then nothing until the mean is right again."""

    rate_per_s: float
    burst_messages: int

    def blocks(self) -> Iterator[Int64s]:
        step_ns = SECOND_NS / self.rate_per_s
        for first in count(0, _BLOCK):
            numbers = np.arange(first, first + _BLOCK)
            yield np.rint(numbers // self.burst_messages * self.burst_messages * step_ns).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Replay:
    """A log's own moments, over and over: the next pass begins a mean gap after the last one has ended."""

    stamps_ns: Int64s = field(repr=False)
    rate_per_s: float | None = None  # The mean to stretch or press it to; None for its own.
    speed: float = 1.0

    def blocks(self) -> Iterator[Int64s]:
        moments = np.maximum.accumulate(self.stamps_ns - self.stamps_ns[0])
        span_ns = float(moments[-1]) * len(moments) / max(1, len(moments) - 1)
        if span_ns <= 0:
            raise ConfigError("all stamps of the log are the same: there is nothing to replay")
        speed = self.speed
        if self.rate_per_s is not None:
            speed = self.rate_per_s / (len(moments) / span_ns * SECOND_NS)
        for repeat in count():
            yield ((moments + repeat * span_ns) / speed).astype(np.int64)


# --- The moments that a log tells of -----------------------------------------------------------------------------


def read_stamps_ns(lines: Iterable[bytes]) -> Int64s:
    """The time of each line of a web log in the common format, or of lines that begin with an ISO time.

    A stamp of whole seconds says that the line belongs to that second, not to its beginning: the lines of one second
    are spread evenly over it.
    """
    stamps: list[int] = []
    is_whole = True
    known: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        text = _stamp_text(line)
        stamp_ns = known.get(text)
        if stamp_ns is None:
            stamp_ns = _parse_stamp_ns(text, line, number)
            known = {text: stamp_ns}  # Neighbours often share one.
        is_whole = is_whole and stamp_ns % SECOND_NS == 0
        stamps.append(stamp_ns)
    if len(stamps) < 2:
        raise ConfigError(f"{len(stamps)} lines are no log to replay")
    found = np.array(stamps, np.int64)
    return _spread_over_seconds(found) if is_whole else found


def _stamp_text(line: bytes) -> bytes:
    begin = line.find(b"[")
    return line[begin + 1 : line.find(b"]", begin)] if begin >= 0 else line.split(maxsplit=1)[0] if line else b""


def _parse_stamp_ns(text: bytes, line: bytes, number: int) -> int:
    try:
        words = text.decode("ascii")
        if words[:4].isdigit():
            # The sample's ISO times have seven decimals; datetime takes six, so that they are read apart.
            head, point, rest = words.partition(".")
            decimals = rest[: len(rest) - len(rest.lstrip("0123456789"))]
            moment = datetime.fromisoformat(head + rest[len(decimals) :])
            fraction_ns = int(decimals.ljust(9, "0")[:9]) if point else 0
        else:
            moment, fraction_ns = datetime.strptime(words, "%d/%b/%Y:%H:%M:%S %z"), 0
    except ValueError:
        raise ConfigError(
            f"line {number} has no time to replay it by, neither [10/Oct/2000:13:55:36 -0700] nor an ISO time in "
            f"front: {line[:60]!r}"
        ) from None
    if moment.tzinfo is None:
        raise ConfigError(f"line {number} has a time without a zone: {words!r}")
    return int(moment.timestamp()) * SECOND_NS + fraction_ns


def _spread_over_seconds(stamps_ns: Int64s) -> Int64s:
    rising = np.maximum.accumulate(stamps_ns)
    _, firsts, counts = np.unique(rising, return_index=True, return_counts=True)
    places = np.arange(len(rising)) - np.repeat(firsts, counts)
    return rising + places * SECOND_NS // np.repeat(counts, counts)


# --- Of a schedule, what one sender has to do --------------------------------------------------------------------


def first_messages(blocks: Iterable[Int64s], messages: int) -> Iterator[Int64s]:
    """No more than so many."""
    for block in blocks:
        yield block[:messages]
        messages -= len(block)
        if messages <= 0:
            return


def until(blocks: Iterable[Int64s], end_ns: int) -> Iterator[Int64s]:
    """Those before the end."""
    for block in blocks:
        if len(block) and block[-1] >= end_ns:
            yield block[: np.searchsorted(block, end_ns)]
            return
        yield block


def since(blocks: Iterable[Int64s], begin_ns: int) -> Iterator[Int64s]:
    """Those from a moment on: of a sender that joins in then."""
    for block in blocks:
        yield block[np.searchsorted(block, begin_ns) :] if len(block) and block[0] < begin_ns else block


def every_nth(blocks: Iterable[Int64s], *, first: int, step: int) -> Iterator[Int64s]:
    """One sender's share."""
    skip = first
    for block in blocks:
        yield block[skip::step]
        skip = (skip - len(block)) % step


class Plan:
    """The moments that are still to come, and those that have come and whose messages have not been sent."""

    def __init__(self, blocks: Iterable[Int64s]) -> None:
        self._blocks = iter(blocks)
        self._block: Int64s = np.empty(0, np.int64)
        self._position = 0
        self._load()

    def _load(self) -> None:
        while self._position >= len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return
            self._block, self._position = block, 0

    @property
    def next_ns(self) -> int | None:
        """When the next message is planned; None where there is none any more."""
        return int(self._block[self._position]) if self._position < len(self._block) else None

    def due(self, now_ns: int, *, limit: int) -> Int64s:
        """When the next messages were planned, as far as that has come: at most `limit`, and fewer at a block's end."""
        end = int(np.searchsorted(self._block, now_ns, side="right"))
        return self._block[self._position : min(end, self._position + limit)]

    def take(self, messages: int) -> None:
        """So many of them were sent."""
        self._position += messages
        assert self._position <= len(self._block)
        self._load()


class Unpaced:
    """No plan at all: every message is due as soon as it can be sent. For ceilings; it knows no lateness."""

    def __init__(self, *, end_ns: int | None, messages: int | None, begin_ns: int = 0) -> None:
        self._end_ns = end_ns
        self._left = messages
        self._now_ns = begin_ns

    @property
    def next_ns(self) -> int | None:
        return self._now_ns if self._left is None or self._left > 0 else None

    def due(self, now_ns: int, *, limit: int) -> Int64s:
        self._now_ns = now_ns
        if self._end_ns is not None and now_ns >= self._end_ns:
            self._left = 0
        return np.full(limit if self._left is None else min(limit, self._left), now_ns, np.int64)

    def take(self, messages: int) -> None:
        if self._left is not None:
            self._left -= messages


class PlannedCount:
    """How many messages were planned before each moment, asked for in rising order."""

    def __init__(self, blocks: Iterable[Int64s]) -> None:
        self._blocks = iter(blocks)
        self._block: Int64s = np.empty(0, np.int64)
        self._before = 0  # Planned in blocks that are done with.

    def before(self, moment_ns: int) -> int:
        while not len(self._block) or self._block[-1] < moment_ns:
            block = next(self._blocks, None)
            if block is None:
                return self._before + len(self._block)
            self._before += len(self._block)
            self._block = block
        return self._before + int(np.searchsorted(self._block, moment_ns))


def share_of(messages: int, *, first: int, step: int) -> int:
    """How many of so many messages fall to one sender."""
    return len(range(first, messages, step))
