"""What comes into a decision, and what comes out of it.

A decision changes nothing. It says which records to write, which requests are answered and with what, which timers to
set, and how its group stands afterwards. It takes effect, whole, when the coordinator enacts it, after the records
were appended; where they could not be, it is as if it had never been made.
"""

from enum import Enum, auto
from typing import NamedTuple

from headrace.coordination.group import Group
from headrace.coordination.members import Caller, Ticket
from headrace.coordination.records import GroupRecord
from headrace.protocol.schema import Value


class Now(NamedTuple):
    """Both clocks at once: one that elapses, for timers, and one that can be read, for what is stored."""

    mono_us: int
    wall_ms: int

    def after_ms(self, delay_ms: int) -> int:
        return self.mono_us + delay_ms * 1000


class TimerKind(Enum):
    SESSION = auto()  # A member was not heard of, or one that was given an id never came back with it.
    JOIN = auto()  # Enough waiting for members to join.
    SYNC = auto()  # Enough waiting for members to fetch their assignment, the leader to bring it.
    RETENTION = auto()  # Time to look for offsets that nobody wants any more.


class Timer(NamedTuple):
    """What a deadline is about, and its name: there is one deadline for each."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Decision:
    """Made by the functions of this package, read by whoever appends its records and sends its answers."""

    __slots__ = ("_group", "answers", "cause", "now", "records", "timers", "turn")

    def __init__(self, now: Now, *, turn: int, group: Group | None = None, cause: Timer | None = None) -> None:
        self.now = now
        self.turn = turn  # What state it was made of, so that it cannot be enacted on another.
        self.cause = cause
        self.records: list[GroupRecord] = []
        self.answers: list[tuple[Ticket, Value]] = []
        self.timers: dict[Timer, int | None] = {}  # Microseconds to be due at, or None to be forgotten.
        self._group = group

    @property
    def group(self) -> Group:
        """How its group stands if this is enacted."""
        assert self._group is not None
        return self._group

    @group.setter
    def group(self, group: Group) -> None:
        self._group = group

    @property
    def group_or_none(self) -> Group | None:
        return self._group

    def forget_group(self) -> None:
        self._group = None

    def answer(self, caller: Caller, response: Value) -> None:
        self.answers.append((caller.ticket, response))

    def set_timer(self, kind: TimerKind, delay_ms: int, *, member_id: str = "") -> None:
        self.timers[Timer(kind, self.group.group_id, member_id)] = self.now.after_ms(delay_ms)

    def cancel_timer(self, kind: TimerKind, *, member_id: str = "") -> None:
        self.timers[Timer(kind, self.group.group_id, member_id)] = None
