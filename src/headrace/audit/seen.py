"""What a tier has seen: of each span which sequences, and how many messages in all.

Both are kept, so that a message lost and another doubled do not cancel: what is missing is missing from the set, and
what is doubled is the total beyond the set's size. The set has a byte per sequence, in blocks that are as long as they
have to be, so that a stamp that somebody made up costs a block and not the machine's memory, and a short span little.
Knows nothing of where messages come from.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.audit.runs import Runs, runs_of
from headrace.audit.stamps import STAMP_HEADER, BadStamp, SpanId, Stamp, parse_stamp

BLOCK: Final = 1 << 14  # Sequences, at most.
_BLOCK_MIN: Final = 64

_SEEN_RUN: Final = re.compile(rb"\x01+")


class Block(NamedTuple):
    """A part of what was seen of a span: which of its sequences, and how many messages more than that."""

    number: int
    runs: Runs
    again: int


class SeenSpan:
    """One span. Blocks that changed since they were last told of are known, for whoever publishes them."""

    __slots__ = ("_again", "_blocks", "_changed", "host", "time_ms_max")

    def __init__(self, host: str = "") -> None:
        self.host = host
        self.time_ms_max = 0  # The latest event time, where nothing else tells of a window.
        self._blocks: dict[int, bytearray] = {}
        self._again: dict[int, int] = {}  # By block: messages whose sequence was there already.
        self._changed: set[int] = set()

    def add(self, sequence: int) -> None:
        number, place = divmod(sequence, BLOCK)
        block = self.block(number, end=place + 1)
        if block[place]:
            self._again[number] += 1
        block[place] = 1

    def add_runs(self, runs: Runs, *, again: int) -> None:
        """What another counter has seen. What both have seen was seen twice."""
        number = 0
        for first, end in runs:
            while first < end:
                number, place = divmod(first, BLOCK)
                count = min(BLOCK - place, end - first)
                block = self.block(number, end=place + count)
                self._again[number] += block.count(1, place, place + count)
                block[place : place + count] = b"\x01" * count
                first += count
        if again:
            self.block(number, end=0)
            self._again[number] += again

    def block(self, number: int, *, end: int) -> bytearray:
        """The flags of one block up to there, to be set by whoever then tells with `add_again` what was set already."""
        self._changed.add(number)
        if (block := self._blocks.get(number)) is None:
            block = self._blocks[number] = bytearray()
            self._again[number] = 0
        if len(block) < end:
            size = max(_BLOCK_MIN, 1 << (end - 1).bit_length())  # Twice as long each time.
            block.extend(bytes(size - len(block)))
        return block

    def blocks(self) -> Iterator[tuple[int, bytearray, int]]:
        """Each block as it is: its number, its flags, and how many messages were there beyond those."""
        for number in sorted(self._blocks):
            yield number, self._blocks[number], self._again[number]

    def add_again(self, number: int, count: int) -> None:
        self._again[number] += count

    @property
    def again(self) -> int:
        """Messages beyond the first of each sequence."""
        return sum(self._again.values())

    @property
    def runs(self) -> Runs:
        return runs_of(pair for number in sorted(self._blocks) for pair in self._runs_in(number))

    def take_changed(self) -> list[Block]:
        """The blocks that changed since this was last asked, each whole."""
        changed, self._changed = sorted(self._changed), set()
        return [Block(number, runs_of(self._runs_in(number)), self._again[number]) for number in changed]

    def restore_changed(self, numbers: Iterable[int]) -> None:
        """Telling of them did not succeed."""
        self._changed |= set(numbers)

    def _runs_in(self, number: int) -> Iterator[tuple[int, int]]:
        start = number * BLOCK
        for match in _SEEN_RUN.finditer(self._blocks[number]):
            yield start + match.start(), start + match.end()


@dataclass(slots=True)
class Counts:
    """What one counter has seen of one topic."""

    spans: dict[SpanId, SeenSpan] = field(default_factory=dict)
    unstamped: int = 0  # Messages of senders that are not audited.
    malformed: int = 0  # Messages with a header of our name that is no stamp.

    def add_message(self, headers: Iterable[tuple[str, bytes | str | None]] | None) -> Stamp | None:
        """Count a message by its headers. Of several stamps the last counts: a message that was sent on has two."""
        found: bytes | str | None = None
        is_stamped = False
        for key, value in headers or ():
            if key == STAMP_HEADER:
                found, is_stamped = value, True
        if not is_stamped:
            self.unstamped += 1
            return None
        try:
            stamp = parse_stamp(found.encode() if isinstance(found, str) else found)
        except BadStamp:
            self.malformed += 1
            return None
        self.add(stamp)
        return stamp

    def add(self, stamp: Stamp) -> None:
        seen = self.span(stamp.span, host=stamp.host)
        seen.add(stamp.sequence)
        seen.time_ms_max = max(seen.time_ms_max, stamp.time_ms)

    def span(self, span: SpanId, *, host: str = "") -> SeenSpan:
        if (seen := self.spans.get(span)) is None:
            seen = self.spans[span] = SeenSpan(host)
        return seen
