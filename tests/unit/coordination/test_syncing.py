"""SyncGroup, rule by rule."""

from typing import Any

import pytest

from headrace.coordination.group import GroupState
from headrace.errors import ErrorCode
from tests.unit.coordination.driven_groups import GROUP, DrivenGroups


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


def join_together(groups: DrivenGroups, count: int, **how: Any) -> list[str]:
    ids = [groups.register(**how) for _ in range(count)]
    with groups.held():
        for member_id in ids:
            groups.send_join(member_id, **how)
    assert groups.group().state is GroupState.COMPLETING
    return ids


def test_followers_wait_for_the_leader(groups: DrivenGroups) -> None:
    leader, second, third = join_together(groups, 3)
    early = groups.send_sync(second, 1)
    assert groups.waiting == {early}
    leads = groups.send_sync(leader, 1, {leader: b"1", second: b"2", third: b"3"})
    assert groups.answers[early]["assignment"] == b"2"
    assert groups.answers[leads]["assignment"] == b"1"
    assert groups.group().state is GroupState.STABLE
    late = groups.send_sync(third, 1)
    assert groups.answers[late]["assignment"] == b"3"


def test_whom_the_leader_forgets_gets_nothing_and_whom_it_makes_up_nobody_misses(groups: DrivenGroups) -> None:
    leader, forgotten = join_together(groups, 2)
    waits = groups.send_sync(forgotten, 1)
    groups.send_sync(leader, 1, {leader: b"all", "made-up": b"some"})
    assert groups.answers[waits]["error_code"] == 0
    assert groups.answers[waits]["assignment"] == b""
    assert list(groups.group().members) == [leader, forgotten]


def test_only_the_leaders_assignment_counts(groups: DrivenGroups) -> None:
    leader, follower = join_together(groups, 2)
    waits = groups.send_sync(follower, 1, {leader: b"", follower: b"all"})
    assert waits in groups.waiting
    groups.send_sync(leader, 1, {leader: b"all"})
    assert groups.answers[waits]["assignment"] == b""


@pytest.mark.parametrize("member_id", ["made-up", ""])
def test_an_unknown_member_is_told_so(groups: DrivenGroups, member_id: str) -> None:
    assert groups.answers[groups.send_sync(member_id, 1)]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    join_together(groups, 1)
    assert groups.answers[groups.send_sync(member_id, 1)]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_invalid(groups: DrivenGroups) -> None:
    assert groups.answers[groups.send_sync("m", 1, group_id="")]["error_code"] == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_illegal(groups: DrivenGroups, generation: int) -> None:
    (leader,) = join_together(groups, 1)
    assert groups.answers[groups.send_sync(leader, generation)]["error_code"] == ErrorCode.ILLEGAL_GENERATION
    assert groups.group().state is GroupState.COMPLETING


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ({"protocol_type": None, "protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None, "protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect", "protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_from_version_5_members_say_which_protocol_they_believe_in_force_and_must_be_right(
    groups: DrivenGroups, claims: dict[str, Any], code: ErrorCode
) -> None:
    (leader,) = join_together(groups, 1)
    response = groups.answers[groups.send_sync(leader, 1, version=5, **claims)]
    assert response["error_code"] == code
    told = (response["protocol_type"], response["protocol_name"])
    assert told == (("consumer", "range") if code is ErrorCode.NONE else (None, None))


def test_before_version_5_nobody_says_what_it_believes_to_be_in_force(groups: DrivenGroups) -> None:
    (leader,) = join_together(groups, 1)
    assert groups.answers[groups.send_sync(leader, 1, version=4)]["error_code"] == 0


def test_while_others_join_there_is_nothing_to_sync(groups: DrivenGroups) -> None:
    (leader,) = groups.rebalance(new=1)
    groups.send_join(groups.register())
    assert groups.answers[groups.send_sync(leader, 1)]["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_gone_after_the_rebalance_timeout(groups: DrivenGroups) -> None:
    leader, follower = join_together(groups, 2, rebalance_timeout_ms=20_000, session_timeout_ms=6_000)
    waits = groups.send_sync(follower, 1)
    for _ in range(6):
        groups.advance(3_000)
        assert groups.heartbeat(leader, 1) == 0  # It is alive, but that is not enough.
    groups.advance(1_999)
    assert waits in groups.waiting
    groups.advance(1)
    assert groups.answers[waits]["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(groups.group().members) == [follower]
    assert groups.group().state is GroupState.PREPARING


def test_a_follower_that_never_fetches_its_assignment_is_gone_after_the_rebalance_timeout(
    groups: DrivenGroups,
) -> None:
    leader, follower = join_together(groups, 2, rebalance_timeout_ms=20_000, session_timeout_ms=300_000)
    groups.send_sync(leader, 1, {leader: b"1", follower: b"2"})
    groups.advance(19_999)
    assert groups.group().state is GroupState.STABLE
    groups.advance(1)
    assert groups.group().state is GroupState.PREPARING
    assert list(groups.group().members) == [leader]


def test_when_all_have_synced_nobody_is_missed(groups: DrivenGroups) -> None:
    groups.rebalance(new=2, rebalance_timeout_ms=20_000, session_timeout_ms=300_000)
    groups.advance(100_000)
    assert groups.group().state is GroupState.STABLE


def test_a_sync_sent_again_answers_the_first_and_waits_on(groups: DrivenGroups) -> None:
    leader, follower = join_together(groups, 2)
    first = groups.send_sync(follower, 1)
    second = groups.send_sync(follower, 1)
    assert groups.answers[first]["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    groups.send_sync(leader, 1, {follower: b"2"})
    assert groups.answers[second]["assignment"] == b"2"


def test_an_assignment_that_cannot_be_written_down_is_not_given_out(groups: DrivenGroups) -> None:
    leader, follower = join_together(groups, 2)
    waits = groups.send_sync(follower, 1)
    groups.disk_is_full = True
    assert groups.send_sync(leader, 1, {leader: b"1", follower: b"2"}) in groups.refused
    assert groups.group().state is GroupState.COMPLETING
    assert waits in groups.waiting
    # The leader is refused, joins again, hears the same as before and tries once more.
    groups.disk_is_full = False
    assert groups.join(leader)["generation_id"] == 1
    groups.send_sync(leader, 1, {leader: b"1", follower: b"2"})
    assert groups.answers[waits]["assignment"] == b"2"


def test_a_generation_that_was_not_complete_is_forgotten_by_a_restart(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    with groups.held():
        groups.send_join(leader)
        groups.send_join(follower)
    assert groups.group().generation == 2
    groups.restart()
    assert groups.group().generation == 1
    assert groups.group().state is GroupState.STABLE
    assert groups.heartbeat(follower, 2) == ErrorCode.ILLEGAL_GENERATION
    assert groups.answers[groups.send_sync(follower, 1)]["assignment"] == follower.encode()
    assert groups.replayed().group(GROUP) == groups.group()
