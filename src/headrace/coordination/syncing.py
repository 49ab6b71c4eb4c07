"""SyncGroup: the leader brings the assignment, everybody fetches their part; with it a generation is complete."""

from dataclasses import replace
from typing import Final

from headrace.coordination import answers
from headrace.coordination.decision import Decision, TimerKind
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Caller
from headrace.coordination.storing import stored
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value

_PROTOCOL_REQUIRED_SINCE: Final = 5


def check_sync(request: Value, caller: Caller) -> ErrorCode:
    """What can be said before the group is looked at."""
    is_told = request["protocol_type"] is not None and request["protocol_name"] is not None
    if caller.version >= _PROTOCOL_REQUIRED_SINCE and not is_told:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def sync(decision: Decision, request: Value, caller: Caller) -> None:
    group = decision.group
    code = _check_member(group, request)
    if code is not ErrorCode.NONE:
        decision.answer(caller, answers.refused(code))
        return
    member = group.members[request["member_id"]]
    pending_syncs = group.pending_syncs - {member.member_id}
    if group.pending_syncs and not pending_syncs:
        decision.cancel_timer(TimerKind.SYNC)
    decision.group = replace(group, pending_syncs=pending_syncs)
    if group.state is GroupState.STABLE:
        decision.answer(caller, answers.synced(group, member))
        return
    if member.waiting_sync is not None:
        # It asks again, because its connection broke or its patience did.
        decision.answer(member.waiting_sync, answers.refused(ErrorCode.REBALANCE_IN_PROGRESS))
    decision.group = decision.group.with_member(replace(member, waiting_sync=caller))
    if group.leader_id == member.member_id:
        _complete_generation(decision, {item["member_id"]: item["assignment"] for item in request["assignments"]})


def _check_member(group: Group, request: Value) -> ErrorCode:
    code = group.check_member(request["member_id"], request["group_instance_id"])
    if code is not ErrorCode.NONE:
        return code
    if request["generation_id"] != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # Who says what it believes to be in force must be right.
    for said, true in (
        (request["protocol_type"], group.protocol_type),
        (request["protocol_name"], group.protocol_name),
    ):
        if said is not None and true is not None and said != true:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE


def _complete_generation(decision: Decision, assignments: dict[str, bytes]) -> None:
    """Whom the leader forgot gets nothing; whom it made up, nobody misses."""
    waiting = decision.group
    group = waiting.with_members(
        replace(member, assignment=assignments.get(member.member_id, b""), waiting_sync=None)
        for member in waiting.members.values()
    ).moved_to(GroupState.STABLE, now_ms=decision.now.wall_ms)
    decision.group = group
    decision.records.append(stored(group))
    for member in waiting.members.values():
        if member.waiting_sync is not None:
            decision.answer(member.waiting_sync, answers.synced(group, group.members[member.member_id]))
            # While it waited its session may have run out without effect; it begins anew.
            decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=member.member_id)
