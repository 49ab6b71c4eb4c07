"""Heartbeats, sessions that end, and LeaveGroup."""

import pytest

from headrace.coordination.group import GroupState
from headrace.coordination.members import Caller, Ticket
from headrace.coordination.settings import GroupSettings
from headrace.errors import ErrorCode
from headrace.protocol.messages import leave_group
from tests.unit.coordination.driven_groups import GROUP, DrivenGroups


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


def test_heartbeats_keep_a_member(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    for _ in range(5):
        groups.advance(9_999)
        assert groups.heartbeat(member_id, 1) == 0
    groups.advance(9_999)
    assert groups.group().state is GroupState.STABLE
    groups.advance(1)
    assert groups.group().state is GroupState.EMPTY


def test_the_others_learn_of_a_session_that_ended(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    groups.advance(5_000)
    groups.heartbeat(follower, 1)
    groups.advance(5_000)
    assert leader not in groups.group().members
    assert groups.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.join(follower)["leader"] == follower


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_heartbeat_of_another_generation_is_illegal_and_keeps_nobody(groups: DrivenGroups, generation: int) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.advance(6_000)
    assert groups.heartbeat(member_id, generation) == ErrorCode.ILLEGAL_GENERATION
    groups.advance(4_000)
    assert groups.group().state is GroupState.EMPTY


def test_a_heartbeat_of_nobody_is_told_so(groups: DrivenGroups) -> None:
    assert groups.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.heartbeat("m", 1, group_id="") == ErrorCode.INVALID_GROUP_ID
    pending = groups.register()
    assert groups.heartbeat(pending, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    groups.rebalance(new=1)
    assert groups.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_group_rebalances_heartbeats_keep_members_and_call_them(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    groups.send_join(leader)
    for _ in range(4):
        groups.advance(6_000)
        assert groups.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(groups.group().members) == [leader, follower]


def test_while_the_leader_assigns_heartbeats_are_ordinary(groups: DrivenGroups) -> None:
    member_id = groups.register()
    groups.join(member_id)
    groups.advance(6_000)
    assert groups.heartbeat(member_id, 1) == 0
    groups.advance(6_000)
    assert groups.group().state is GroupState.COMPLETING


def test_who_waits_for_the_others_is_not_expected_to_send_heartbeats(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2, session_timeout_ms=60_000)
    waits = groups.send_join(leader, session_timeout_ms=6_000)
    groups.advance(30_000)
    assert waits in groups.waiting
    groups.send_join(follower, session_timeout_ms=60_000)
    # From here on its session runs again.
    groups.advance(5_999)
    assert leader in groups.group().members
    groups.advance(1)
    assert leader not in groups.group().members


def test_who_waits_for_its_assignment_is_not_expected_to_send_heartbeats(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2, session_timeout_ms=50_000)
    with groups.held():
        groups.send_join(leader, session_timeout_ms=50_000)
        groups.send_join(follower, session_timeout_ms=6_000)
    waits = groups.send_sync(follower, 2)
    groups.advance(40_000)
    assert waits in groups.waiting
    groups.send_sync(leader, 2, {follower: b"2"})
    assert groups.answers[waits]["assignment"] == b"2"
    groups.advance(6_000)
    assert follower not in groups.group().members


def test_the_last_session_that_a_rebalance_waits_for_ends_it(groups: DrivenGroups) -> None:
    leader, _ = groups.rebalance(new=2)
    waits = groups.send_join(leader)
    groups.advance(10_000)
    assert groups.answers[waits]["generation_id"] == 2
    assert list(groups.group().members) == [leader]


def test_an_empty_group_is_written_down_with_the_next_generation(groups: DrivenGroups) -> None:
    groups.rebalance(new=1)
    groups.advance(10_000)
    group = groups.group()
    assert (group.state, group.generation, group.protocol_type) == (GroupState.EMPTY, 2, "consumer")
    assert (group.leader_id, group.protocol_name, group.state_since_ms) == (None, None, groups.wall_ms)
    assert groups.replayed().group(GROUP) == group


def test_a_session_whose_end_cannot_be_written_down_ends_later(groups: DrivenGroups) -> None:
    groups.rebalance(new=1)
    groups.disk_is_full = True
    groups.advance(15_000)
    assert groups.group().state is GroupState.STABLE
    groups.disk_is_full = False
    groups.advance(1_000)
    assert groups.group().state is GroupState.EMPTY


def test_members_leave_by_id(groups: DrivenGroups) -> None:
    first, second, third = groups.rebalance(new=3)
    assert groups.leave((second, None), ("made-up", None), (third, None)) == [0, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert list(groups.group().members) == [first]
    assert groups.group().state is GroupState.PREPARING


def test_when_the_last_leaves_the_group_is_empty(groups: DrivenGroups) -> None:
    assert groups.leave(*((member_id, None) for member_id in groups.rebalance(new=2))) == [0, 0]
    assert groups.group().state is GroupState.EMPTY
    assert groups.coordinator.next_deadline_us() is not None  # Retention goes on.
    assert groups.coordinator.statistics().timers == 1


def test_nobody_leaves_a_group_that_is_not_there(groups: DrivenGroups) -> None:
    assert groups.leave(("m", None), ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert groups.coordinator.group(GROUP) is None


def test_an_empty_group_id_is_invalid(groups: DrivenGroups) -> None:
    ticket = groups.ask(leave_group.API, 3, groups.coordinator.decide_leave, {"group_id": "", "members": []})
    assert groups.answers[ticket]["error_code"] == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_version_3_one_leaves_and_its_error_is_at_the_top(groups: DrivenGroups, version: int) -> None:
    (member_id,) = groups.rebalance(new=1)
    told = []
    for leaver in (member_id, member_id):
        request = {"group_id": GROUP, "member_id": leaver}
        ticket = groups.ask(leave_group.API, version, groups.coordinator.decide_leave, request)
        told.append(groups.answers[ticket]["error_code"])
    assert told == [0, ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_was_only_given_an_id_leaves_without_a_rebalance(groups: DrivenGroups) -> None:
    groups.rebalance(new=1)
    assert groups.leave((groups.register(), None)) == [0]
    assert groups.group().pending_joins == frozenset()
    assert groups.group().state is GroupState.STABLE


def test_who_leaves_while_it_waits_is_answered(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    joining = groups.send_join(leader)
    assert groups.leave((leader, None)) == [0]
    assert groups.answers[joining]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.answers[joining]["member_id"] == ""
    joined = groups.join(follower)
    new = groups.register()
    groups.send_join(new)
    again = groups.send_join(follower)
    assert groups.answers[again]["generation_id"] == joined["generation_id"] + 1
    syncing = groups.send_sync(new, groups.group().generation)
    assert groups.leave((new, None)) == [0]
    assert groups.answers[syncing]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_whom_a_rebalance_waits_for_ends_it_by_leaving(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    waits = groups.send_join(leader)
    groups.leave((follower, None))
    assert groups.answers[waits]["generation_id"] == 2


def test_a_new_group_is_not_hurried_by_leaving() -> None:
    groups = DrivenGroups(GroupSettings(initial_rebalance_delay_ms=3_000))
    stays, goes = groups.register(), groups.register()
    waits = groups.send_join(stays)
    groups.send_join(goes)
    groups.leave((goes, None))
    assert waits in groups.waiting
    groups.advance(6_000)
    assert groups.answers[waits]["generation_id"] == 1


def test_after_a_restart_members_have_a_session_to_be_heard_of(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    groups.advance(9_000)
    groups.restart()
    groups.advance(9_000)
    assert groups.heartbeat(leader, 1) == 0
    groups.advance(1_000)
    assert list(groups.group().members) == [leader]
    assert groups.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_coordinator_that_moves_lets_everybody_go(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    joining = groups.send_join(leader)
    other = groups.register(group_id="other")
    groups.join(other, group_id="other")
    second = groups.register(group_id="other")
    groups.send_join(second, group_id="other")
    groups.send_join(other, group_id="other")
    syncing = groups.send_sync(second, 2, group_id="other")
    assert groups.waiting == {joining, syncing}
    groups.submit(groups.coordinator.decide_unload(ErrorCode.NOT_COORDINATOR, groups.now))
    assert groups.waiting == set()
    assert groups.answers[joining]["error_code"] == ErrorCode.NOT_COORDINATOR
    assert groups.answers[joining]["member_id"] == leader
    assert groups.answers[syncing]["error_code"] == ErrorCode.NOT_COORDINATOR
    assert follower in groups.group().members


def test_a_timer_that_nothing_is_left_of_is_forgotten(groups: DrivenGroups) -> None:
    groups.register()
    assert groups.delete_group() == 0
    groups.advance(10_000)
    assert groups.coordinator.group(GROUP) is None
    assert groups.coordinator.statistics().timers == 1
    assert groups.coordinator.decide_heartbeat(
        {"group_id": GROUP, "member_id": "m", "generation_id": 0, "group_instance_id": None},
        Caller(Ticket(-1), 4),
        groups.now,
    ).answers == [(-1, {"error_code": ErrorCode.UNKNOWN_MEMBER_ID})]
