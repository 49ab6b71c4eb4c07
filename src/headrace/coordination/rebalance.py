"""From one generation to the next: waiting for members to join, naming a leader, waiting for its assignment.

Each function carries a decision further; `decision.group` is the group as it stands by then.
"""

from dataclasses import replace
from typing import Final

from headrace.coordination import answers
from headrace.coordination.decision import Decision, TimerKind
from headrace.coordination.group import Group, GroupState, InitialWait
from headrace.coordination.members import Member
from headrace.coordination.settings import GroupSettings
from headrace.coordination.storing import stored
from headrace.errors import ErrorCode

# Members may say that they need no time at all; looking for them again and again would take all of ours.
_WAIT_AGAIN_MS_MIN: Final = 1_000


def rebalance(decision: Decision, settings: GroupSettings) -> None:
    """Somebody came, went or changed: begin a rebalance, or see whether the one under way can end."""
    if decision.group.state is GroupState.PREPARING:
        complete_join_if_ready(decision)
    else:
        prepare(decision, settings)


def prepare(decision: Decision, settings: GroupSettings) -> None:
    """Everybody has to join again."""
    before = decision.group
    if before.state is GroupState.COMPLETING:
        _take_back_assignments(decision)
    decision.cancel_timer(TimerKind.SYNC)
    group = replace(decision.group, pending_syncs=frozenset()).moved_to(
        GroupState.PREPARING, now_ms=decision.now.wall_ms
    )
    decision.group = group
    if before.state is GroupState.EMPTY:
        delay_ms = settings.initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _wait_for_more(decision, InitialWait(delay_ms, remaining_ms))
    elif group.has_everybody_joined:
        complete_join(decision)
    else:
        decision.set_timer(TimerKind.JOIN, group.rebalance_timeout_ms)


def _take_back_assignments(decision: Decision) -> None:
    """Who waits for an assignment of a generation that never will be complete joins again instead."""
    members = []
    for member in decision.group.members.values():
        if member.waiting_sync is not None:
            decision.answer(member.waiting_sync, answers.refused(ErrorCode.REBALANCE_IN_PROGRESS))
            decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=member.member_id)
        members.append(replace(member, assignment=b"", waiting_sync=None))
    decision.group = decision.group.with_members(members)


def _wait_for_more(decision: Decision, wait: InitialWait) -> None:
    decision.group = replace(decision.group, initial_wait=wait)
    decision.set_timer(TimerKind.JOIN, wait.delay_ms)


def join_time_is_up(decision: Decision, settings: GroupSettings) -> None:
    """Go on with those who joined; unless the group is new, and still growing."""
    assert decision.group.state is GroupState.PREPARING
    wait = decision.group.initial_wait
    if wait is None or not wait.more_came or wait.remaining_ms == 0:
        complete_join(decision)
        return
    delay_ms = min(settings.initial_rebalance_delay_ms, wait.remaining_ms)
    _wait_for_more(decision, InitialWait(delay_ms, max(wait.remaining_ms - wait.delay_ms, 0)))


def complete_join_if_ready(decision: Decision) -> None:
    """The first generation of a group is not ready before its time is up: more may come."""
    group = decision.group
    if group.state is GroupState.PREPARING and group.initial_wait is None and group.has_everybody_joined:
        complete_join(decision)


def complete_join(decision: Decision) -> None:
    """The next generation is of those who joined. Static members are waited for a little longer, by their session."""
    decision.cancel_timer(TimerKind.JOIN)
    for member in decision.group.members.values():
        if member.waiting_join is None and not member.is_static:
            dismiss(decision, member.member_id)
    group = replace(decision.group, initial_wait=None)
    if not group.members:
        _become_empty(decision, group)
        return
    leader = _joined_leader(group)
    if leader is None:
        # Nobody joined, and only sessions may end static members.
        decision.group = group
        decision.set_timer(TimerKind.JOIN, max(group.rebalance_timeout_ms, _WAIT_AGAIN_MS_MIN))
        return
    _begin_generation(decision, replace(group, leader_id=leader.member_id))


def _joined_leader(group: Group) -> Member | None:
    """Who leads: as before, if it joined, and otherwise whoever has been there longest among those who did."""
    assert group.leader_id is not None
    leader = group.members[group.leader_id]
    if leader.waiting_join is not None:
        return leader
    return next((member for member in group.members.values() if member.waiting_join is not None), None)


def _become_empty(decision: Decision, group: Group) -> None:
    empty = replace(group, generation=group.generation + 1, protocol_name=None, leader_id=None)
    decision.group = empty.with_known_topics().moved_to(GroupState.EMPTY, now_ms=decision.now.wall_ms)
    decision.records.append(stored(decision.group))


def _begin_generation(decision: Decision, before: Group) -> None:
    group = replace(
        before,
        generation=before.generation + 1,
        protocol_name=before.choose_protocol(),
        pending_syncs=frozenset(before.members),
    )
    group = group.with_known_topics().moved_to(GroupState.COMPLETING, now_ms=decision.now.wall_ms)
    decision.group = group.with_members(
        replace(member, is_new=False, waiting_join=None) for member in group.members.values()
    )
    for member in group.members.values():
        if member.waiting_join is not None:
            decision.answer(member.waiting_join, answers.joined(group, member))
        decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=member.member_id)
    decision.set_timer(TimerKind.SYNC, group.rebalance_timeout_ms)


def sync_time_is_up(decision: Decision, settings: GroupSettings) -> None:
    """Who joined and never asked for its assignment is gone, and maybe that was the leader."""
    assert decision.group.pending_syncs
    for member_id in sorted(decision.group.pending_syncs):
        dismiss(decision, member_id)
    prepare(decision, settings)


def dismiss(decision: Decision, member_id: str) -> None:
    """Out of the group, joined or not; if it waits for something, it waits no longer."""
    member = decision.group.members.get(member_id)
    if member is not None and member.waiting_join is not None:
        waiting = member.waiting_join
        decision.answer(waiting, answers.join_refused(waiting.version, ErrorCode.UNKNOWN_MEMBER_ID))
    if member is not None and member.waiting_sync is not None:
        decision.answer(member.waiting_sync, answers.refused(ErrorCode.UNKNOWN_MEMBER_ID))
    decision.cancel_timer(TimerKind.SESSION, member_id=member_id)
    decision.group = decision.group.without_member(member_id)
