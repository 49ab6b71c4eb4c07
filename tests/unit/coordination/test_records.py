"""What is no record of ours, or is damaged, costs itself. Bytes are compared with Kafka's in tests/golden."""

import pytest

from headrace.coordination.group import GroupState
from headrace.coordination.records import (
    CommittedOffset,
    GroupStored,
    OffsetCommitted,
    StoredMember,
    Unread,
    encode_record,
    parse_record,
)
from headrace.coordination.storing import restored, stored
from headrace.coordination.subscriptions import subscribed_topics
from tests.unit.coordination.driven_groups import DrivenGroups, subscription

MEMBER = StoredMember(
    member_id="m",
    instance_id=None,
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=2,
    session_timeout_ms=1,
    subscription=b"s",
    assignment=b"a",
)
GROUP = GroupStored(
    group_id="g",
    protocol_type="consumer",
    generation=4,
    protocol_name="range",
    leader_id="m",
    state_since_ms=9,
    members=(MEMBER,),
)
OFFSET = OffsetCommitted("g", "t", 3, CommittedOffset(offset=1, commit_ms=2, metadata="x"))


@pytest.mark.parametrize("record", [GROUP, OFFSET], ids=["group", "offset"])
def test_a_record_that_is_cut_short_anywhere_is_kept_aside(record: GroupStored | OffsetCommitted) -> None:
    key, value = encode_record(record)
    assert value is not None
    assert parse_record(key, value) == record
    for size in range(len(value)):
        assert isinstance(parse_record(key, value[:size]), Unread)
    for size in range(len(key)):
        assert isinstance(parse_record(key[:size], value), Unread)


@pytest.mark.parametrize("record", [GROUP, OFFSET], ids=["group", "offset"])
def test_what_follows_a_record_is_ignored(record: GroupStored | OffsetCommitted) -> None:
    key, value = encode_record(record)
    assert value is not None
    assert parse_record(key, value + b"later") == record


@pytest.mark.parametrize("version", [5, -1, 0x7FFF])
def test_versions_to_come_are_kept_aside(version: int) -> None:
    for record in (GROUP, OFFSET):
        key, value = encode_record(record)
        assert value is not None
        assert isinstance(parse_record(key, version.to_bytes(2, "big", signed=True) + value[2:]), Unread)


@pytest.mark.parametrize("kind", [-1, 3, 5, 17, 0x7FFF])
def test_types_to_come_are_kept_aside(kind: int) -> None:
    key = kind.to_bytes(2, "big", signed=True) + b"\x00\x01g"
    assert parse_record(key, None) == Unread(key, None, f"type {kind} is not known")


def test_a_record_without_a_key_is_kept_aside() -> None:
    assert isinstance(parse_record(None, b"value"), Unread)


def test_members_without_a_protocol_are_kept_aside() -> None:
    for protocol_type, protocol_name in (("consumer", None), (None, "range")):
        record = GroupStored(
            group_id="g",
            protocol_type=protocol_type,
            generation=4,
            protocol_name=protocol_name,
            leader_id="m",
            state_since_ms=9,
            members=(MEMBER,),
        )
        assert isinstance(parse_record(*encode_record(record)), Unread)


def test_a_group_is_restored_as_it_was_stored() -> None:
    group = restored(GROUP)
    assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 4, "m")
    assert stored(group) == GROUP


def test_a_leader_that_is_no_member_is_replaced() -> None:
    lost = GroupStored(
        group_id="g",
        protocol_type="consumer",
        generation=4,
        protocol_name="range",
        leader_id="gone",
        state_since_ms=9,
        members=(MEMBER,),
    )
    assert restored(lost).leader_id == "m"


def test_a_later_record_of_a_group_replaces_an_earlier_one() -> None:
    groups = DrivenGroups()
    groups.rebalance(new=2)
    groups.rebalance(*groups.group().members, new=1)
    groups.restart()
    assert len(groups.group().members) == 3
    assert groups.group().generation == 2


def test_subscriptions_are_read_or_nobody_knows() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "c", user_data=b"x")]) == frozenset("abc")
    assert subscribed_topics([subscription()]) == frozenset()
    whole = subscription("topic")
    for size in range(len(whole)):
        assert subscribed_topics([subscription("a"), whole[:size]]) is None
    assert subscribed_topics([b"\xff\xff" + whole[2:]]) is None
