"""A member of a group: who it is, what it can speak, what it was given, and what it waits for.

Members are values; a change makes another one.
"""

from dataclasses import dataclass
from typing import NamedTuple, NewType

Ticket = NewType("Ticket", int)


class Caller(NamedTuple):
    """Who asks. The ticket stands for the answer that is owed: it is answered exactly once, now or later."""

    ticket: Ticket
    version: int
    client_id: str = ""
    client_host: str = ""


class Protocol(NamedTuple):
    """A way to assign partitions that a member knows, and what it wants an assigner of that kind to know of it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]  # What it likes best comes first.
    assignment: bytes = b""
    # Until its first generation is complete: it does not know its id yet, so it sends no heartbeats.
    is_new: bool = False
    waiting_join: Caller | None = None
    waiting_sync: Caller | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether its silence is ours: it waits for us, and cannot send heartbeats meanwhile."""
        return not self.is_new and (self.waiting_join is not None or self.waiting_sync is not None)

    def metadata_for(self, protocol_name: str) -> bytes:
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)

    def vote(self, candidates: frozenset[str]) -> str:
        """What it likes best among these."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
