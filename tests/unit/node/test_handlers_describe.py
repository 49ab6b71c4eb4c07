"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs."""

from typing import Any

import pytest

from headrace.errors import ErrorCode
from tests.unit.node.driven_node import ENDPOINT, DrivenNode, Message


class TestCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_one_node_that_is_its_own_controller(self, version: int) -> None:
        node = DrivenNode(settings={"node.id": "5", "broker.rack": "r1"})
        answer = node.ask("DescribeCluster", version)
        assert (answer["error_code"], answer["error_message"]) == (0, None)
        assert answer["cluster_id"] == node.node.identity.cluster_id
        assert answer["controller_id"] == 5
        (broker,) = answer["brokers"]
        assert (broker["broker_id"], broker["host"], broker["port"]) == (5, *ENDPOINT)
        assert (broker["rack"], broker["is_fenced"]) == ("r1", False)

    def test_operations_when_asked_for(self) -> None:
        node = DrivenNode()
        assert node.ask("DescribeCluster", 0)["cluster_authorized_operations"] == -(2**31)
        asked = node.ask("DescribeCluster", 0, include_cluster_authorized_operations=True)
        assert asked["cluster_authorized_operations"] == 8096

    @pytest.mark.parametrize(
        ("endpoint_type", "code"),
        [(0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, 115), (-1, 115)],
    )
    def test_there_are_only_brokers(self, endpoint_type: int, code: int) -> None:
        answer = DrivenNode().ask("DescribeCluster", 2, endpoint_type=endpoint_type)
        assert (answer["error_code"], answer["brokers"], answer["controller_id"]) == (code, [], -1)


def pages(node: DrivenNode, *names: str, limit: int = 2000, cursor: Any = None) -> tuple[list[Any], Any]:
    """Names with the partitions told of each or an error, and where to go on."""
    answer = node.ask(
        "DescribeTopicPartitions",
        0,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    told = [
        (one["name"], -one["error_code"] or [each["partition_index"] for each in one["partitions"]])
        for one in answer["topics"]
    ]
    after = answer["next_cursor"]
    return told, None if after is None else (after["topic_name"], after["partition_index"])


class TestTopicPartitions:
    @pytest.fixture
    def node(self) -> DrivenNode:
        node = DrivenNode()
        node.create("b", partitions=2)
        node.create("a", partitions=3)
        return node

    def test_a_topic(self, node: DrivenNode) -> None:
        (topic,) = node.ask("DescribeTopicPartitions", 0, topics=[{"name": "b"}])["topics"]
        assert topic["topic_id"] == node.metadata("b")[0]["topic_id"]
        assert topic["topic_authorized_operations"] == 3576
        assert topic["partitions"][1] == {
            "error_code": 0,
            "partition_index": 1,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": [1],
            "isr_nodes": [1],
            "eligible_leader_replicas": [],
            "last_known_elr": [],
            "offline_replicas": [],
        }

    def test_in_the_order_of_their_names(self, node: DrivenNode) -> None:
        everything = [("a", [0, 1, 2]), ("b", [0, 1])]
        assert pages(node) == (everything, None)
        assert pages(node, "b", "a", "b") == (everything, None)

    def test_missing_topics_fail_one_by_one(self, node: DrivenNode) -> None:
        missing = -ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert pages(node, "b", "nowhere", "a b") == (
            [("a b", -ErrorCode.INVALID_TOPIC_EXCEPTION), ("b", [0, 1]), ("nowhere", missing)],
            None,
        )

    @pytest.mark.parametrize(
        ("limit", "told", "after"),
        [
            (1, [("a", [0])], ("a", 1)),
            (2, [("a", [0, 1])], ("a", 2)),
            (3, [("a", [0, 1, 2])], ("b", 0)),
            (4, [("a", [0, 1, 2]), ("b", [0])], ("b", 1)),
            (5, [("a", [0, 1, 2]), ("b", [0, 1])], None),
            (0, [("a", [0])], ("a", 1)),
            (-5, [("a", [0])], ("a", 1)),
        ],
    )
    def test_a_page_ends_at_the_limit(self, node: DrivenNode, limit: int, told: Any, after: Any) -> None:
        assert pages(node, limit=limit) == (told, after)

    @pytest.mark.parametrize("limit", range(1, 7))
    def test_pages_together_tell_everything_once(self, node: DrivenNode, limit: int) -> None:
        told, cursor = pages(node, limit=limit)
        while cursor is not None:
            more, cursor = pages(node, limit=limit, cursor=cursor)
            told += more
        flat = [(name, index) for name, indexes in told for index in indexes]
        assert flat == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]

    def test_the_node_has_a_limit_too(self) -> None:
        node = DrivenNode(settings={"max.request.partition.size.limit": "2"})
        node.create("a", partitions=3)
        assert pages(node) == ([("a", [0, 1])], ("a", 2))

    def test_cursors_at_odd_places(self, node: DrivenNode) -> None:
        assert pages(node, cursor=("a", 9)) == ([("a", []), ("b", [0, 1])], None)
        assert pages(node, cursor=("aa", 1)) == ([("b", [0, 1])], None)
        assert pages(node, cursor=("zzz", 0)) == ([], None)

    @pytest.mark.parametrize("cursor", [("b", 0), ("", 0), ("a", -1)])
    def test_a_cursor_must_be_at_a_topic_that_was_asked_for(self, node: DrivenNode, cursor: tuple[str, int]) -> None:
        assert pages(node, "a", cursor=cursor) == ([("a", -ErrorCode.INVALID_REQUEST)], None)


class TestLogDirs:
    def sizes(self, node: DrivenNode, asked: list[Message] | None, version: int = 4) -> dict[tuple[str, int], int]:
        (result,) = node.ask("DescribeLogDirs", version, topics=asked)["results"]
        assert (result["error_code"], result["log_dir"]) == (0, "data")
        if version >= 4:
            assert result["total_bytes"] >= result["usable_bytes"] > 0
        return {
            (topic["name"], one["partition_index"]): one["partition_size"]
            for topic in result["topics"]
            for one in topic["partitions"]
        }

    @pytest.mark.parametrize("version", range(1, 5))
    def test_sizes_of_everything_or_of_what_is_asked_for(self, version: int) -> None:
        node = DrivenNode(settings={"log.dirs": "data"})
        node.create("a", partitions=2)
        node.create("b")
        node.produce("a", 0, 1, 2, partition=1)
        size = node.disk.open("a-1/00000000000000000000.log").size
        assert size > 0
        assert self.sizes(node, None, version) == {("a", 0): 0, ("a", 1): size, ("b", 0): 0}
        asked = (("a", [1]), ("b", [0, 0]), ("a", [0]))
        some = [{"topic": topic, "partitions": partitions} for topic, partitions in asked]
        assert self.sizes(node, some, version) == {("a", 0): 0, ("a", 1): size, ("b", 0): 0}

    def test_what_is_not_there_is_left_out(self) -> None:
        node = DrivenNode(settings={"log.dirs": "data"})
        node.create("a")
        assert self.sizes(node, [{"topic": "nowhere", "partitions": [0]}, {"topic": "a", "partitions": [7, -1]}]) == {}
        assert self.sizes(node, []) == {}
