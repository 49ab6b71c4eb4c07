"""JoinGroup: who is let in, under which id, and whether the others must join again because of it.

Three ways in. A dynamic member asks without an id, is given one, and asks again with it (KIP-394: so that one whose
first answer was lost leaves no ghost behind); before version 4 it is in at once. A static member (KIP-345) is known by
its instance id: it comes back under a new id and takes up what it had, and the others need not notice. A member that is
in already joins again because it was told to, or because what it wants has changed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.coordination import answers
from headrace.coordination.decision import Decision, TimerKind
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Caller, Member, Protocol
from headrace.coordination.rebalance import complete_join_if_ready, dismiss, prepare, rebalance
from headrace.coordination.settings import GroupSettings
from headrace.coordination.storing import stored
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value

NEWCOMER: Final = ""  # The member id of who has none.

_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9
# A client may call itself anything; with more of that in front, an id would not fit where ids are written.
_NAME_CHARS_MAX: Final = 1_000
# Asking for ids costs nothing, so somebody may do nothing else. Kafka has no such limit.
_PENDING_JOINS_MAX: Final = 10_000


def check_join(request: Value, settings: GroupSettings) -> ErrorCode:
    """What can be said before the group is looked at."""
    if not request["group_id"]:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.session_timeout_ms_min <= request["session_timeout_ms"] <= settings.session_timeout_ms_max:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def join(
    decision: Decision, request: Value, caller: Caller, *, settings: GroupSettings, fresh_uuid: Callable[[], str]
) -> None:
    group = decision.group
    member_id: str = request["member_id"]
    instance_id: str | None = request["group_instance_id"]
    if not _has_room(group, member_id, members_max=settings.members_max):
        decision.answer(caller, answers.join_refused(caller.version, ErrorCode.GROUP_MAX_SIZE_REACHED))
        dismiss(decision, member_id)
        complete_join_if_ready(decision)
    elif not group.supports(request["protocol_type"], frozenset(item["name"] for item in request["protocols"])):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        decision.answer(caller, answers.join_refused(caller.version, code, member_id=member_id))
    elif member_id == NEWCOMER:
        new_id = f"{(instance_id or caller.client_id)[:_NAME_CHARS_MAX]}-{fresh_uuid()}"
        _let_in(decision, request, caller, new_id, settings)
    elif member_id in group.pending_joins and instance_id is None:
        _add(decision, request, caller, member_id, settings)
    elif (code := group.check_member(member_id, instance_id)) is not ErrorCode.NONE:
        decision.answer(caller, answers.join_refused(caller.version, code, member_id=member_id))
    else:
        _join_again(decision, request, caller, group.members[member_id], settings)


def _has_room(group: Group, member_id: str, *, members_max: int) -> bool:
    """A full group takes nobody else in. While it rebalances, those who joined first have the places: the limit may
    have been lowered since they were all let in."""
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING:
        joined = sum(other.waiting_join is not None for other in group.members.values())
        return joined < members_max or (member is not None and member.waiting_join is not None)
    return member is not None or len(group.members) < members_max


def _let_in(decision: Decision, request: Value, caller: Caller, new_id: str, settings: GroupSettings) -> None:
    group = decision.group
    instance_id = request["group_instance_id"]
    if instance_id is not None and (predecessor := group.instance(instance_id)) is not None:
        _succeed(decision, request, caller, predecessor, new_id, settings)
    elif instance_id is not None or caller.version < _ID_REQUIRED_SINCE:
        _add(decision, request, caller, new_id, settings)
    elif len(group.pending_joins) >= _PENDING_JOINS_MAX:
        decision.answer(caller, answers.join_refused(caller.version, ErrorCode.GROUP_MAX_SIZE_REACHED))
    else:
        decision.group = replace(group, pending_joins=group.pending_joins | {new_id})
        decision.set_timer(TimerKind.SESSION, request["session_timeout_ms"], member_id=new_id)
        decision.answer(caller, answers.join_refused(caller.version, ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id))


def _add(decision: Decision, request: Value, caller: Caller, member_id: str, settings: GroupSettings) -> None:
    group = decision.group
    if not group.members:
        group = replace(group, protocol_type=request["protocol_type"])
    if group.initial_wait is not None:
        group = replace(group, initial_wait=group.initial_wait._replace(more_came=True))
    member = Member(
        member_id=member_id,
        instance_id=request["group_instance_id"],
        client_id=caller.client_id,
        client_host=caller.client_host,
        session_timeout_ms=request["session_timeout_ms"],
        rebalance_timeout_ms=_rebalance_timeout_ms(request, caller),
        protocols=_protocols(request),
        is_new=True,
        waiting_join=caller,
    )
    decision.group = group.with_member(member)
    decision.set_timer(TimerKind.SESSION, settings.new_member_join_timeout_ms, member_id=member_id)
    rebalance(decision, settings)


def _join_again(decision: Decision, request: Value, caller: Caller, member: Member, settings: GroupSettings) -> None:
    group = decision.group
    has_changed = member.protocols != _protocols(request)
    # A leader that joins again has seen something that concerns the assignment: new partitions, say.
    is_called_for = group.state is GroupState.STABLE and group.leader_id == member.member_id
    if group.state is GroupState.PREPARING or has_changed or is_called_for:
        decision.group = group.with_member(_updated(decision, member, request, caller))
        rebalance(decision, settings)
    else:
        # Its answer was lost, maybe.
        decision.answer(caller, answers.joined(group, member))


def _updated(decision: Decision, member: Member, request: Value, caller: Caller) -> Member:
    if member.waiting_join is not None:
        # It asks again, because its connection broke or its patience did. Whoever waits for the first answer joins
        # again as well.
        first, code = member.waiting_join, ErrorCode.REBALANCE_IN_PROGRESS
        decision.answer(first, answers.join_refused(first.version, code, member_id=member.member_id))
    return replace(
        member,
        session_timeout_ms=request["session_timeout_ms"],
        rebalance_timeout_ms=_rebalance_timeout_ms(request, caller),
        protocols=_protocols(request),
        waiting_join=caller,
    )


def _succeed(
    decision: Decision, request: Value, caller: Caller, predecessor: Member, new_id: str, settings: GroupSettings
) -> None:
    """A static member is back. Whoever still uses its old id is told so."""
    before = decision.group
    code, old_id = ErrorCode.FENCED_INSTANCE_ID, predecessor.member_id
    if predecessor.waiting_join is not None:
        waiting = predecessor.waiting_join
        decision.answer(waiting, answers.join_refused(waiting.version, code, member_id=old_id))
    if predecessor.waiting_sync is not None:
        decision.answer(predecessor.waiting_sync, answers.refused(code))
    vacant = replace(predecessor, member_id=new_id, is_new=False, waiting_join=None, waiting_sync=None)
    member = _updated(decision, vacant, request, caller)
    group = before.with_successor(member, of=old_id)
    decision.group = group
    decision.cancel_timer(TimerKind.SESSION, member_id=old_id)
    decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=new_id)
    if group.state is GroupState.PREPARING:
        complete_join_if_ready(decision)
    elif group.state is GroupState.STABLE and group.choose_protocol() == group.protocol_name:
        _resume(decision, caller, member, leader_before=before.leader_id)
    else:
        # The group would choose another protocol; or its leader assigns to the old id at this moment.
        prepare(decision, settings)


def _resume(decision: Decision, caller: Caller, member: Member, *, leader_before: str | None) -> None:
    """Nothing changes for anybody else, so nobody is disturbed.

    A leader must not assign anew what a stable group would not hear. It is told to skip that, or, if it is too old to
    be told, that the leader is somebody else: itself, as it was before.
    """
    member = replace(member, waiting_join=None)
    group = decision.group.with_member(member).with_known_topics()
    decision.group = group
    decision.records.append(stored(group))
    if caller.version >= _SKIP_ASSIGNMENT_SINCE:
        is_leader = group.leader_id == member.member_id
        decision.answer(caller, answers.joined(group, member, skip_assignment=is_leader))
    else:
        decision.answer(caller, answers.joined(group, member, leader_id=leader_before))


def _protocols(request: Value) -> tuple[Protocol, ...]:
    return tuple(Protocol(item["name"], item["metadata"]) for item in request["protocols"])


def _rebalance_timeout_ms(request: Value, caller: Caller) -> int:
    """Version 0 knew no other limit than the session's."""
    timeout_ms: int = request["session_timeout_ms"] if caller.version == 0 else request["rebalance_timeout_ms"]
    return timeout_ms
