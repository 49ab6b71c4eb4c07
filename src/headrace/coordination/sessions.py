"""Who is still there: heartbeats, sessions that end, and members that leave of their own accord."""

from headrace.coordination import answers
from headrace.coordination.decision import Decision, TimerKind
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Caller
from headrace.coordination.rebalance import complete_join, complete_join_if_ready, dismiss, prepare, rebalance
from headrace.coordination.settings import GroupSettings
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value


def keep_session(decision: Decision, member_id: str) -> None:
    """It was heard of: its time begins anew."""
    member = decision.group.members[member_id]
    decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=member_id)


def heartbeat(decision: Decision, request: Value, caller: Caller) -> None:
    group = decision.group
    code = group.check_member(request["member_id"], request["group_instance_id"])
    if code is ErrorCode.NONE and request["generation_id"] != group.generation:
        code = ErrorCode.ILLEGAL_GENERATION
    if code is ErrorCode.NONE:
        keep_session(decision, request["member_id"])
        if group.state is GroupState.PREPARING:
            code = ErrorCode.REBALANCE_IN_PROGRESS
    decision.answer(caller, answers.refused(code))


def session_is_over(decision: Decision, member_id: str, settings: GroupSettings) -> None:
    """Nothing was heard of a member for as long as it said itself."""
    group = decision.group
    member = group.members.get(member_id)
    if member is None:
        if member_id not in group.pending_joins:
            return
    elif member.is_excused:
        return
    dismiss(decision, member_id)
    if member is not None and group.state is not GroupState.PREPARING:
        prepare(decision, settings)
    elif decision.group.state is GroupState.PREPARING and decision.group.has_everybody_joined:
        complete_join(decision)


def leave(decision: Decision, request: Value, caller: Caller, *, settings: GroupSettings) -> None:
    before = decision.group
    told = []
    for leaver in answers.leavers(request, caller.version):
        member_id, instance_id = leaver["member_id"], leaver["group_instance_id"]
        code = _dismiss_leaver(decision, member_id, instance_id)
        told.append({"member_id": member_id, "group_instance_id": instance_id, "error_code": code})
    decision.answer(caller, answers.left(caller, told))
    if len(decision.group.members) < len(before.members):
        rebalance(decision, settings)
    elif decision.group.pending_joins != before.pending_joins:
        complete_join_if_ready(decision)


def _dismiss_leaver(decision: Decision, member_id: str, instance_id: str | None) -> ErrorCode:
    group = decision.group
    gone = _leaver(group, member_id, instance_id)
    if isinstance(gone, ErrorCode):
        return gone
    dismiss(decision, gone)
    return ErrorCode.NONE


def _leaver(group: Group, member_id: str, instance_id: str | None) -> str | ErrorCode:
    """The id of who leaves. An administrator may name an instance without knowing its present id."""
    if not member_id:
        member = group.instance(instance_id) if instance_id is not None else None
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else member.member_id
    if member_id in group.pending_joins:
        return member_id
    code = group.check_member(member_id, instance_id)
    return member_id if code is ErrorCode.NONE else code
