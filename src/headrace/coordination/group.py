"""A group as a value: its state, its members, its generation; and the questions that need nothing else.

The states and the moves between them are one table. A generation is decided when everybody has joined
(PreparingRebalance ends), and complete when its leader has said who gets what (CompletingRebalance ends): only then
is it written down. What happens in between is soft: after a crash the group stands as it last was complete, its
members notice and join again.

Groups are values; a change makes another one. Nothing here knows of requests, time or records.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, Self

from headrace.coordination.members import Member
from headrace.coordination.subscriptions import CONSUMER, subscribed_topics
from headrace.errors import ErrorCode


class GroupState(Enum):
    """Under Kafka's names, which tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = GroupState
TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    # Somebody joins; or the group is deleted, or its coordinator moves.
    _S.EMPTY: frozenset({_S.PREPARING, _S.DEAD}),
    # Everybody joined, or the time is up; or nobody is left.
    _S.PREPARING: frozenset({_S.COMPLETING, _S.EMPTY, _S.DEAD}),
    # The leader brought the assignment; or somebody came, went or changed before it did.
    _S.COMPLETING: frozenset({_S.STABLE, _S.PREPARING, _S.DEAD}),
    # Somebody comes, goes or changes.
    _S.STABLE: frozenset({_S.PREPARING, _S.DEAD}),
    _S.DEAD: frozenset(),
}


class InitialWait(NamedTuple):
    """The first generation of an empty group waits a little, so that members that start together share it."""

    delay_ms: int
    remaining_ms: int  # How much longer it may be waited if more come.
    more_came: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int | None = None  # By the wall clock; unknown of groups that old versions wrote.
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)  # By id, in the order they came.
    pending_joins: frozenset[str] = frozenset()  # Were given an id, and have not joined with it yet.
    pending_syncs: frozenset[str] = frozenset()  # Have not asked for their assignment of this generation yet.
    initial_wait: InitialWait | None = None
    topics: frozenset[str] | None = None  # What the members read; None where that is not known.

    def moved_to(self, state: GroupState, *, now_ms: int) -> Self:
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} to {state}"
        return replace(self, state=state, state_since_ms=now_ms)

    # Members

    def instance(self, instance_id: str) -> Member | None:
        """The member that a static instance is now."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is who it says: NONE, or what it is told."""
        if instance_id is not None:
            current = self.instance(instance_id)
            if current is not None and current.member_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def with_member(self, member: Member) -> Self:
        """With a member that is new, or that replaces itself."""
        leader_id = member.member_id if self.leader_id is None else self.leader_id
        return replace(
            self,
            members={**self.members, member.member_id: member},
            leader_id=leader_id,
            pending_joins=self.pending_joins - {member.member_id},
        )

    def with_members(self, members: Iterable[Member]) -> Self:
        """With all of its members replaced by these, which are the same with changes."""
        return replace(self, members={member.member_id: member for member in members})

    def without_member(self, member_id: str) -> Self:
        """Whether it has joined or not. A leader that goes is followed by whoever has been there longest."""
        members = {key: member for key, member in self.members.items() if key != member_id}
        leader_id = next(iter(members), None) if self.leader_id == member_id else self.leader_id
        return replace(
            self,
            members=members,
            leader_id=leader_id,
            pending_joins=self.pending_joins - {member_id},
            pending_syncs=self.pending_syncs - {member_id},
        )

    def with_successor(self, member: Member, *, of: str) -> Self:
        """With a static member back under another id: it takes the place of the one it was, whatever that was."""
        members = {
            (member.member_id if key == of else key): (member if key == of else other)
            for key, other in self.members.items()
        }
        pending_syncs = self.pending_syncs
        if of in pending_syncs:
            pending_syncs = pending_syncs - {of} | {member.member_id}
        return replace(
            self,
            members=members,
            leader_id=member.member_id if self.leader_id == of else self.leader_id,
            pending_syncs=pending_syncs,
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member decides."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_everybody_joined(self) -> bool:
        return not self.pending_joins and all(member.waiting_join is not None for member in self.members.values())

    # Protocols

    def supports(self, protocol_type: str, names: frozenset[str]) -> bool:
        """Whether somebody who speaks only these could talk with everybody who is there."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and bool(names & self.candidates if self.members else names)

    @property
    def candidates(self) -> frozenset[str]:
        """The protocols that every member speaks."""
        spoken = [frozenset(protocol.name for protocol in member.protocols) for member in self.members.values()]
        return frozenset.intersection(*spoken)

    def choose_protocol(self) -> str:
        """The one with the most votes, and of several the one that the member who came first likes better."""
        candidates = self.candidates
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]  # Counted first comes first.

    def with_known_topics(self) -> Self:
        """With what the members read, by what they said of it when they joined."""
        name = self.protocol_name
        if self.protocol_type != CONSUMER or (self.members and name is None):
            topics = None
        else:
            topics = subscribed_topics(member.metadata_for(name or "") for member in self.members.values())
        return replace(self, topics=topics)

    def reads(self, topic: str) -> bool:
        """Whether a topic is in use. Consumers of unknown topics may read any."""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics
