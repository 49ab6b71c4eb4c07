import pytest

from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID, TopicName
from headrace.node.apis import Client
from headrace.node.node import Endpoint
from headrace.protocol.header import encode_request_header
from headrace.protocol.messages import metadata
from headrace.sim.disk import Operation
from headrace.store.local import JOURNAL
from tests.unit.node.driven_node import ENDPOINT, DrivenNode, Message

UNKNOWN_ID = bytes(range(16))


def test_a_topic_and_its_partitions() -> None:
    node = DrivenNode()
    topic_id = node.create("orders", partitions=2)
    answer = node.ask("Metadata", 12, topics=[{"name": "orders"}])
    assert answer["brokers"] == [{"node_id": 1, "host": ENDPOINT.host, "port": ENDPOINT.port, "rack": None}]
    assert answer["cluster_id"] == node.node.identity.cluster_id
    assert answer["controller_id"] == 1
    (topic,) = answer["topics"]
    assert (topic["error_code"], topic["name"], topic["topic_id"]) == (0, "orders", topic_id)
    assert topic["partitions"] == [
        {
            "error_code": 0,
            "partition_index": index,
            "leader_id": 1,
            "leader_epoch": 0,
            "replica_nodes": [1],
            "isr_nodes": [1],
            "offline_replicas": [],
        }
        for index in range(2)
    ]


def names(answer: Message) -> list[str]:
    return sorted(topic["name"] for topic in answer["topics"])


def test_all_topics_or_none() -> None:
    node = DrivenNode()
    node.create("a")
    node.create("b")
    assert names(node.ask("Metadata", 0, topics=[])) == ["a", "b"]
    for version in (1, 9, 13):
        assert names(node.ask("Metadata", version, topics=None)) == ["a", "b"]
        assert names(node.ask("Metadata", version, topics=[])) == []


def test_a_client_is_told_the_address_of_its_own_listener() -> None:
    node = DrivenNode(settings={"broker.rack": "r1"})
    node.node.endpoints["OTHER"] = Endpoint("elsewhere", 1234)
    header = encode_request_header(api_key=3, api_version=1, correlation_id=7, client_id=None)
    body = metadata.API.request.encode({"topics": None}, 1)
    answer = node.node.handle(memoryview(header + body), Client("OTHER", "::1"))
    (broker,) = node.receive("Metadata", 1, answer)["brokers"]
    assert (broker["host"], broker["port"], broker["rack"]) == ("elsewhere", 1234, "r1")


def test_missing_topics_fail_one_by_one() -> None:
    node = DrivenNode()
    node.create("here")
    found = {one["name"]: one["error_code"] for one in node.metadata("here", "nowhere", "a b", "", "nowhere")}
    assert found == {
        "here": ErrorCode.NONE,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_known_as_such(topic: str) -> None:
    assert DrivenNode().metadata(topic)[0]["is_internal"]


def test_operations_are_told_when_asked_for() -> None:
    node = DrivenNode()
    node.create("here")
    plain = node.ask("Metadata", 8, topics=[{"name": "here"}])
    assert plain["topics"][0]["topic_authorized_operations"] == -(2**31)
    assert plain["cluster_authorized_operations"] == -(2**31)
    asked = node.ask(
        "Metadata",
        8,
        topics=[{"name": "here"}],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    # As Kafka answers without an authorizer.
    assert asked["topics"][0]["topic_authorized_operations"] == 3576
    assert asked["cluster_authorized_operations"] == 8096


class TestByID:
    def test_known_unknown_and_named(self) -> None:
        node = DrivenNode()
        topic_id = node.create("here")
        node.create("there")
        answer = node.ask(
            "Metadata",
            12,
            topics=[
                {"name": None, "topic_id": topic_id},
                {"name": None, "topic_id": UNKNOWN_ID},
                {"name": "there", "topic_id": ZERO_TOPIC_ID},
                {"name": "there", "topic_id": topic_id},
            ],
            include_topic_authorized_operations=True,
        )
        found = [(one["name"], one["error_code"], one["topic_authorized_operations"]) for one in answer["topics"]]
        assert found == [("here", 0, 3576), (None, ErrorCode.UNKNOWN_TOPIC_ID, -(2**31)), ("there", 0, 3576)]
        assert answer["topics"][1]["topic_id"] == UNKNOWN_ID

    @pytest.mark.parametrize("version", [10, 11])
    def test_versions_that_carry_ids_without_understanding_them(self, version: int) -> None:
        node = DrivenNode()
        topic_id = node.create("here")
        answer = node.ask("Metadata", version, topics=[{"name": "here", "topic_id": topic_id}, {"name": "here"}])
        assert [one["error_code"] for one in answer["topics"]] == [ErrorCode.INVALID_REQUEST] * 2
        assert answer["brokers"] == []
        assert answer["cluster_id"] is None

    @pytest.mark.parametrize("version", [12, 13])
    def test_neither_name_nor_id(self, version: int) -> None:
        answer = DrivenNode().ask("Metadata", version, topics=[{"name": None, "topic_id": ZERO_TOPIC_ID}])
        assert [(one["name"], one["error_code"]) for one in answer["topics"]] == [("", ErrorCode.INVALID_REQUEST)]
        assert answer["error_code"] == (ErrorCode.INVALID_REQUEST if version == 13 else 0)


class TestOnDemand:
    def test_a_topic_is_created_and_answered_once_it_is_there(self) -> None:
        node = DrivenNode(settings={"num.partitions": "3"})
        (topic,) = node.ask("Metadata", 12, topics=[{"name": "new"}])["topics"]
        assert topic["error_code"] == 0
        assert len(topic["partitions"]) == 3
        node.crash()
        assert node.metadata("new")[0]["topic_id"] == topic["topic_id"]

    def test_old_versions_cannot_say_no(self) -> None:
        (topic,) = DrivenNode().ask("Metadata", 0, topics=[{"name": "new"}])["topics"]
        assert topic["error_code"] == 0

    def test_not_where_the_request_or_the_node_forbids_it(self) -> None:
        node = DrivenNode()
        (topic,) = node.ask("Metadata", 12, topics=[{"name": "new"}], allow_auto_topic_creation=False)["topics"]
        assert topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node = DrivenNode(settings={"auto.create.topics.enable": "false"})
        (topic,) = node.ask("Metadata", 12, topics=[{"name": "new"}])["topics"]
        assert topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(node.node.topics) == 0

    def test_who_asks_for_what_is_being_created_waits_for_it(self) -> None:
        node = DrivenNode()
        answers = [node.send("Metadata", 12, {"topics": [{"name": "new"}]}) for _ in range(3)]
        found = [node.receive("Metadata", 12, answer)["topics"][0] for answer in answers]
        assert [topic["error_code"] for topic in found] == [ErrorCode.NONE] * 3
        assert len({topic["topic_id"] for topic in found}) == 1
        assert node.node.catalogue.creation_of(TopicName("new")) is None

    def test_and_hears_if_it_failed(self) -> None:
        node = DrivenNode()
        node.disk.fail(Operation.SYNC, path_end=JOURNAL)
        answers = [node.send("Metadata", 12, {"topics": [{"name": "new"}]}) for _ in range(2)]
        found = [node.receive("Metadata", 12, answer)["topics"][0] for answer in answers]
        assert [topic["error_code"] for topic in found] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    def test_what_cannot_be_created_fails_alone(self) -> None:
        node = DrivenNode()
        node.create("a.b")
        answer = node.ask("Metadata", 12, topics=[{"name": "a_b"}, {"name": "a/b"}, {"name": "new"}])
        assert [one["error_code"] for one in answer["topics"]] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
        ]

    def test_more_replicas_than_nodes(self) -> None:
        node = DrivenNode(settings={"default.replication.factor": "3"})
        (topic,) = node.ask("Metadata", 12, topics=[{"name": "new"}])["topics"]
        assert topic["error_code"] == ErrorCode.INVALID_REPLICATION_FACTOR
