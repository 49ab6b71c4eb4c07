"""One of the two brokers, as far as the comparison must know it.

Learns what only this broker can say (its ids), and waits for what Kafka does after it has answered.
"""

import time
import uuid
from collections.abc import Callable, Mapping

from headrace.errors import ErrorCode
from tests.conformance.case import Topic, served_versions
from tests.conformance.schemas import Message
from tests.conformance.wire import Connection

_SETTLE_TIMEOUT_S = 180.0  # Thousands of topics at once take Kafka a while on a busy machine.
_CREATED_AT_ONCE = 500


class Broker:
    """What a case needs to know about one of the brokers."""

    def __init__(self, name: str, bootstrap: str, data_dir: str) -> None:
        self.name = name
        self.host, _, port = bootstrap.rpartition(":")
        self.port = int(port)
        self.data_dir = data_dir
        self.met_ms = time.time() * 1000
        self.connection = Connection(self.host, self.port)
        self.topic_names: dict[uuid.UUID, str] = {}
        # The leader epochs of the topics that a comparison is about, in their order, where it is about any.
        self.epochs: tuple[int, ...] = ()
        described = self.connection.call("DescribeCluster", 0, {})
        self.cluster_id: str = described["cluster_id"]
        self.node_id: int = described["brokers"][0]["broker_id"]
        # Kafka asks its controller for the first block of producer ids only when the first client needs one.
        self.settle("InitProducerId", {"transactional_id": None}, lambda answer: answer["error_code"] == 0)
        # The topic of groups, too, is made when somebody first looks for a coordinator; each of its partitions has one.
        self.settle("FindCoordinator", {"key_type": 0, "coordinator_keys": ["any"]}, _coordinator_is_found)
        self.settle("DescribeGroups", {"groups": [f"probe-{number}" for number in range(500)]}, _groups_are_served)

    def find_topic_id(self, name: str) -> uuid.UUID:
        """The id that the topic has now, which another may have had before it."""
        answer = self.connection.call("Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
        (found,) = answer["topics"]
        assert found["error_code"] == 0, f"{self.name} has no topic {name}"
        self.topic_names[found["topic_id"]] = name
        topic_id: uuid.UUID = found["topic_id"]
        return topic_id

    def find_topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of a topic that exists or existed, as far as it was ever asked for."""
        if topic_id not in self.topic_names:
            asked = {"topic_id": topic_id, "name": None}
            answer = self.connection.call("Metadata", 12, {"topics": [asked], "allow_auto_topic_creation": False})
            if answer["topics"][0]["error_code"] == 0:
                self.topic_names[topic_id] = answer["topics"][0]["name"]
        return self.topic_names.get(topic_id)

    def find_leader_epoch(self, topic: str) -> int:
        """The same for all partitions of a topic, as far as crashes made it."""
        answer = self.connection.call("Metadata", 12, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
        (epoch,) = {partition["leader_epoch"] for partition in answer["topics"][0]["partitions"]}
        assert isinstance(epoch, int)
        return epoch

    def create_topics(self, topics: Mapping[str, Topic]) -> None:
        """Create, and wait until every partition can be written and read."""
        wanted = [
            {
                "name": name,
                "num_partitions": topic.partitions,
                "replication_factor": 1,
                "configs": [{"name": key, "value": value} for key, value in topic.configs.items()],
            }
            for name, topic in topics.items()
        ]
        for begin in range(0, len(wanted), _CREATED_AT_ONCE):
            body = {"topics": wanted[begin : begin + _CREATED_AT_ONCE], "timeout_ms": 60_000}
            created = self.connection.call("CreateTopics", 7, body)
            failed = [one for one in created["topics"] if one["error_code"] != 0]
            assert not failed, f"{self.name}: {failed}"
            self.topic_names.update({one["topic_id"]: one["name"] for one in created["topics"]})
        self.wait_served({name: topic.partitions for name, topic in topics.items()})

    def wait_served(self, partitions: Mapping[str, int]) -> None:
        """Kafka answers a creation before its partitions can be used, or even seen."""
        named = [{"name": topic} for topic in partitions]
        asked = [
            {"name": topic, "partitions": [{"partition_index": index, "timestamp": -1} for index in range(count)]}
            for topic, count in partitions.items()
        ]
        self.settle("Metadata", {"topics": named, "allow_auto_topic_creation": False}, _topics_exist)
        self.settle("ListOffsets", {"replica_id": -1, "topics": asked}, _every_partition_is_served)

    def settle(self, api: str, body: Message, done: Callable[[Message], bool]) -> None:
        pause_s = 0.002
        deadline_s = time.monotonic() + _SETTLE_TIMEOUT_S
        while not done(answer := self.connection.call(api, served_versions(api)[-1], body)):
            assert time.monotonic() < deadline_s, f"{self.name} never settled: {api} says {str(answer)[:1000]}"
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)


def _coordinator_is_found(answer: Message) -> bool:
    return all(one["error_code"] == 0 for one in answer["coordinators"])


def _groups_are_served(answer: Message) -> bool:
    return all(one["error_code"] in (0, ErrorCode.GROUP_ID_NOT_FOUND) for one in answer["groups"])


def _topics_exist(answer: Message) -> bool:
    return all(topic["error_code"] == 0 for topic in answer["topics"])


def _every_partition_is_served(answer: Message) -> bool:
    return all(one["error_code"] == 0 for topic in answer["topics"] for one in topic["partitions"])
