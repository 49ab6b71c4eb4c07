"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and InitProducerId."""

from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.node.node import PRODUCER_ID_BLOCK
from headrace.protocol.records import Record, encode_batch
from headrace.sim.disk import Operation, Survival
from tests.unit.node.driven_node import TIMESTAMP_MS, DrivenNode, Message

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
NOT_FOUND = (-1, -1, -1)


def listed(
    node: DrivenNode, *timestamps: int, partition: int = 0, version: int = 11, topic: str = "there", **more: Any
) -> list[Message]:
    epoch = {"current_leader_epoch": more.pop("epoch")} if "epoch" in more else {}
    asked = [{"partition_index": partition, "timestamp": one, **epoch} for one in timestamps]
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}], **more}
    answer = node.ask("ListOffsets", version, **body)
    partitions: list[Message] = [one for topic in answer["topics"] for one in topic["partitions"]]
    return partitions


def found(node: DrivenNode, timestamp: int, **more: Any) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch of a lookup that succeeds."""
    (one,) = listed(node, timestamp, **more)
    assert one["error_code"] == 0, one
    return one["timestamp"], one["offset"], one["leader_epoch"]


def error_of(node: DrivenNode, timestamp: int, **more: Any) -> int:
    (one,) = listed(node, timestamp, **more)
    assert (one["timestamp"], one["offset"], one["leader_epoch"]) == NOT_FOUND
    code: int = one["error_code"]
    return code


@pytest.fixture
def filled() -> DrivenNode:
    """Offsets 0 to 4 in two batches, with timestamps out of order; a second partition with nothing."""
    node = DrivenNode()
    node.create("there", partitions=2)
    node.produce("there", 0, 5, 3)
    node.produce("there", 9, 1)
    return node


class TestListOffsets:
    def test_both_ends(self, filled: DrivenNode) -> None:
        assert found(filled, LATEST) == (-1, 5, 0)
        assert found(filled, EARLIEST) == (-1, 0, 0)
        assert found(filled, EARLIEST_LOCAL) == (-1, 0, 0)
        for end in (LATEST, EARLIEST, EARLIEST_LOCAL):
            assert found(filled, end, partition=1) == (-1, 0, 0)

    @pytest.mark.parametrize(
        ("after_ms", "expected"),
        [
            (-1, (0, 0)),
            (0, (0, 0)),
            (1, (5, 1)),
            (5, (5, 1)),
            (6, (9, 3)),
            (9, (9, 3)),
        ],
    )
    def test_by_time(self, filled: DrivenNode, after_ms: int, expected: tuple[int, int]) -> None:
        timestamp, offset, epoch = found(filled, TIMESTAMP_MS + after_ms)
        assert (timestamp - TIMESTAMP_MS, offset, epoch) == (*expected, 0)

    def test_no_record_is_that_young(self, filled: DrivenNode) -> None:
        assert found(filled, TIMESTAMP_MS + 10) == NOT_FOUND
        assert found(filled, TIMESTAMP_MS, partition=1) == NOT_FOUND

    def test_the_record_of_the_highest_timestamp(self, filled: DrivenNode) -> None:
        assert found(filled, MAX_TIMESTAMP) == (TIMESTAMP_MS + 9, 3, 0)
        assert found(filled, MAX_TIMESTAMP, partition=1) == NOT_FOUND

    def test_nothing_is_in_remote_storage(self, filled: DrivenNode) -> None:
        assert found(filled, LATEST_TIERED) == NOT_FOUND
        assert found(filled, EARLIEST_PENDING_UPLOAD) == NOT_FOUND

    @pytest.mark.parametrize(
        ("timestamp", "since"),
        [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11), (-7, 12)],
    )
    def test_special_timestamps_mean_nothing_to_older_versions(
        self, filled: DrivenNode, timestamp: int, since: int
    ) -> None:
        for version in range(1, 12):
            code = listed(filled, timestamp, version=version)[0]["error_code"]
            assert code == (ErrorCode.UNSUPPORTED_VERSION if version < since else 0), version

    @pytest.mark.parametrize("isolation_level", [0, 1])
    def test_without_transactions_everything_visible_is_stable(self, filled: DrivenNode, isolation_level: int) -> None:
        assert found(filled, LATEST, isolation_level=isolation_level) == (-1, 5, 0)

    def test_an_isolation_level_that_does_not_exist(self, filled: DrivenNode) -> None:
        assert error_of(filled, LATEST, isolation_level=2) == ErrorCode.INVALID_REQUEST

    def test_what_is_not_there(self, filled: DrivenNode) -> None:
        for more in ({"topic": "nowhere"}, {"partition": 2}, {"partition": -1}, {"topic": "a b"}):
            assert error_of(filled, LATEST, **more) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_client_of_another_epoch_is_fenced(self, filled: DrivenNode) -> None:
        filled.crash(Survival.EVERYTHING)
        assert found(filled, LATEST, epoch=1) == (-1, 5, 1)
        assert found(filled, LATEST, epoch=-1) == (-1, 5, 1)
        assert error_of(filled, LATEST, epoch=0) == ErrorCode.FENCED_LEADER_EPOCH
        assert error_of(filled, LATEST, epoch=-2) == ErrorCode.FENCED_LEADER_EPOCH
        assert error_of(filled, LATEST, epoch=2) == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_epochs_are_those_of_the_records(self, filled: DrivenNode) -> None:
        filled.crash(Survival.EVERYTHING)
        filled.produce("there", 20)
        assert found(filled, EARLIEST)[2] == 0
        assert found(filled, TIMESTAMP_MS)[2] == 0
        assert found(filled, MAX_TIMESTAMP) == (TIMESTAMP_MS + 20, 5, 1)

    def test_a_partition_twice_is_refused_and_told_once(self, filled: DrivenNode) -> None:
        (one,) = listed(filled, LATEST, EARLIEST)
        assert (one["partition_index"], one["error_code"]) == (0, ErrorCode.INVALID_REQUEST)

    def test_a_topic_twice_is_told_once(self, filled: DrivenNode) -> None:
        topics = [
            {"name": "there", "partitions": [{"partition_index": index, "timestamp": LATEST}]} for index in (0, 1)
        ]
        (topic,) = filled.ask("ListOffsets", 7, replica_id=-1, topics=topics)["topics"]
        assert [(one["partition_index"], one["offset"]) for one in topic["partitions"]] == [(0, 5), (1, 0)]

    def test_consumers_do_not_see_what_is_not_flushed(self) -> None:
        node = DrivenNode()
        node.create("there", flush_before_expose="true")
        topic = node.node.topics.named("there")
        assert topic is not None
        node.produce("there", 0, 1)
        log = topic.partitions[0].log
        assert (log.high_watermark, log.end_offset) == (0, 2)
        assert found(node, LATEST)[1] == 0
        assert found(node, LATEST, replica_id=0)[1] == 2
        assert found(node, TIMESTAMP_MS) == NOT_FOUND
        assert found(node, MAX_TIMESTAMP) == NOT_FOUND
        node.world.run_until_true(lambda: log.high_watermark == 2)
        assert found(node, LATEST)[1] == 2
        assert found(node, MAX_TIMESTAMP)[1] == 1

    def test_an_offline_log(self, filled: DrivenNode) -> None:
        filled.disk.fail(Operation.APPEND, path_end=".log")
        with pytest.raises(AssertionError):
            filled.produce("there", 0)
        for timestamp in (LATEST, EARLIEST, TIMESTAMP_MS):
            assert error_of(filled, timestamp) == ErrorCode.KAFKA_STORAGE_ERROR


def cut(node: DrivenNode, *offsets: tuple[int, int], topic: str = "there") -> list[tuple[int, int, int]]:
    partitions = [{"partition_index": index, "offset": offset} for index, offset in offsets]
    answer = node.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": partitions}])
    return [
        (one["partition_index"], one["low_watermark"], one["error_code"])
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]


class TestDeleteRecords:
    def test_up_to_an_offset(self, filled: DrivenNode) -> None:
        assert cut(filled, (0, 2)) == [(0, 2, 0)]
        assert found(filled, EARLIEST)[1] == 2
        assert found(filled, TIMESTAMP_MS) == (TIMESTAMP_MS + 3, 2, 0)

    def test_up_to_the_high_watermark(self, filled: DrivenNode) -> None:
        assert cut(filled, (0, -1)) == [(0, 5, 0)]
        assert found(filled, EARLIEST)[1] == 5
        assert filled.produce("there", 0) == 5

    def test_never_backwards(self, filled: DrivenNode) -> None:
        assert cut(filled, (0, 3)) == [(0, 3, 0)]
        assert cut(filled, (0, 1)) == [(0, 3, 0)]

    def test_what_cannot_be_cut_fails_alone(self, filled: DrivenNode) -> None:
        assert cut(filled, (0, 6)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert cut(filled, (0, -2)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert cut(filled, (0, 1), (7, 0), (1, 0)) == [
            (0, 1, 0),
            (7, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (1, 0, 0),
        ]
        assert cut(filled, (0, 1), topic="nowhere") == [(0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]

    def test_a_partition_twice_is_cut_once(self, filled: DrivenNode) -> None:
        assert cut(filled, (0, 4), (0, 2)) == [(0, 2, 0)]

    def test_a_compacted_topic_is_not_cut(self) -> None:
        node = DrivenNode()
        for policy, code in (("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", 0), ("delete", 0)):
            name = policy.replace(",", "-")
            node.create(name, cleanup_policy=policy)
            node.produce(name, 0)
            assert cut(node, (0, 1), topic=name)[0][2] == code

    @pytest.mark.parametrize("survival", Survival)
    def test_a_crash_does_not_bring_records_back(self, filled: DrivenNode, survival: Survival) -> None:
        filled.node.topics.partition("there", 0).log.flush_then(5, lambda error: None)
        filled.world.run_until(filled.world.mono_us() + 1_000_000)
        assert cut(filled, (0, 2)) == [(0, 2, 0)]
        filled.crash(survival)
        assert found(filled, EARLIEST)[1] == 2

    def test_whole_segments_leave_the_disk(self) -> None:
        node = DrivenNode()
        node.create("there", segment_bytes="1048576", file_delete_delay_ms="0")
        log = node.node.topics.partition("there", 0).log
        for _ in range(3):
            node.produce("there", 0)
            log.roll(now_ms=node.clock.wall_ms())
        assert len(log.segments) == 4
        assert cut(node, (0, 2)) == [(0, 2, 0)]
        assert [segment.base_offset for segment in log.segments] == [2, 3]
        node.world.run_until(node.world.mono_us() + 1_000_000)
        assert not any(name.startswith("00000000000000000000") for name in node.disk.list("there-0"))

    def test_a_start_that_cannot_be_written_down_is_not_answered_as_done(self, filled: DrivenNode) -> None:
        filled.disk.fail(Operation.SYNC, path_end="log-start-offset-checkpoint.tmp")
        assert cut(filled, (0, 2)) == [(0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]


class TestOffsetForLeaderEpoch:
    UNDEFINED = (0, -1, -1)

    def end_of(
        self, node: DrivenNode, epoch: int, *, version: int = 4, topic: str = "kept", **more: int
    ) -> tuple[int, int, int]:
        """Error, epoch and end offset."""
        asked = [{"partition": 0, "leader_epoch": epoch, **more}]
        answer = node.ask("OffsetForLeaderEpoch", version, topics=[{"topic": topic, "partitions": asked}])
        (one,) = answer["topics"][0]["partitions"]
        return one["error_code"], one["leader_epoch"], one["end_offset"]

    def test_an_epoch_ends_where_the_next_one_wrote(self) -> None:
        node = DrivenNode()
        node.create("kept")
        node.produce("kept", 0, 1, 2)
        node.crash(Survival.EVERYTHING)
        node.produce("kept", 3)
        node.crash(Survival.EVERYTHING)
        for version in (2, 3, 4):
            assert self.end_of(node, 0, version=version) == (0, 0, 3)
            assert self.end_of(node, 1, version=version) == (0, 1, 4)

    def test_the_present_epoch_ends_where_the_log_does_though_it_wrote_nothing(self) -> None:
        node = DrivenNode()
        node.create("kept")
        assert self.end_of(node, 0) == (0, 0, 0)
        node.produce("kept", 0, 1, 2)
        node.crash(Survival.EVERYTHING)
        assert self.end_of(node, 1) == (0, 1, 3)
        assert self.end_of(node, 0) == (0, 0, 3)

    def test_an_epoch_that_wrote_nothing_is_answered_with_the_one_before(self) -> None:
        """A consumer that began at the end of the log has such an epoch for its position."""
        node = DrivenNode()
        node.create("kept")
        node.produce("kept", 0, 1, 2)
        node.crash(Survival.EVERYTHING)
        node.crash(Survival.EVERYTHING)
        assert self.end_of(node, 1) == (0, 0, 3)
        node.produce("kept", 3)
        assert self.end_of(node, 1) == (0, 0, 3)

    def test_what_no_leader_knows(self) -> None:
        node = DrivenNode()
        node.create("kept")
        node.produce("kept", 0)
        assert self.end_of(node, 1) == self.UNDEFINED
        assert self.end_of(node, -1) == self.UNDEFINED
        assert self.end_of(node, 0, topic="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)

    def test_a_client_with_another_epoch_is_fenced(self) -> None:
        node = DrivenNode()
        node.create("kept")
        node.crash(Survival.EVERYTHING)
        assert self.end_of(node, 0, current_leader_epoch=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
        assert self.end_of(node, 0, current_leader_epoch=2) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert self.end_of(node, 1, current_leader_epoch=1) == (0, 1, 0)


class TestInitProducerId:
    def ask(self, node: DrivenNode, *, version: int = 5, **more: Any) -> tuple[int, int, int]:
        answer = node.ask("InitProducerId", version, **{"transactional_id": None, **more})
        return answer["error_code"], answer["producer_id"], answer["producer_epoch"]

    def test_every_id_is_given_once_whatever_happens(self) -> None:
        node = DrivenNode()
        given = []
        for survival in (*Survival, *Survival):
            given += [self.ask(node) for _ in range(PRODUCER_ID_BLOCK // 2 + 1)]
            node.crash(survival)
        assert {(code, epoch) for code, _, epoch in given} == {(0, 0)}
        assert len({producer_id for _, producer_id, _ in given}) == len(given)

    def test_two_at_once_when_a_block_is_used_up(self) -> None:
        node = DrivenNode()
        sent = [node.send("InitProducerId", 4, {"transactional_id": None}) for _ in range(3)]
        ids = {node.receive("InitProducerId", 4, answer)["producer_id"] for answer in sent}
        assert len(ids) == 3

    def test_an_id_in_a_log_written_elsewhere_is_not_given_again(self) -> None:
        node = DrivenNode()
        node.create("brought")
        batch = encode_batch(
            [Record(key=b"key", value=b"value", timestamp_ms=TIMESTAMP_MS)],
            producer_id=5000,
            producer_epoch=0,
            base_sequence=0,
        )
        partitions = [{"index": 0, "records": batch}]
        topics = [{"name": "brought", "partition_data": partitions}]
        node.ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=topics)
        node.restart()
        assert self.ask(node) == (0, 5001, 0)

    def test_a_producer_that_has_an_id_gets_a_new_one(self) -> None:
        code, producer_id, epoch = self.ask(DrivenNode(), producer_id=77, producer_epoch=3)
        assert (code, epoch) == (0, 0)
        assert producer_id != 77

    @pytest.mark.parametrize("more", [{"producer_id": 5}, {"producer_epoch": 5}])
    def test_half_an_identity_is_refused(self, more: dict[str, int]) -> None:
        assert self.ask(DrivenNode(), **more) == (ErrorCode.INVALID_REQUEST, -1, -1)

    @pytest.mark.parametrize("version", range(6))
    def test_transactions_are_refused_for_good(self, version: int) -> None:
        node = DrivenNode()
        refused = self.ask(node, version=version, transactional_id="t")
        assert refused == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)
        assert self.ask(node, version=version, transactional_id="") == (ErrorCode.INVALID_REQUEST, -1, -1)
