"""JoinGroup, rule by rule."""

from dataclasses import replace

import pytest

from headrace.coordination import joining
from headrace.coordination.group import GroupState
from headrace.coordination.settings import GroupSettings
from headrace.errors import ErrorCode
from tests.unit.coordination.driven_groups import AT_ONCE, GROUP, TOPIC, DrivenGroups, subscription

RANGE = subscription(TOPIC)


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


def test_a_member_is_given_an_id_and_joins_with_it(groups: DrivenGroups) -> None:
    response = groups.join(client_id="me")
    assert response["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    member_id = response["member_id"]
    assert member_id.startswith("me-")
    assert len(member_id) == len("me-") + 36
    assert groups.group().state is GroupState.EMPTY

    joined = groups.join(member_id)
    assert joined["error_code"] == 0
    assert joined["member_id"] == joined["leader"] == member_id
    assert joined["generation_id"] == 1
    assert (joined["protocol_type"], joined["protocol_name"]) == ("consumer", "range")
    assert joined["members"] == [{"member_id": member_id, "group_instance_id": None, "metadata": RANGE}]
    assert not joined["skip_assignment"]
    assert groups.group().state is GroupState.COMPLETING


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_is_in_at_once(groups: DrivenGroups, version: int) -> None:
    joined = groups.join(version=version)
    assert joined["error_code"] == 0
    assert joined["leader"] == joined["member_id"] != ""
    (member,) = groups.group().members.values()
    # Version 0 knows no other limit than the session's.
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 60_000)


def test_an_id_that_is_not_used_is_forgotten_when_its_session_ends(groups: DrivenGroups) -> None:
    member_id = groups.register(session_timeout_ms=10_000)
    groups.advance(9_999)
    assert groups.group().pending_joins == {member_id}
    groups.advance(1)
    assert groups.group().pending_joins == frozenset()
    assert groups.join(member_id)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_those_who_were_given_an_id(groups: DrivenGroups) -> None:
    (leader,) = groups.rebalance(new=1)
    pending = groups.register()
    groups.send_join(leader)
    assert groups.group().state is GroupState.PREPARING
    groups.send_join(pending)
    assert groups.group().state is GroupState.COMPLETING
    assert list(groups.group().members) == [leader, pending]


def test_a_rebalance_goes_on_when_the_last_it_waits_for_gives_up(groups: DrivenGroups) -> None:
    (leader,) = groups.rebalance(new=1)
    pending = groups.register(session_timeout_ms=6_000)
    ticket = groups.send_join(leader)
    groups.advance(6_000)
    assert groups.answers[ticket]["generation_id"] == 2
    assert pending not in groups.group().members


def test_an_unknown_group_or_id_is_an_unknown_member(groups: DrivenGroups) -> None:
    assert groups.join("made-up")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.coordinator.group(GROUP) is None
    groups.rebalance(new=1)
    response = groups.join("made-up")
    assert (response["error_code"], response["member_id"]) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")
    assert groups.group().state is GroupState.STABLE


def test_an_empty_group_id_is_invalid(groups: DrivenGroups) -> None:
    assert groups.join(group_id="")["error_code"] == ErrorCode.INVALID_GROUP_ID
    assert groups.log == []


@pytest.mark.parametrize("version", [0, 9])
@pytest.mark.parametrize(
    ("timeout_ms", "is_valid"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_a_session_timeout_has_limits(groups: DrivenGroups, timeout_ms: int, is_valid: bool, version: int) -> None:
    code = groups.join(session_timeout_ms=timeout_ms, version=version)["error_code"]
    assert (code == ErrorCode.INVALID_SESSION_TIMEOUT) is not is_valid
    assert bool(groups.log) is is_valid


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", {"range": b""}), ("consumer", {})],
)
def test_who_speaks_nothing_founds_no_group(
    groups: DrivenGroups, protocol_type: str, protocols: dict[str, bytes]
) -> None:
    response = groups.join(protocol_type=protocol_type, protocols=protocols)
    assert response["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert groups.coordinator.group(GROUP) is None
    assert groups.log == []


def test_who_shares_no_protocol_with_everybody_stays_out(groups: DrivenGroups) -> None:
    ids = groups.rebalance(new=2, protocols={"range": b"", "roundrobin": b""})
    for protocol_type, protocols in (("connect", {"range": b""}), ("consumer", {"sticky": b""}), ("consumer", {})):
        response = groups.join(protocol_type=protocol_type, protocols=protocols)
        assert response["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        response = groups.join(ids[1], protocol_type=protocol_type, protocols=protocols)
        assert response["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert response["member_id"] == ids[1]
    assert groups.group().state is GroupState.STABLE


def test_an_empty_group_may_begin_again_with_another_type(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.leave((member_id, None))
    groups.rebalance(new=1, protocol_type="connect", protocols={"default": b""})
    assert groups.group().protocol_type == "connect"


def test_the_protocol_with_the_most_votes_wins(groups: DrivenGroups) -> None:
    first, second, third = groups.register(), groups.register(), groups.register()
    with groups.held():
        groups.send_join(first, protocols={"range": b"1", "sticky": b"", "old": b""})
        groups.send_join(second, protocols={"sticky": b"", "range": b"2"})
        groups.send_join(third, protocols={"new": b"", "sticky": b"", "range": b"3"})
    assert groups.group().protocol_name == "sticky"


def test_of_equal_votes_the_first_member_decides(groups: DrivenGroups) -> None:
    first, second = groups.register(), groups.register()
    with groups.held():
        groups.send_join(first, protocols={"range": b"1", "sticky": b"2"})
        ticket = groups.send_join(second, protocols={"sticky": b"3", "range": b"4"})
    assert groups.group().protocol_name == "range"
    assert groups.answers[ticket]["protocol_name"] == "range"


def test_a_protocol_named_twice_counts_once(groups: DrivenGroups) -> None:
    first, second = groups.register(), groups.register()
    with groups.held():
        leads = groups.send_join(first, protocols=[("range", b"said first"), ("range", b"said again"), ("sticky", b"")])
        groups.send_join(second, protocols={"sticky": b"", "range": b""})
    assert groups.answers[leads]["protocol_name"] == "range"
    assert groups.answers[leads]["members"][0]["metadata"] == b"said first"


def test_only_the_leader_hears_what_the_others_want(groups: DrivenGroups) -> None:
    first, second = groups.register(), groups.register()
    with groups.held():
        leads = groups.send_join(first, protocols={"range": b"1"})
        follows = groups.send_join(second, protocols={"range": b"2"})
    assert [item["metadata"] for item in groups.answers[leads]["members"]] == [b"1", b"2"]
    assert groups.answers[follows]["members"] == []
    assert groups.answers[follows]["leader"] == first


def test_a_new_group_waits_for_more_members_as_long_as_more_come() -> None:
    groups = DrivenGroups(GroupSettings(initial_rebalance_delay_ms=3_000))
    tickets = [groups.send_join(groups.register(), rebalance_timeout_ms=10_000)]
    groups.advance(2_000)
    tickets.append(groups.send_join(groups.register(), rebalance_timeout_ms=10_000))
    groups.advance(1_000)  # Somebody came: three more seconds.
    groups.advance(2_999)
    assert groups.waiting == set(tickets)
    groups.advance(1)
    assert groups.waiting == set()
    assert {groups.answers[ticket]["generation_id"] for ticket in tickets} == {1}


def test_a_new_group_does_not_wait_for_more_than_the_rebalance_timeout() -> None:
    groups = DrivenGroups(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = groups.send_join(groups.register(), rebalance_timeout_ms=7_000, session_timeout_ms=30_000)
    waited_ms = 0
    while first in groups.waiting:
        groups.send_join(groups.register(session_timeout_ms=30_000), session_timeout_ms=30_000)
        groups.advance(500)
        waited_ms += 500
    assert 7_000 <= waited_ms <= 10_000


def test_a_follower_that_joins_again_unchanged_disturbs_nobody(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    response = groups.join(follower)
    assert (response["error_code"], response["generation_id"], response["leader"]) == (0, 1, leader)
    assert response["members"] == []
    assert groups.group().state is GroupState.STABLE


def test_a_member_whose_answer_was_lost_hears_it_again_while_the_leader_assigns(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    with groups.held():
        groups.send_join(leader)
        groups.send_join(follower)
    assert groups.join(follower)["generation_id"] == 2
    assert len(groups.join(leader)["members"]) == 2
    assert groups.group().state is GroupState.COMPLETING


def test_a_follower_that_wants_something_else_causes_a_rebalance(groups: DrivenGroups) -> None:
    _, follower = groups.rebalance(new=2)
    ticket = groups.send_join(follower, protocols={"range": subscription("other")})
    assert ticket in groups.waiting
    assert groups.group().state is GroupState.PREPARING


def test_cooperative_members_give_up_partitions_by_joining_again(groups: DrivenGroups) -> None:
    """What they own is in what they say; nothing else is special about the cooperative protocol."""
    one = groups.rebalance(new=1, protocols={"cooperative-sticky": subscription(TOPIC, user_data=b"owns 0 1")})
    new = groups.register(protocols={"cooperative-sticky": subscription(TOPIC)})
    groups.send_join(new, protocols={"cooperative-sticky": subscription(TOPIC)})
    assert groups.heartbeat(one[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    kept = groups.join(one[0], protocols={"cooperative-sticky": subscription(TOPIC, user_data=b"owns 0 1")})
    groups.send_sync(new, 2)
    groups.send_sync(one[0], 2, {one[0]: b"0"})
    assert kept["generation_id"] == 2
    # It has revoked what it had to, and says so: the next generation hands that out.
    given_up = groups.send_join(one[0], protocols={"cooperative-sticky": subscription(TOPIC, user_data=b"owns 0")})
    assert groups.heartbeat(new, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    groups.send_join(new, protocols={"cooperative-sticky": subscription(TOPIC)})
    assert groups.answers[given_up]["generation_id"] == 3


def test_a_leader_that_joins_again_always_causes_a_rebalance(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    ticket = groups.send_join(leader)
    assert groups.group().state is GroupState.PREPARING
    groups.send_join(follower)
    assert groups.answers[ticket]["generation_id"] == 2


def test_a_change_while_the_leader_assigns_sends_everybody_back(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    with groups.held():
        groups.send_join(leader)
        groups.send_join(follower)
    waiting = groups.send_sync(follower, 2)
    new = groups.register()
    groups.send_join(new)
    assert groups.answers[waiting]["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.answers[waiting]["assignment"] == b""
    assert groups.group().state is GroupState.PREPARING
    # Of what had been given out in this generation or the last, nothing is valid.
    assert {member.assignment for member in groups.group().members.values()} == {b""}


def test_who_does_not_join_in_time_is_left_behind(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2, rebalance_timeout_ms=8_000, session_timeout_ms=60_000)
    ticket = groups.send_join(follower, protocols={"range": b"other"}, rebalance_timeout_ms=8_000)
    groups.advance(7_999)
    assert ticket in groups.waiting
    groups.advance(1)
    response = groups.answers[ticket]
    assert (response["generation_id"], response["leader"]) == (2, follower)
    assert leader not in groups.group().members
    assert groups.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_decides_how_long_is_waited(groups: DrivenGroups) -> None:
    first, second = groups.register(session_timeout_ms=60_000), groups.register(session_timeout_ms=60_000)
    with groups.held():
        groups.send_join(first, rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
        groups.send_join(second, rebalance_timeout_ms=20_000, session_timeout_ms=60_000)
    assert groups.group().rebalance_timeout_ms == 20_000


def test_a_new_member_is_not_waited_for_beyond_five_minutes(groups: DrivenGroups) -> None:
    (leader,) = groups.rebalance(new=1, rebalance_timeout_ms=600_000, session_timeout_ms=1_800_000)
    ticket = groups.send_join(groups.register(), rebalance_timeout_ms=600_000)
    groups.advance(299_999)
    assert ticket in groups.waiting
    groups.advance(1)
    assert groups.answers[ticket]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(groups.group().members) == [leader]


def test_a_join_sent_again_answers_the_first_and_waits_on(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    first = groups.send_join(follower, protocols={"range": b"x"})
    second = groups.send_join(follower, protocols={"range": b"x"})
    assert groups.answers[first]["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.answers[first]["member_id"] == follower
    groups.send_join(leader)
    assert groups.answers[second]["generation_id"] == 2


def test_a_full_group_takes_nobody_in() -> None:
    groups = DrivenGroups(AT_ONCE._replace(members_max=2))
    ids = groups.rebalance(new=2)
    for version in (3, 9):
        response = groups.join(version=version)
        assert (response["error_code"], response["member_id"]) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert groups.join(instance_id="still")["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.group().state is GroupState.STABLE
    assert groups.join(ids[1])["error_code"] == 0


def test_ids_are_given_out_only_so_many(groups: DrivenGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_PENDING_JOINS_MAX", 3)
    first, *_ = [groups.register() for _ in range(3)]
    assert groups.join()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.join(first)["error_code"] == 0
    groups.register()


def test_of_too_many_that_were_given_an_id_the_first_to_join_are_in() -> None:
    groups = DrivenGroups(AT_ONCE._replace(members_max=1))
    first, second = groups.register(), groups.register()
    with groups.held():
        groups.send_join(first)
        refused = groups.send_join(second)
    assert groups.answers[refused]["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(groups.group().members) == [first]
    assert groups.group().pending_joins == frozenset()


def test_a_lowered_limit_keeps_those_who_join_first() -> None:
    groups = DrivenGroups()
    first, second, third = groups.rebalance(new=3)
    groups.settings = AT_ONCE._replace(members_max=2)
    groups.restart()
    assert groups.group().state is GroupState.PREPARING
    with groups.held():
        tickets = [groups.send_join(member_id) for member_id in (third, second, first)]
    codes = [groups.answers[ticket]["error_code"] for ticket in tickets]
    assert codes == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert set(groups.group().members) == {second, third}


def test_a_name_as_long_as_the_wire_allows_does_no_harm(groups: DrivenGroups) -> None:
    member_id = groups.register(client_id="ü" * 16_000, group_id="g" * 10_000)
    assert groups.join(member_id, group_id="g" * 10_000, client_id="ü" * 16_000)["error_code"] == 0
    instance = "i" * 30_000
    static = groups.join(instance_id=instance, group_id="other")
    assert static["error_code"] == 0
    groups.send_sync(static["member_id"], 1, group_id="other", instance_id=instance)
    assert groups.replayed().group("other") is not None


def test_a_join_that_cannot_be_written_down_has_no_effect(groups: DrivenGroups) -> None:
    groups.disk_is_full = True
    assert groups.send_join() in groups.refused
    assert groups.coordinator.group(GROUP) is None
    groups.disk_is_full = False
    groups.rebalance(new=1)


def test_joining_writes_a_group_down_once_and_generations_when_they_are_complete(groups: DrivenGroups) -> None:
    member_id = groups.register()
    assert len(groups.log) == 1
    joined = groups.join(member_id)
    assert len(groups.log) == 1
    groups.send_sync(member_id, joined["generation_id"], {member_id: b"all"})
    assert len(groups.log) == 2


def test_a_decision_about_state_that_has_passed_is_not_enacted(groups: DrivenGroups) -> None:
    now = groups.now
    stale = groups.coordinator.decide_partitions_deleted([], now)
    groups.rebalance(new=1)
    with pytest.raises(AssertionError, match="enacted late"):
        groups.coordinator.enact(stale)


def test_groups_are_values(groups: DrivenGroups) -> None:
    groups.rebalance(new=2)
    before = groups.group()
    copied = replace(before)
    groups.rebalance(*before.members, new=1)
    assert before == copied
    assert groups.group() != before
