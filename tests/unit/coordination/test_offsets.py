"""OffsetCommit, OffsetFetch, OffsetDelete, expiry and DeleteGroups, rule by rule."""

from typing import Any

import pytest

from headrace.coordination import answers
from headrace.coordination.group import GroupState
from headrace.coordination.records import GroupForgotten, OffsetForgotten
from headrace.errors import ErrorCode
from headrace.ids import TopicId, TopicName, TopicPartition
from headrace.protocol.messages import offset_commit, offset_fetch
from headrace.protocol.schema import Value
from tests.unit.coordination.driven_groups import AT_ONCE, GROUP, TOPIC, DrivenGroups, subscription

DAY_MS = 24 * 3600 * 1000
CHECK_MS = AT_ONCE.offsets_retention_check_ms


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


# Committing


def test_a_member_commits_in_its_generation(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    assert groups.commit(leader, 1, 70, partition=0) == 0
    assert groups.commit(follower, 1, 80, partition=1) == 0
    assert (groups.offset(partition=0), groups.offset(partition=1), groups.offset(partition=2)) == (70, 80, -1)


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_a_commit_of_another_generation_is_illegal(groups: DrivenGroups, generation: int) -> None:
    (member_id,) = groups.rebalance(new=1)
    assert groups.commit(member_id, generation) == ErrorCode.ILLEGAL_GENERATION
    assert groups.offset() == -1


def test_a_former_owner_cannot_commit(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    groups.advance(5_000)
    groups.heartbeat(leader, 1)
    groups.advance(5_000)  # The follower paused for too long, and what it owned goes to the leader.
    groups.rebalance(leader)
    assert groups.commit(leader, 2, 100) == 0
    assert groups.commit(follower, 1, 50) == ErrorCode.UNKNOWN_MEMBER_ID
    groups.rebalance(leader, new=1)
    assert groups.commit(leader, 2, 60) == ErrorCode.ILLEGAL_GENERATION
    assert groups.offset() == 100


def test_before_it_joins_again_a_member_may_commit_what_it_did(groups: DrivenGroups) -> None:
    leader, follower = groups.rebalance(new=2)
    groups.send_join(leader)
    assert groups.group().state is GroupState.PREPARING
    assert groups.commit(follower, 1) == 0


def test_while_the_leader_assigns_nobody_knows_what_to_commit(groups: DrivenGroups) -> None:
    member_id = groups.register()
    groups.join(member_id)
    assert groups.commit(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.commit(member_id, 0) == ErrorCode.ILLEGAL_GENERATION


def test_who_has_no_group_commits_to_one_without_members(groups: DrivenGroups) -> None:
    assert groups.commit() == 0
    assert groups.commit(group_id="") == 0  # As old clients did.
    assert groups.offset() == 7
    group = groups.group()
    assert (group.state, group.protocol_type, group.generation) == (GroupState.EMPTY, None, 0)


def test_who_has_no_group_does_not_commit_to_one_with_members(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    assert groups.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit("made-up", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.commit("", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    groups.leave((member_id, None))
    assert groups.commit() == 0


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there(groups: DrivenGroups, version: int, code: ErrorCode) -> None:
    assert groups.commit("m", 1, version=version) == code
    assert groups.coordinator.group(GROUP) is None


def test_a_generation_of_an_empty_group_is_an_unknown_member(groups: DrivenGroups) -> None:
    groups.commit()
    assert groups.commit("m", 0) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_a_member(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    for _ in range(3):
        groups.advance(9_000)
        assert groups.commit(member_id, 1) == 0
    assert groups.group().state is GroupState.STABLE


def test_metadata_has_a_limit_for_each_partition(groups: DrivenGroups) -> None:
    assert groups.commit(metadata="m" * 4_096) == 0
    assert groups.commit(partition=1, metadata="m" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    # Counted as Java counts: this letter takes two.
    assert groups.commit(partition=2, metadata="𝄞" * 2_048) == 0
    assert groups.commit(partition=3, metadata="𝄞" * 2_049) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert [groups.offset(partition=index) for index in range(4)] == [7, -1, 7, -1]


def test_what_is_too_large_founds_no_group(groups: DrivenGroups) -> None:
    assert groups.commit(metadata="m" * 5_000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert groups.coordinator.group(GROUP) is None


def test_a_commit_that_cannot_be_written_down_is_none(groups: DrivenGroups) -> None:
    groups.commit(offset=1)
    groups.disk_is_full = True
    request = {
        "group_id": GROUP,
        "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 2}]}],
    }
    ticket = groups.ask(offset_commit.API, 9, groups.coordinator.decide_commit, request)
    assert ticket in groups.refused
    assert groups.offset() == 1


def test_a_null_metadata_is_an_empty_one(groups: DrivenGroups) -> None:
    groups.commit(metadata=None)
    found = groups.coordinator.fetch_offsets({"group_id": GROUP, "topics": None})
    assert found["topics"][0]["partitions"][0]["metadata"] == ""


def test_offsets_survive_a_restart(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.commit(member_id, 1, 5)
    groups.commit(member_id, 1, 6)
    groups.commit(group_id="other", metadata="m")
    before = [groups.coordinator.fetch_offsets({"group_id": key, "topics": None}) for key in (GROUP, "other")]
    groups.restart()
    after = [groups.coordinator.fetch_offsets({"group_id": key, "topics": None}) for key in (GROUP, "other")]
    assert after == before
    assert groups.offset() == 6


# Fetching


def answered(groups: DrivenGroups, request: Value, version: int) -> Value:
    """As a handler would answer it."""
    api = offset_fetch.API
    request = api.request.decode(api.request.encode(request, version), version)
    found = [groups.coordinator.fetch_offsets(item) for item in answers.fetch_groups(request, version)]
    response = answers.fetched(request, found, version)
    return api.response.decode(api.response.encode(response, version), version)


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_is_asked_about_before_version_8(groups: DrivenGroups, version: int) -> None:
    groups.commit(version=6, metadata="m")
    request = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0, 1]}]}
    response = answered(groups, request, version)
    (topic,) = response["topics"]
    found, missing = topic["partitions"]
    assert (found["committed_offset"], found["metadata"], found["error_code"]) == (7, "m", 0)
    assert (missing["committed_offset"], missing["metadata"], missing["error_code"]) == (-1, "", 0)
    assert response["error_code"] == 0


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_are_asked_about_from_version_8(groups: DrivenGroups, version: int) -> None:
    groups.commit(offset=1)
    groups.commit(offset=2, group_id="other")
    request = {
        "groups": [
            {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
            {"group_id": "other", "topics": None},
            {"group_id": "nobody's", "topics": None},
        ]
    }
    first, second, third = answered(groups, request, version)["groups"]
    assert first["topics"][0]["partitions"][0]["committed_offset"] == 1
    assert second["topics"][0]["partitions"][0]["committed_offset"] == 2
    assert third["topics"] == []
    assert {first["error_code"], second["error_code"], third["error_code"]} == {0}


def test_an_unknown_group_has_no_offsets_and_no_error(groups: DrivenGroups) -> None:
    request = {"group_id": "nobody's", "topics": [{"name": TOPIC, "partition_indexes": [3]}]}
    (topic,) = answered(groups, request, 5)["topics"]
    (partition,) = topic["partitions"]
    assert (partition["partition_index"], partition["committed_offset"], partition["error_code"]) == (3, -1, 0)
    assert partition["committed_leader_epoch"] == -1


def test_a_leader_epoch_is_remembered(groups: DrivenGroups) -> None:
    item = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": 9}
    request = {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [item]}]}
    groups.ask(offset_commit.API, 6, groups.coordinator.decide_commit, request)
    groups.restart()
    found = groups.coordinator.fetch_offsets({"group_id": GROUP, "topics": None})
    assert found["topics"][0]["partitions"][0]["committed_leader_epoch"] == 9


def test_offsets_of_a_topic_that_was_deleted_are_not_those_of_its_namesake(groups: DrivenGroups) -> None:
    old, new = TopicId(b"o" * 16), TopicId(b"n" * 16)
    # A handler has found the name of the id by then.
    request = {
        "group_id": GROUP,
        "member_id": "",
        "generation_id_or_member_epoch": -1,
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [
            {
                "name": TOPIC,
                "topic_id": old,
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": 3,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    }
    ticket = groups.ask(
        offset_commit.API,
        10,
        lambda _, caller, now: groups.coordinator.decide_commit(request, caller, now),
        {"group_id": GROUP},
    )
    assert groups.answers[ticket]["topics"][0]["topic_id"] == old
    groups.restart()
    found = {
        topic_id: groups.coordinator.fetch_offsets(
            {"group_id": GROUP, "topics": [{"name": TOPIC, "topic_id": topic_id, "partition_indexes": [0]}]}
        )["topics"][0]
        for topic_id in (old, new, TopicId(bytes(16)))
    }
    assert {key: topic["partitions"][0]["committed_offset"] for key, topic in found.items()} == {
        old: 3,
        new: -1,
        bytes(16): 3,
    }
    assert {key: topic["topic_id"] for key, topic in found.items()} == {key: key for key in found}


@pytest.mark.parametrize("version", range(1, 10))
def test_a_refused_fetch_says_so_where_its_version_has_room(version: int) -> None:
    api = offset_fetch.API
    topics = [{"name": TOPIC, "partition_indexes": [4]}]
    request: Value = {"group_id": GROUP, "topics": topics} if version < 8 else {}
    if version >= 8:
        request = {"groups": [{"group_id": GROUP, "topics": topics}]}
    request = api.request.decode(api.request.encode(request, version), version)
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    found = [answers.fetch_refused(item, code) for item in answers.fetch_groups(request, version)]
    response = api.response.decode(api.response.encode(answers.fetched(request, found, version), version), version)
    if version == 1:
        (partition,) = response["topics"][0]["partitions"]
        assert (partition["partition_index"], partition["error_code"]) == (4, code)
        assert partition["committed_offset"] == -1
    elif version < 8:
        assert response["error_code"] == code
    else:
        assert [group["error_code"] for group in response["groups"]] == [code]


# Deleting


def test_offsets_of_topics_that_nobody_reads_are_deleted(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    for topic in (TOPIC, "other"):
        groups.commit(member_id, 1, topic=topic)
    response = groups.delete_offsets(0)
    assert response["topics"][0]["partitions"] == [
        {"partition_index": 0, "error_code": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    ]
    response = groups.delete_offsets(0, 1, topic="other")
    assert [item["error_code"] for item in response["topics"][0]["partitions"]] == [0, 0]
    assert (groups.offset(), groups.offset(topic="other")) == (7, -1)
    assert groups.records()[-1] == OffsetForgotten(GROUP, "other", 0)
    assert groups.delete_offsets(0, topic="other")["error_code"] == 0
    assert groups.records().count(OffsetForgotten(GROUP, "other", 0)) == 1


def test_what_cannot_be_understood_is_taken_to_read_everything(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1, protocols={"range": b"\x00\x00\x00"})
    groups.commit(member_id, 1)
    assert groups.group().topics is None
    told = groups.delete_offsets(0)["topics"][0]["partitions"]
    assert [item["error_code"] for item in told] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_offsets_of_an_empty_group_are_deleted(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.commit(member_id, 1)
    groups.leave((member_id, None))
    assert groups.delete_offsets(0)["topics"][0]["partitions"][0]["error_code"] == 0
    assert groups.offset() == -1


def test_offsets_of_members_that_are_no_consumers_are_not_deleted(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1, protocol_type="connect", protocols={"default": b""})
    assert groups.delete_offsets(0)["error_code"] == ErrorCode.NON_EMPTY_GROUP
    groups.leave((member_id, None))
    assert groups.delete_offsets(0)["error_code"] == 0


def test_offsets_of_no_group_are_not_deleted(groups: DrivenGroups) -> None:
    assert groups.delete_offsets(0)["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.delete_offsets(0, group_id="")["error_code"] == ErrorCode.INVALID_GROUP_ID


def test_an_empty_group_is_deleted_with_its_offsets(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.commit(member_id, 1)
    assert groups.delete_group() == ErrorCode.NON_EMPTY_GROUP
    groups.leave((member_id, None))
    assert groups.delete_group() == 0
    assert groups.delete_group() == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups.records()[-2:] == [OffsetForgotten(GROUP, TOPIC, 0), GroupForgotten(GROUP)]
    assert groups.offset() == -1
    assert groups.replayed().list_groups() == []


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_a_group_that_rebalances_is_not_deleted(groups: DrivenGroups, state: GroupState) -> None:
    (leader,) = groups.rebalance(new=1)
    if state is GroupState.PREPARING:
        groups.send_join(groups.register())
    else:
        groups.send_join(leader)
    assert groups.group().state is state
    assert groups.delete_group() == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_deleted_partitions_are_forgotten(groups: DrivenGroups) -> None:
    groups.commit(partition=0)
    groups.commit(partition=1)
    groups.commit(group_id="other", partition=1)
    gone = {TopicPartition(TopicName(TOPIC), 1), TopicPartition(TopicName("nobody's"), 0)}
    groups.submit(groups.coordinator.decide_partitions_deleted(gone, groups.now))
    assert (groups.offset(partition=0), groups.offset(partition=1)) == (7, -1)
    assert groups.offset(group_id="other", partition=1) == -1
    groups.restart()
    assert groups.offset(partition=1) == -1


# Expiry


def stay(groups: DrivenGroups, member_id: str, *, days: int) -> None:
    for _ in range(days * 50):
        groups.advance(DAY_MS // 50)
        assert groups.heartbeat(member_id, 1) == 0


def test_a_group_that_is_empty_keeps_its_offsets_for_the_retention_time(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1, session_timeout_ms=1_800_000)
    groups.commit(member_id, 1)
    stay(groups, member_id, days=10)  # Silence on the topic does not matter.
    groups.leave((member_id, None))
    groups.advance(7 * DAY_MS - 1)
    assert groups.offset() == 7
    groups.advance(CHECK_MS)
    assert groups.offset() == -1
    assert groups.coordinator.group(GROUP) is None
    assert groups.records()[-2:] == [OffsetForgotten(GROUP, TOPIC, 0), GroupForgotten(GROUP)]


def test_a_consumer_without_a_group_keeps_each_offset_for_the_retention_time_after_its_commit(
    groups: DrivenGroups,
) -> None:
    groups.commit(partition=0)
    groups.advance(DAY_MS)
    groups.commit(partition=1)
    groups.advance(6 * DAY_MS + CHECK_MS)
    assert (groups.offset(partition=0), groups.offset(partition=1)) == (-1, 7)
    groups.advance(DAY_MS)
    assert groups.coordinator.group(GROUP) is None


def test_a_group_in_use_keeps_the_offsets_of_what_it_reads(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1, session_timeout_ms=1_800_000)
    for topic in (TOPIC, "other"):
        groups.commit(member_id, 1, topic=topic)
    stay(groups, member_id, days=8)
    assert (groups.offset(), groups.offset(topic="other")) == (7, -1)
    assert groups.group().state is GroupState.STABLE


def test_while_a_group_rebalances_nothing_expires() -> None:
    groups = DrivenGroups(AT_ONCE._replace(offsets_retention_ms=1_000, offsets_retention_check_ms=500))
    how: dict[str, Any] = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}
    (leader,) = groups.rebalance(new=1, **how)
    groups.commit(leader, 1, topic="other")
    groups.send_join(groups.register(**how), **how)
    groups.advance(10_000)
    assert groups.group().state is GroupState.PREPARING
    assert groups.offset(topic="other") == 7


def test_members_that_are_no_consumers_keep_everything(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(
        new=1, protocol_type="connect", protocols={"default": subscription()}, session_timeout_ms=1_800_000
    )
    groups.commit(member_id, 1)
    stay(groups, member_id, days=8)
    assert groups.offset() == 7


@pytest.mark.parametrize("version", [2, 4])
def test_a_commit_may_bring_its_own_time_to_live(groups: DrivenGroups, version: int) -> None:
    assert groups.commit(version=version, retention_time_ms=DAY_MS) == 0
    assert groups.commit(version=version, partition=1, retention_time_ms=2**63 - 1) == 0
    groups.restart()
    groups.advance(DAY_MS + CHECK_MS)
    assert (groups.offset(partition=0), groups.offset(partition=1)) == (-1, 7)


def test_a_group_without_anything_is_forgotten_at_the_next_look(groups: DrivenGroups) -> None:
    (member_id,) = groups.rebalance(new=1)
    groups.leave((member_id, None))
    groups.advance(CHECK_MS)
    assert groups.coordinator.group(GROUP) is None
    assert groups.replayed().list_groups() == []


def test_a_group_that_somebody_is_about_to_join_is_not_forgotten() -> None:
    groups = DrivenGroups(AT_ONCE._replace(offsets_retention_check_ms=1_000))
    member_id = groups.register()
    groups.advance(5_000)
    assert groups.join(member_id)["error_code"] == 0


def test_a_group_without_a_name_expires_like_any_other(groups: DrivenGroups) -> None:
    groups.commit(group_id="")
    groups.advance(7 * DAY_MS + CHECK_MS)
    assert groups.offset(group_id="") == -1
    assert groups.coordinator.group("") is None


def test_the_wall_clock_decides_what_has_expired(groups: DrivenGroups) -> None:
    groups.commit()
    groups.wall_ms += 8 * DAY_MS
    groups.advance(CHECK_MS)
    assert groups.offset() == -1
