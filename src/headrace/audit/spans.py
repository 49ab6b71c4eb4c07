"""What a sender knows of each message of a span: one byte per sequence, which moves in these ways alone.

    FREE -> UNDER_WAY -> ACKNOWLEDGED | REFUSED | IN_DOUBT
    UNDER_WAY -> FREE, of the last one that was used: it is given back

The bytes may lie in a file that is mapped into memory: they are then there after the process was killed at any moment,
since a message is under way before it is handed to the client, and acknowledged only after the cluster said so.
`reserved` is how many sequences the audit topic knows that this span may use; no other is ever used. Whoever reads
what was published therefore knows at most how many messages there are, also if the sender never says another word.

Knows neither files nor topics' clients; `audit.sender` decides when to reserve and to publish.
"""

import mmap
import re
from enum import IntEnum
from typing import Final

from headrace.audit.messages import Sent
from headrace.audit.runs import Runs, coarsen, union
from headrace.audit.stamps import SpanId, stamp_prefix
from headrace.audit.windows import Window

# Runs that are published. Of more, refused ones pass for doubtful and doubtful ones are joined: that claims less than
# is known, and never more.
_RUNS_MAX: Final = 1_000


class State(IntEnum):
    FREE = 0
    UNDER_WAY = 1
    ACKNOWLEDGED = 2
    REFUSED = 3  # Surely not written: the client or the cluster said so.
    IN_DOUBT = 4  # The client gave up, and nobody knows.


# What may become of a message that is under way.
OUTCOMES: Final = frozenset({State.FREE, State.ACKNOWLEDGED, State.REFUSED, State.IN_DOUBT})

_UNDER_WAY_RUN: Final = re.compile(b"%c+" % State.UNDER_WAY)
_UNKNOWN_RUN: Final = re.compile(b"[%c%c]+" % (State.UNDER_WAY, State.IN_DOUBT))
_REFUSED_RUN: Final = re.compile(b"%c+" % State.REFUSED)

States = bytearray | mmap.mmap


class Span:
    """One writer at a time; `audit.sender` sees to it."""

    def __init__(self, span: SpanId, *, topic: str, window: Window, host: str, states: States) -> None:
        self.id = span
        self.topic = topic
        self.window = window
        self.host = host
        self.prefix = stamp_prefix(span, host=host)
        self.states = states
        self.handed = 0  # How many sequences were used.
        self.reserved = 0
        self.under_way = 0
        self.revision = 0
        self.is_changed = False  # Since it was last told of.

    @property
    def room(self) -> int:
        return min(self.reserved, len(self.states)) - self.handed

    def take(self, count: int = 1) -> int:
        """Use the next sequences: the first of them. They are under way from now on."""
        assert 0 < count <= self.room  # What is not reserved would go uncounted.
        first = self.handed
        self.states[first : first + count] = bytes((State.UNDER_WAY,)) * count
        self.handed += count
        self.under_way += count
        self.is_changed = True
        return first

    def settle(self, first: int, state: State, *, count: int = 1) -> None:
        """What became of messages that were under way."""
        assert state in OUTCOMES
        assert self.states[first : first + count] == bytes((State.UNDER_WAY,)) * count
        self.under_way -= count
        self.is_changed = True
        if state is State.FREE:
            assert first + count == self.handed
            self.handed = first
        self.states[first : first + count] = bytes((state,)) * count

    def abandon(self) -> None:
        """Nobody will ever hear what became of those under way."""
        if not self.under_way:
            return
        for match in list(_UNDER_WAY_RUN.finditer(self.states, 0, self.handed)):
            first, end = match.span()
            self.settle(first, State.IN_DOUBT, count=end - first)

    def tell(self, *, reserved: int, told_by: int | None = None) -> Sent:
        """All there is to say now, newer than what was said before."""
        self.revision += 1
        self.is_changed = False
        refused = runs_in(_REFUSED_RUN, self.states, self.handed)
        unknown = union(runs_in(_UNKNOWN_RUN, self.states, self.handed), refused[_RUNS_MAX:])
        return Sent(
            span=self.id,
            topic=self.topic,
            window=self.window,
            host=self.host,
            handed=self.handed,
            reserved=reserved,
            in_doubt=coarsen(unknown, count_max=_RUNS_MAX),
            refused=refused[:_RUNS_MAX],
            told_by=self.id.incarnation if told_by is None else told_by,
            revision=self.revision,
        )


def recall(span: Span) -> None:
    """Take a span up as its states tell of it, after whoever used it is gone."""
    states = bytes(span.states[:])
    span.handed = len(states.rstrip(bytes((State.FREE,))))
    span.under_way = states.count(State.UNDER_WAY)
    span.reserved = len(span.states)


def runs_in(pattern: re.Pattern[bytes], states: States, end: int) -> Runs:
    return tuple(match.span() for match in pattern.finditer(states, 0, end))
