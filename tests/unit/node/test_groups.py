"""Groups on a node: asked through frames, kept in the log of `__consumer_offsets`, and found there again."""

import errno
from typing import Any

import pytest

from headrace.coordination.utf16 import offsets_partition
from headrace.errors import ErrorCode
from headrace.node.later import Later
from headrace.node.topics import OFFSETS_TOPIC
from headrace.sim.disk import Operation, Survival
from tests.unit.coordination.driven_groups import subscription
from tests.unit.node.driven_node import ENDPOINT, DrivenNode, Message

GROUP = "readers"
SESSION_MS = 10_000
AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@pytest.fixture
def driven() -> DrivenNode:
    return with_groups()


def with_groups(**settings: str) -> DrivenNode:
    driven = DrivenNode(settings=AT_ONCE | {name.replace("_", "."): value for name, value in settings.items()})
    driven.create("t", partitions=3)
    find(driven)
    return driven


def find(driven: DrivenNode, group: str = GROUP) -> Message:
    (found,) = driven.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])["coordinators"]
    return found


def send_join(driven: DrivenNode, member_id: str = "", *, group: str = GROUP, version: int = 3) -> Any:
    # Version 3 is the last that lets a member in without its coming twice.
    return driven.send(
        "JoinGroup",
        version,
        {
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("t")}],
        },
    )


def settle(driven: DrivenNode, *, group: str = GROUP, assignment: bytes = b"all") -> tuple[str, int]:
    """A group of one, complete; its member and generation."""
    joined = driven.receive("JoinGroup", 3, send_join(driven, group=group))
    assert joined["error_code"] == 0, joined
    member_id, generation = joined["member_id"], joined["generation_id"]
    synced = sync(driven, member_id, generation, group=group, assignment=assignment)
    assert synced["error_code"] == 0, synced
    return member_id, generation


def sync(
    driven: DrivenNode, member_id: str, generation: int, *, group: str = GROUP, assignment: bytes = b"all"
) -> Message:
    given = [{"member_id": member_id, "assignment": assignment}]
    body = {"group_id": group, "generation_id": generation, "member_id": member_id, "assignments": given}
    return driven.ask("SyncGroup", 3, **body)


def heartbeat(driven: DrivenNode, member_id: str, generation: int) -> int:
    code: int = driven.ask("Heartbeat", 4, group_id=GROUP, generation_id=generation, member_id=member_id)["error_code"]
    return code


def commit(
    driven: DrivenNode,
    offset: int,
    member_id: str = "",
    generation: int = -1,
    *,
    topic: str = "t",
    partitions: tuple[int, ...] = (0,),
    metadata: str = "",
) -> list[int]:
    """Their error codes."""
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata} for index in partitions
    ]
    answer = driven.ask(
        "OffsetCommit",
        9,
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[{"name": topic, "partitions": rows}],
    )
    return [row["error_code"] for told in answer["topics"] for row in told["partitions"]]


def committed(driven: DrivenNode, *partitions: int, topic: str = "t") -> list[int]:
    asked = {"group_id": GROUP, "topics": [{"name": topic, "partition_indexes": list(partitions or (0,))}]}
    (group,) = driven.ask("OffsetFetch", 8, groups=[asked])["groups"]
    assert group["error_code"] == 0, group
    return [row["committed_offset"] for row in group["topics"][0]["partitions"]]


def describe(driven: DrivenNode, group: str = GROUP) -> Message:
    (described,) = driven.ask("DescribeGroups", 5, groups=[group])["groups"]
    return described


def restart(driven: DrivenNode) -> None:
    driven.restart()
    load(driven)


def load(driven: DrivenNode) -> int:
    """Let the node read what its logs say of groups; in how many turns."""
    turns = 0
    while driven.node.groups.statistics().shards_loading:
        assert driven.world.step()
        turns += 1
    return turns


def allow_bytes(driven: DrivenNode, size: int) -> None:
    """No larger batch than that may be written into the log of groups."""
    config = {"name": "max.message.bytes", "config_operation": 0, "value": str(size)}
    topic = {"resource_type": 2, "resource_name": OFFSETS_TOPIC, "configs": [config]}
    (answer,) = driven.ask("IncrementalAlterConfigs", 1, resources=[topic])["responses"]
    assert answer["error_code"] == 0, answer


def wait(driven: DrivenNode, ms: int) -> None:
    driven.world.run_until(driven.world.mono_us() + ms * 1000)


class TestFinding:
    def test_the_node_itself_and_the_topic_is_there(self) -> None:
        driven = DrivenNode()
        found = find(driven)
        assert (found["error_code"], found["node_id"]) == (0, driven.node.id)
        assert (found["host"], found["port"]) == ENDPOINT
        topic = driven.node.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 50
        assert topic.config.cleanup_policy == ("compact",)
        assert topic.config.segment_bytes == 100 << 20

    def test_two_who_ask_at_once_have_it_made_once(self) -> None:
        driven = DrivenNode(settings=AT_ONCE)
        asked = [driven.send("FindCoordinator", 3, {"key": GROUP}) for _ in range(2)]
        assert [driven.receive("FindCoordinator", 3, one)["error_code"] for one in asked] == [0, 0]

    def test_other_kinds_of_coordinators_are_refused(self, driven: DrivenNode) -> None:
        codes = [driven.ask("FindCoordinator", 6, key_type=kind, coordinator_keys=["k"]) for kind in (1, 2, 9)]
        assert [one["coordinators"][0]["error_code"] for one in codes] == [
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]

    def test_without_the_topic_nobody_coordinates(self) -> None:
        driven = DrivenNode(settings=AT_ONCE)
        driven.create("t")
        assert commit(driven, 5) == [ErrorCode.NOT_COORDINATOR]
        assert describe(driven)["error_code"] == ErrorCode.NOT_COORDINATOR
        assert driven.ask("ListGroups", 5)["groups"] == []

    def test_clients_do_not_write_into_the_topic(self, driven: DrivenNode) -> None:
        records = b"\0" * 100
        data = [{"name": OFFSETS_TOPIC, "partition_data": [{"index": 0, "records": records}]}]
        answer = driven.ask("Produce", 9, acks=1, timeout_ms=1000, topic_data=data)
        row = answer["responses"][0]["partition_responses"][0]
        assert row["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION


class TestMembers:
    def test_a_life_in_a_group(self, driven: DrivenNode) -> None:
        member_id, generation = settle(driven)
        assert heartbeat(driven, member_id, generation) == 0
        assert commit(driven, 7, member_id, generation) == [0]
        assert committed(driven) == [7]
        described = describe(driven)
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        (member,) = described["members"]
        assert (member["client_id"], member["client_host"]) == ("test", "/127.0.0.1")
        assert member["member_assignment"] == b"all"
        (listed,) = driven.ask("ListGroups", 5)["groups"]
        assert (listed["group_id"], listed["group_state"]) == (GROUP, "Stable")
        leaving = [{"member_id": member_id, "group_instance_id": None}]
        (left,) = driven.ask("LeaveGroup", 5, group_id=GROUP, members=leaving)["members"]
        assert left["error_code"] == 0
        assert describe(driven)["group_state"] == "Empty"
        assert committed(driven) == [7]

    def test_the_first_waits_for_others(self) -> None:
        driven = with_groups(group_initial_rebalance_delay_ms="3000")
        first = send_join(driven)
        second = send_join(driven)
        assert isinstance(first, Later)
        began_us = driven.world.mono_us()
        joined = [driven.receive("JoinGroup", 3, one) for one in (first, second)]
        assert driven.world.mono_us() - began_us >= 3_000_000
        assert {one["generation_id"] for one in joined} == {1}
        assert len({one["member_id"] for one in joined}) == 2

    def test_one_who_is_not_heard_of_is_no_member_any_longer(self, driven: DrivenNode) -> None:
        member_id, generation = settle(driven)
        wait(driven, SESSION_MS - 1000)
        assert heartbeat(driven, member_id, generation) == 0
        wait(driven, SESSION_MS - 1000)
        assert heartbeat(driven, member_id, generation) == 0
        wait(driven, SESSION_MS + 1000)
        assert heartbeat(driven, member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID
        assert describe(driven)["group_state"] == "Empty"

    def test_groups_do_not_know_each_other(self, driven: DrivenNode) -> None:
        names = [f"group-{number}" for number in range(20)]
        members = {name: settle(driven, group=name) for name in names}
        assert len({offsets_partition(name, partitions=4) for name in names}) == 4
        assert len(set(members.values())) == 20
        listed = driven.ask("ListGroups", 5)["groups"]
        assert sorted(group["group_id"] for group in listed) == sorted(names)

    def test_who_waits_is_told_when_the_topic_goes(self, driven: DrivenNode) -> None:
        settle(driven)
        waiting = send_join(driven)  # The member who is there has to join again, and does not.
        driven.ask("DeleteTopics", 5, topic_names=[OFFSETS_TOPIC], timeout_ms=1000)
        assert driven.receive("JoinGroup", 3, waiting)["error_code"] == ErrorCode.NOT_COORDINATOR
        assert find(driven)["error_code"] == 0
        assert settle(driven)[1] == 1


class TestOffsets:
    def test_of_partitions_that_are_not_there(self, driven: DrivenNode) -> None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert commit(driven, 5, topic="nowhere") == [missing]
        assert sorted(commit(driven, 5, partitions=(0, 3, -1, 2))) == [0, 0, missing, missing]
        assert committed(driven, 0, 1, 2, 3) == [5, -1, 5, -1]

    def test_go_with_their_topic(self, driven: DrivenNode) -> None:
        driven.create("u")
        assert commit(driven, 5) + commit(driven, 6, topic="u") == [0, 0]
        driven.ask("DeleteTopics", 5, topic_names=["u"], timeout_ms=1000)
        driven.create("u")
        assert (committed(driven), committed(driven, topic="u")) == ([5], [-1])
        restart(driven)
        assert (committed(driven), committed(driven, topic="u")) == ([5], [-1])

    def test_expire(self) -> None:
        driven = with_groups(offsets_retention_minutes="60", offsets_retention_check_interval_ms="60000")
        assert commit(driven, 5) == [0]
        wait(driven, 50 * 60_000)
        assert committed(driven) == [5]
        wait(driven, 12 * 60_000)
        assert committed(driven) == [-1]
        assert driven.ask("ListGroups", 5)["groups"] == []

    def test_are_deleted_one_by_one_or_with_the_group(self, driven: DrivenNode) -> None:
        assert commit(driven, 5, partitions=(0, 1)) == [0, 0]
        rows = [{"partition_index": 0}]
        answer = driven.ask(
            "OffsetDelete",
            0,
            group_id=GROUP,
            topics=[{"name": "t", "partitions": rows}, {"name": "nowhere", "partitions": rows}],
        )
        told = {topic["name"]: topic["partitions"][0]["error_code"] for topic in answer["topics"]}
        assert told == {"t": 0, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert committed(driven, 0, 1) == [-1, 5]
        results = driven.ask("DeleteGroups", 2, groups_names=[GROUP, "nobody", GROUP])["results"]
        assert {one["group_id"]: one["error_code"] for one in results} == {
            GROUP: 0,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert committed(driven, 0, 1) == [-1, -1]

    def test_more_than_a_batch_holds(self, driven: DrivenNode) -> None:
        """Larger than max.message.bytes together: in several batches, and found again."""
        driven.create("wide", partitions=100)
        allow_bytes(driven, 100_000)
        assert set(commit(driven, 9, topic="wide", partitions=tuple(range(100)), metadata="x" * 4000)) == {0}
        restart(driven)
        assert set(committed(driven, *range(100), topic="wide")) == {9}


class TestTheLog:
    def test_a_restart_finds_groups_and_offsets(self, driven: DrivenNode) -> None:
        member_id, generation = settle(driven)
        assert commit(driven, 7, member_id, generation) == [0]
        before = describe(driven)
        restart(driven)
        assert describe(driven) == before
        assert heartbeat(driven, member_id, generation) == 0
        assert commit(driven, 8, member_id, generation) == [0]
        assert commit(driven, 9, member_id, generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
        assert committed(driven) == [8]

    def test_what_was_answered_survives_a_power_loss_where_that_was_asked_for(self) -> None:
        driven = with_groups(log_flush_interval_messages="1")
        member_id, generation = settle(driven)
        assert commit(driven, 7, member_id, generation) == [0]
        driven.crash(Survival.NOTHING)
        load(driven)
        assert committed(driven) == [7]
        assert heartbeat(driven, member_id, generation) == 0

    def test_while_it_is_read_the_coordinator_says_so(self, driven: DrivenNode) -> None:
        for offset in range(30):
            assert commit(driven, offset, metadata="x" * 4000) == [0]
        driven.restart()
        assert driven.ask("ListGroups", 5)["error_code"] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert commit(driven, 30) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        load(driven)
        assert committed(driven) == [29]

    def test_a_long_one_is_read_in_turns(self, driven: DrivenNode) -> None:
        for offset in range(200):
            assert commit(driven, offset, metadata="x" * 4000) == [0]
        driven.restart()
        assert load(driven) >= 3
        assert committed(driven) == [199]

    def test_what_cannot_be_read_is_left_out_and_told(self, driven: DrivenNode) -> None:
        from headrace.protocol.batch import parse_header
        from headrace.protocol.records import Record, encode_batch

        assert commit(driven, 7) == [0]
        topic = driven.node.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        partition = topic.partitions[offsets_partition(GROUP, partitions=4)]
        batch = bytearray(encode_batch([Record(b"\0\x63", b"from the future", (), driven.clock.wall_ms())]))
        partition.log.append(memoryview(batch), parse_header(batch), now_ms=0, leader_epoch=partition.leader_epoch)
        restart(driven)
        assert committed(driven) == [7]
        assert driven.node.groups.unread == 1
        assert any(event == "group record not read" for event, _ in driven.told.events)

    def test_a_full_disk_refuses_and_changes_nothing(self, driven: DrivenNode) -> None:
        assert commit(driven, 5) == [0]
        driven.disk.fail(Operation.APPEND, error=errno.ENOSPC)
        assert commit(driven, 6) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert committed(driven) == [5]
        assert commit(driven, 7) == [0]
        assert committed(driven) == [7]

    def test_a_record_too_large_for_the_topic_is_refused(self, driven: DrivenNode) -> None:
        joined = driven.receive("JoinGroup", 3, send_join(driven))
        allow_bytes(driven, 100_000)
        answer = sync(driven, joined["member_id"], joined["generation_id"], assignment=bytes(100_000))
        assert answer["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert commit(driven, 5) == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_a_failed_sync_is_never_answered_as_done(self) -> None:
        driven = with_groups(log_flush_interval_messages="1")
        driven.disk.fail(Operation.SYNC, error=errno.EIO)
        assert commit(driven, 5) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
