"""Static members: known by their instance id, back without a rebalance (KIP-345, KIP-814)."""

from typing import Any

import pytest

from headrace.coordination.group import GroupState
from headrace.errors import ErrorCode
from headrace.protocol.schema import Value
from tests.unit.coordination.driven_groups import TOPIC, DrivenGroups, subscription


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


def settle(groups: DrivenGroups, *instances: str, **how: Any) -> list[str]:
    """A stable group of these, the first leading; each is assigned the name of its instance."""
    with groups.held():
        tickets = [groups.send_join(instance_id=instance, **how) for instance in instances]
    joined = [groups.answers[ticket] for ticket in tickets]
    ids = [response["member_id"] for response in joined]
    generation = joined[0]["generation_id"]
    parts = dict(zip(ids, (instance.encode() for instance in instances), strict=True))
    for member_id, instance in zip(ids[1:], instances[1:], strict=True):
        groups.send_sync(member_id, generation, instance_id=instance)
    groups.send_sync(ids[0], generation, parts, instance_id=instances[0])
    assert groups.waiting == set()
    return ids


def sync(groups: DrivenGroups, member_id: str, instance: str, generation: int = 1) -> Value:
    return groups.answers[groups.send_sync(member_id, generation, instance_id=instance)]


def test_a_static_member_needs_no_second_asking(groups: DrivenGroups) -> None:
    joined = groups.join(instance_id="one")
    assert joined["error_code"] == 0
    assert joined["member_id"].startswith("one-")
    assert joined["members"][0]["group_instance_id"] == "one"


def test_a_follower_is_back_without_a_rebalance(groups: DrivenGroups) -> None:
    leader, follower = settle(groups, "one", "two")
    back = groups.join(instance_id="two")
    assert (back["error_code"], back["generation_id"], back["leader"]) == (0, 1, leader)
    assert back["member_id"] not in {leader, follower}
    assert back["members"] == []
    assert not back["skip_assignment"]
    assert sync(groups, back["member_id"], "two")["assignment"] == b"two"
    assert groups.heartbeat(leader, 1, instance_id="one") == 0
    assert groups.group().state is GroupState.STABLE


def test_a_leader_is_back_without_assigning_anew(groups: DrivenGroups) -> None:
    settle(groups, "one", "two")
    back = groups.join(instance_id="one")
    assert back["leader"] == back["member_id"] == groups.group().leader_id
    assert back["skip_assignment"]
    assert [item["group_instance_id"] for item in back["members"]] == ["one", "two"]
    assert sync(groups, back["member_id"], "one")["assignment"] == b"one"


@pytest.mark.parametrize("version", [5, 8])
def test_a_leader_too_old_to_skip_is_told_that_somebody_else_leads(groups: DrivenGroups, version: int) -> None:
    old_id, _ = settle(groups, "one", "two")
    back = groups.join(instance_id="one", version=version)
    assert back["leader"] == old_id != back["member_id"]
    assert back["members"] == []
    assert groups.group().leader_id == back["member_id"]


def test_whoever_uses_the_old_id_is_fenced(groups: DrivenGroups) -> None:
    _, old_id = settle(groups, "one", "two")
    groups.join(instance_id="two")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert groups.heartbeat(old_id, 1, instance_id="two") == fenced
    assert sync(groups, old_id, "two")["error_code"] == fenced
    assert groups.commit(old_id, 1, instance_id="two") == fenced
    assert groups.leave((old_id, "two")) == [fenced]
    for version in (5, 9):
        response = groups.join(old_id, instance_id="two", version=version)
        assert (response["error_code"], response["member_id"]) == (fenced, old_id)
    # Without its instance id it is nobody.
    assert groups.heartbeat(old_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_never_was_is_an_unknown_member(groups: DrivenGroups) -> None:
    leader, _ = settle(groups, "one", "two")
    assert groups.heartbeat(leader, 1, instance_id="three") == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.join(leader, instance_id="three")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_is_not_for_static_members(groups: DrivenGroups) -> None:
    pending = groups.register()
    assert groups.join(pending, instance_id="one")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.join(pending)["error_code"] == 0


def test_a_second_process_of_an_instance_takes_the_place_of_one_that_waits(groups: DrivenGroups) -> None:
    settle(groups, "one", "two")
    groups.join(instance_id="one")
    waits = groups.send_join(instance_id="three")
    again = groups.send_join(instance_id="three")
    assert groups.answers[waits]["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert again in groups.waiting


def test_an_instance_that_is_back_while_its_old_self_awaits_an_assignment_sends_everybody_back(
    groups: DrivenGroups,
) -> None:
    settle(groups, "one", "two")
    with groups.held():
        leader = groups.send_join(groups.group().leader_id or "", instance_id="one")
        follower = groups.send_join(list(groups.group().members)[1], instance_id="two")
    follower_id = groups.answers[follower]["member_id"]
    assert groups.answers[leader]["generation_id"] == 2
    waits = groups.send_sync(follower_id, 2, instance_id="two")
    back = groups.send_join(instance_id="two")
    assert groups.answers[waits]["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert groups.group().state is GroupState.PREPARING
    groups.send_join(groups.answers[leader]["member_id"], instance_id="one")
    assert groups.answers[back]["generation_id"] == 3


def test_a_change_of_protocol_is_a_rebalance(groups: DrivenGroups) -> None:
    both = {"range": subscription(TOPIC), "sticky": subscription(TOPIC)}
    settle(groups, "one", protocols=both)
    back = groups.send_join(instance_id="one", protocols={"sticky": subscription(TOPIC)})
    assert groups.answers[back]["generation_id"] == 2
    assert groups.answers[back]["protocol_name"] == "sticky"


def test_a_changed_subscription_alone_is_none_but_is_remembered(groups: DrivenGroups) -> None:
    """As in Kafka: whether a rebalance is due is for the leader to say."""
    settle(groups, "one", "two")
    back = groups.join(instance_id="two", protocols={"range": subscription("other")})
    assert (back["error_code"], back["generation_id"]) == (0, 1)
    assert groups.group().topics == frozenset({TOPIC, "other"})
    replayed = groups.replayed().group("group")
    assert replayed is not None
    assert replayed.topics == frozenset({TOPIC, "other"})


def test_the_new_id_is_durable(groups: DrivenGroups) -> None:
    settle(groups, "one", "two")
    back = groups.join(instance_id="two")
    groups.restart()
    assert groups.heartbeat(back["member_id"], 1, instance_id="two") == 0
    assert sync(groups, back["member_id"], "two")["assignment"] == b"two"


def test_a_return_that_cannot_be_written_down_changes_nothing(groups: DrivenGroups) -> None:
    _, follower = settle(groups, "one", "two")
    groups.disk_is_full = True
    assert groups.send_join(instance_id="two") in groups.refused
    assert groups.heartbeat(follower, 1, instance_id="two") == 0


def test_a_session_starts_anew_for_who_is_back(groups: DrivenGroups) -> None:
    settle(groups, "one")
    groups.advance(9_000)
    groups.join(instance_id="one")
    groups.advance(9_999)
    assert groups.group().state is GroupState.STABLE
    groups.advance(1)
    assert groups.group().state is GroupState.EMPTY


def test_one_who_is_back_before_it_synced_still_has_to(groups: DrivenGroups) -> None:
    with groups.held():
        tickets = [groups.send_join(instance_id=name, session_timeout_ms=300_000) for name in ("one", "two")]
    ids = [groups.answers[ticket]["member_id"] for ticket in tickets]
    groups.send_sync(ids[0], 1, dict.fromkeys(ids, b"x"), instance_id="one")
    back = groups.join(instance_id="two", session_timeout_ms=300_000)
    assert groups.group().pending_syncs == {back["member_id"]}
    groups.advance(60_000)
    assert list(groups.group().members) == [ids[0]]


def test_a_static_member_stays_through_a_rebalance_that_it_misses(groups: DrivenGroups) -> None:
    one, two = settle(groups, "one", "two", session_timeout_ms=120_000, rebalance_timeout_ms=20_000)
    leads = groups.send_join(one, instance_id="one", session_timeout_ms=120_000, rebalance_timeout_ms=20_000)
    groups.advance(20_000)
    assert groups.answers[leads]["generation_id"] == 2
    assert [item["group_instance_id"] for item in groups.answers[leads]["members"]] == ["one", "two"]
    assert two in groups.group().members


def test_a_static_leader_that_misses_a_rebalance_leads_no_longer(groups: DrivenGroups) -> None:
    _, two = settle(groups, "one", "two", session_timeout_ms=120_000, rebalance_timeout_ms=20_000)
    ticket = groups.send_join(
        two,
        instance_id="two",
        protocols={"range": b"other"},
        session_timeout_ms=120_000,
        rebalance_timeout_ms=20_000,
    )
    groups.advance(20_000)
    assert groups.answers[ticket]["leader"] == two


def test_if_no_static_member_joins_again_their_sessions_decide(groups: DrivenGroups) -> None:
    settle(groups, "one", "two", session_timeout_ms=30_000)
    # A member may claim to need no time at all; that must not keep the coordinator busy.
    groups.join(instance_id="one", session_timeout_ms=30_000, rebalance_timeout_ms=0)
    assert groups.leave(("", "two")) == [0]
    assert groups.group().state is GroupState.PREPARING
    groups.advance(29_999)
    assert list(groups.group().members) == [groups.group().leader_id]
    groups.advance(1)
    assert groups.group().state is GroupState.EMPTY


def test_an_administrator_removes_an_instance_without_knowing_its_id(groups: DrivenGroups) -> None:
    one, two = settle(groups, "one", "two")
    codes = groups.leave(("", "two"), ("", "three"), ("", None), (one, "two"))
    assert codes == [0, *[ErrorCode.UNKNOWN_MEMBER_ID] * 3]
    assert two not in groups.group().members
    assert groups.group().state is GroupState.PREPARING
