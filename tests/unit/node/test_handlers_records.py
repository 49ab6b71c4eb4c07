"""Produce and Fetch where they meet Kafka's odder answers; waiting and sessions are tested with `fetching`."""

from typing import Any

import pytest

from headrace.errors import ErrorCode, ProtocolError
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.sim.disk import Survival
from tests.unit.node.driven_node import ENDPOINT, TIMESTAMP_MS, DrivenNode, Message

UNKNOWN_ID = bytes(range(16))


def batch(count: int = 1, *, key: bytes | None = b"key", after_ms: int = 0, **more: Any) -> bytes:
    record = Record(key=key, value=b"value", timestamp_ms=TIMESTAMP_MS + after_ms)
    return encode_batch([record] * count, **more)


def produce(
    node: DrivenNode, *partitions: tuple[int, bytes | None], topic: str = "there", version: int = 9, acks: int = -1
) -> list[Message]:
    listed = [{"index": index, "records": records} for index, records in partitions]
    body = {"acks": acks, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": listed}]}
    return [one for each in node.ask("Produce", version, **body)["responses"] for one in each["partition_responses"]]


def fetch(node: DrivenNode, *partitions: Message, topic: str = "there", version: int = 12, **more: Any) -> Message:
    asked = [{"partition_max_bytes": 1 << 20, **one} for one in partitions]
    body = {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": topic, "partitions": asked}], **more}
    return node.ask("Fetch", version, **body)


def told(answer: Message) -> list[Message]:
    return [one for topic in answer["responses"] for one in topic["partitions"]]


@pytest.fixture
def node() -> DrivenNode:
    """A topic whose first partition begins at offset 2 and ends at 3."""
    node = DrivenNode()
    node.create("there", partitions=2)
    produce(node, (0, batch(3)))
    cut = {"name": "there", "partitions": [{"partition_index": 0, "offset": 2}]}
    node.ask("DeleteRecords", 2, topics=[cut])
    return node


class TestProduce:
    @pytest.mark.parametrize(
        ("records", "code", "start_offset"),
        [
            (batch(after_ms=10**10), ErrorCode.INVALID_TIMESTAMP, 2),
            (batch(base_offset=7), ErrorCode.INVALID_RECORD, 2),
            (batch(producer_id=5, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD, 2),
            (None, ErrorCode.INVALID_RECORD, -1),
            (b"", ErrorCode.INVALID_RECORD, -1),
            (batch() * 2, ErrorCode.INVALID_RECORD, -1),
            (batch()[:-1], ErrorCode.INVALID_RECORD, -1),
            (batch()[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE, -1),
            (batch(70_000), ErrorCode.MESSAGE_TOO_LARGE, -1),
            (
                batch(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                -1,
            ),
        ],
    )
    def test_only_a_log_that_was_asked_tells_where_it_begins(
        self, node: DrivenNode, records: bytes | None, code: ErrorCode, start_offset: int
    ) -> None:
        (refused,) = produce(node, (0, records))
        assert (refused["error_code"], refused["base_offset"]) == (code, -1)
        assert refused["log_start_offset"] == start_offset
        (good,) = produce(node, (0, batch()))
        assert (good["error_code"], good["base_offset"], good["log_start_offset"]) == (0, 3, 2)

    def test_a_cut_batch_behind_a_whole_one_does_not_reach_the_log(self, node: DrivenNode) -> None:
        (written,) = produce(node, (1, batch(2) + batch()[:30]))
        assert (written["error_code"], written["base_offset"]) == (0, 0)
        (read,) = told(fetch(node, {"partition": 1}))
        assert len(read["records"]) == len(batch(2))
        assert len(decode_records(read["records"])) == 2

    @pytest.mark.parametrize("codec", Codec)
    def test_a_compacted_topic_refuses_a_record_without_a_key(self, node: DrivenNode, codec: Codec) -> None:
        for policy, code in (("compact", 87), ("compact,delete", 87), ("delete", 0)):
            name = policy.replace(",", "-")
            node.create(name, cleanup_policy=policy)
            (answer,) = produce(node, (0, batch(key=None, codec=codec)), topic=name)
            assert answer["error_code"] == code, policy
            (answer,) = produce(node, (0, batch(codec=codec)), topic=name)
            assert answer["error_code"] == 0, policy

    def test_every_partition_is_answered_for_itself(self, node: DrivenNode) -> None:
        answers = produce(node, (0, batch()), (7, batch()), (1, b""), (1, batch()))
        assert [(one["index"], one["error_code"]) for one in answers] == [
            (0, 0),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (1, ErrorCode.INVALID_RECORD),
            (1, 0),
        ]

    def test_more_replicas_in_sync_are_asked_for_than_there_are(self, node: DrivenNode) -> None:
        node.create("safe", min_insync_replicas="2")
        (answer,) = produce(node, (0, batch()), topic="safe")
        assert answer["error_code"] == 0  # As in Kafka 4: no more than the topic has.

    def test_without_acknowledgement_a_failure_closes_the_connection(self, node: DrivenNode) -> None:
        partition = {"index": 0, "records": b""}
        body = {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": "there", "partition_data": [partition]}]}
        with pytest.raises(ProtocolError):
            node.send("Produce", 9, body)


class TestFetch:
    def test_what_is_not_there(self, node: DrivenNode) -> None:
        for topic, partition in (("nowhere", 0), ("there", 2), ("there", -1)):
            (one,) = told(fetch(node, {"partition": partition}, topic=topic))
            assert one["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (one["high_watermark"], one["log_start_offset"], one["aborted_transactions"]) == (-1, -1, [])

    def test_a_partition_twice_is_answered_once_by_what_was_said_last(self, node: DrivenNode) -> None:
        (one,) = told(fetch(node, {"partition": 0, "fetch_offset": 2}, {"partition": 0, "fetch_offset": 3}))
        assert (one["error_code"], one["records"]) == (0, b"")

    @pytest.mark.parametrize("version", [11, 14, 17])
    @pytest.mark.parametrize(
        ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    def test_there_are_no_followers(self, node: DrivenNode, version: int, epoch: int, code: ErrorCode) -> None:
        topic_id = node.metadata("there")[0]["topic_id"]
        state = {"replica_id": 5, "replica_epoch": 1}
        replica: Message = {"replica_id": 5} if version < 15 else {"replica_state": state}
        asked = {"partition": 0, "fetch_offset": 2, "current_leader_epoch": epoch, "partition_max_bytes": 1 << 20}
        named = {"topic": "there"} if version < 13 else {"topic_id": topic_id}
        answer = node.ask("Fetch", version, max_wait_ms=0, topics=[{**named, "partitions": [asked]}], **replica)
        (one,) = told(answer)
        assert (one["error_code"], one["records"]) == (code, b"")

    @pytest.mark.parametrize("version", [12, 15, 16, 18])
    def test_who_knows_an_old_epoch_is_told_the_leader_where_it_can_be_told_the_way_there(
        self, node: DrivenNode, version: int
    ) -> None:
        node.crash(Survival.EVERYTHING)
        named = {"topic": "there"} if version < 13 else {"topic_id": node.metadata("there")[0]["topic_id"]}
        asked = {"partition": 0, "fetch_offset": 2, "current_leader_epoch": 0, "partition_max_bytes": 1 << 20}
        answer = node.ask("Fetch", version, max_wait_ms=0, topics=[{**named, "partitions": [asked]}])
        (one,) = told(answer)
        assert one["error_code"] == ErrorCode.FENCED_LEADER_EPOCH
        if version < 16:
            assert one["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
        else:
            assert one["current_leader"] == {"leader_id": 1, "leader_epoch": 1}
            assert answer["node_endpoints"] == [
                {"node_id": 1, "host": ENDPOINT.host, "port": ENDPOINT.port, "rack": None}
            ]

    @pytest.mark.parametrize(("survival", "end_offset"), [(Survival.EVERYTHING, 3), (Survival.NOTHING, 0)])
    def test_who_read_further_than_an_epoch_wrote_is_told_where_it_ended(
        self, survival: Survival, end_offset: int
    ) -> None:
        """Also where the present epoch wrote nothing, and where nothing at all is left."""
        node = DrivenNode()
        node.create("there")
        node.produce("there", 0, 1, 2)
        node.crash(survival)
        (one,) = told(fetch(node, {"partition": 0, "fetch_offset": 4, "last_fetched_epoch": 0}))
        assert one["error_code"] == 0
        assert one["diverging_epoch"] == {"epoch": 0, "end_offset": end_offset}

    def test_a_session_may_begin_with_nothing(self, node: DrivenNode) -> None:
        opened = node.ask("Fetch", 12, max_wait_ms=0, session_epoch=0, topics=[])
        assert opened["session_id"] > 0
        more = {"session_id": opened["session_id"], "session_epoch": 1}
        (one,) = told(fetch(node, {"partition": 0, "fetch_offset": 2}, **more))
        assert one["error_code"] == 0
        assert one["records"]
