"""CreateTopics, DeleteTopics and CreatePartitions. Words of refusal are Kafka's; those of versions agree."""

import tracemalloc
from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID
from headrace.node.settings import Source
from headrace.sim.disk import Survival
from tests.unit.node.driven_node import DrivenNode, Message

UNKNOWN_ID = bytes(range(16))


def wanted(name: str = "new", *, partitions: int = 1, replicas: int = 1, **more: Any) -> Message:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def create(node: DrivenNode, *topics: Message, version: int = 7, **more: Any) -> list[Message]:
    answers: list[Message] = node.ask("CreateTopics", version, topics=list(topics), **more)["topics"]
    return answers


def assigned(*partitions: tuple[int, list[int]]) -> Message:
    listed = [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]
    return wanted(partitions=-1, replicas=-1, assignments=listed)


def configured(**configs: str | None) -> Message:
    return wanted(configs=[{"name": name.replace("_", "."), "value": value} for name, value in configs.items()])


class TestCreate:
    def test_is_answered_with_what_was_made(self) -> None:
        node = DrivenNode()
        (made,) = create(node, wanted(partitions=3, configs=[{"name": "retention.ms", "value": " 5 "}]))
        assert (made["error_code"], made["error_message"]) == (0, None)
        assert (made["num_partitions"], made["replication_factor"]) == (3, 1)
        configs = {config["name"]: (config["value"], config["config_source"]) for config in made["configs"]}
        assert configs["retention.ms"] == (" 5 ", Source.TOPIC)
        assert configs["segment.bytes"] == ("1073741824", Source.DEFAULT)
        assert node.metadata("new")[0]["topic_id"] == made["topic_id"]
        assert node.node.topics.named("new").config.retention_ms == 5  # type: ignore[union-attr]

    @pytest.mark.parametrize("survival", Survival)
    def test_what_was_answered_survives_a_crash(self, survival: Survival) -> None:
        node = DrivenNode()
        topic_id = node.create("new", partitions=3, retention_ms="5")
        node.crash(survival)
        (topic,) = node.metadata("new")
        assert (topic["topic_id"], len(topic["partitions"])) == (topic_id, 3)
        assert node.configs(2, "new")["retention.ms"]["value"] == "5"

    def test_defaults_are_the_node_s(self) -> None:
        node = DrivenNode(settings={"num.partitions": "4"})
        (made,) = create(node, wanted(partitions=-1, replicas=-1))
        assert (made["num_partitions"], made["replication_factor"]) == (4, 1)

    def test_validating_only_changes_nothing(self) -> None:
        node = DrivenNode()
        (made,) = create(node, wanted(partitions=2), validate_only=True)
        assert (made["error_code"], made["num_partitions"], made["topic_id"]) == (0, 2, ZERO_TOPIC_ID)
        (refused,) = create(node, wanted(partitions=0), validate_only=True)
        assert refused["error_code"] == ErrorCode.INVALID_PARTITIONS
        assert len(node.node.topics) == 0

    def test_one_bad_topic_does_not_keep_the_others_from_being_made(self) -> None:
        node = DrivenNode()
        node.create("there")
        answers = create(node, wanted("a"), wanted("b", partitions=0), wanted("there"), wanted("c"))
        assert [(one["name"], one["error_code"]) for one in answers] == [
            ("a", ErrorCode.NONE),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("c", ErrorCode.NONE),
        ]
        assert sorted(topic.name for topic in node.node.topics) == ["a", "c", "there"]

    def test_a_name_twice_is_refused_and_told_once(self) -> None:
        node = DrivenNode()
        answers = create(node, wanted("a"), wanted("b"), wanted("a", partitions=2))
        assert [(one["name"], one["error_code"], one["error_message"]) for one in answers] == [
            ("b", 0, None),
            ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ]

    @pytest.mark.parametrize(
        ("topic", "code", "message"),
        [
            (wanted(partitions=0), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid"),
            (wanted(partitions=-2), ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid"),
            (wanted(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0"),
            (wanted(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0"),
            (
                wanted(replicas=2),
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached "
                "because only 1 broker(s) are registered.",
            ),
            (wanted("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains"),
            (wanted("a_b.c"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b.c' collides with existing topic: a.b_c"),
            (wanted("a.b_c"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b_c' already exists."),
            (wanted("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "Creation of internal topic"),
            (configured(no_such="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
            (
                configured(retention_ms="soon"),
                ErrorCode.INVALID_CONFIG,
                "Invalid value soon for configuration retention.ms: Not a number of type LONG",
            ),
            (
                configured(retention_ms=None, segment_ms=None),
                ErrorCode.INVALID_CONFIG,
                "Null value not supported for topic configs: retention.ms,segment.ms",
            ),
            (
                assigned((0, [1])) | {"num_partitions": 2},
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
            (
                assigned((0, [1])) | {"replication_factor": 1},
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            ),
            (assigned((0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Found multiple manual partition"),
            (assigned((0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive"),
            (assigned((-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive"),
            (assigned((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes an empty replica list."),
            (assigned((0, [99])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 99, but no such broker"),
            (assigned((0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once."),
        ],
    )
    def test_refusals(self, topic: Message, code: ErrorCode, message: str) -> None:
        node = DrivenNode()
        node.create("a.b_c")
        (refused,) = create(node, topic)
        assert refused["error_code"] == code
        assert message in refused["error_message"]
        assert (refused["num_partitions"], refused["replication_factor"], refused["configs"]) == (-1, -1, [])
        assert len(node.node.topics) == 1

    def test_assigned_by_hand(self) -> None:
        node = DrivenNode()
        (made,) = create(node, assigned((1, [1]), (0, [1])))
        assert (made["error_code"], made["num_partitions"], made["replication_factor"]) == (0, 2, 1)

    @pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
    def test_an_absurd_count_is_refused_before_it_costs_memory(self, partitions: int) -> None:
        node = DrivenNode()
        tracemalloc.start()
        answers = create(node, wanted("a", partitions=partitions), wanted("b"))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [one["error_code"] for one in answers] == [ErrorCode.POLICY_VIOLATION] * 2
        assert answers[0]["error_message"] == "Excessively large number of partitions per request."
        assert peak_bytes < 1 << 20
        assert len(node.node.topics) == 0

    def test_many_topics_count_together(self) -> None:
        answers = create(DrivenNode(), *(wanted(f"t{index}", partitions=2001) for index in range(5)))
        assert {one["error_code"] for one in answers} == {ErrorCode.POLICY_VIOLATION}

    def test_of_two_at_once_one_wins(self) -> None:
        node = DrivenNode()
        sent = [node.send("CreateTopics", 7, {"topics": [wanted(partitions=count)]}) for count in (1, 2)]
        first, second = (node.receive("CreateTopics", 7, answer)["topics"][0] for answer in sent)
        assert (first["error_code"], second["error_code"]) == (0, ErrorCode.TOPIC_ALREADY_EXISTS)
        assert len(node.metadata("new")[0]["partitions"]) == 1


def delete(node: DrivenNode, *items: Message, version: int = 6) -> list[tuple[str | None, bytes, int, str | None]]:
    answer = node.ask("DeleteTopics", version, topics=[{"topic_id": ZERO_TOPIC_ID, **item} for item in items])
    return [(one["name"], one["topic_id"], one["error_code"], one["error_message"]) for one in answer["responses"]]


class TestDelete:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_by_name(self, version: int) -> None:
        node = DrivenNode()
        node.create("there", partitions=2)
        answer = node.ask("DeleteTopics", version, topic_names=["there", "nowhere"])
        found = {one["name"]: one["error_code"] for one in answer["responses"]}
        assert found == {"there": 0, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert node.metadata("there")[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_by_name_or_id(self) -> None:
        node = DrivenNode()
        first_id, second_id = node.create("first"), node.create("second")
        assert delete(node, {"name": "first"}, {"name": None, "topic_id": second_id}) == [
            ("first", first_id, 0, None),
            ("second", second_id, 0, None),
        ]
        assert len(node.node.topics) == 0

    def test_refusals_say_why_and_leave_the_rest_alone(self) -> None:
        node = DrivenNode()
        there_id, good_id = node.create("there"), node.create("good")
        node.create("twice")
        bad = ErrorCode.INVALID_REQUEST
        answers = delete(
            node,
            {"name": "nowhere"},
            {"name": None, "topic_id": UNKNOWN_ID},
            {"name": None},
            {"name": "there", "topic_id": there_id},
            {"name": "twice"},
            {"name": "twice"},
            {"name": "good"},
        )
        assert answers == [
            (
                "nowhere",
                ZERO_TOPIC_ID,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            ),
            (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
            (None, ZERO_TOPIC_ID, bad, "Neither topic name nor id were specified."),
            ("there", there_id, bad, "You may not specify both topic name and topic id."),
            ("twice", ZERO_TOPIC_ID, bad, "Duplicate topic name."),
            ("good", good_id, 0, None),
        ]
        assert sorted(topic.name for topic in node.node.topics) == ["there", "twice"]

    def test_an_id_twice(self) -> None:
        node = DrivenNode()
        topic_id = node.create("there")
        assert delete(node, *[{"name": None, "topic_id": topic_id}] * 2) == [
            (None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        ]
        assert len(node.node.topics) == 1

    def test_by_name_and_again_by_id_deletes_nothing(self) -> None:
        node = DrivenNode()
        topic_id = node.create("there")
        answers = delete(node, {"name": "there"}, {"name": None, "topic_id": topic_id})
        assert [(name, code) for name, _, code, _ in answers] == [
            ("there", ErrorCode.INVALID_REQUEST),
            (None, ErrorCode.INVALID_REQUEST),
        ]
        assert len(node.node.topics) == 1

    def test_where_it_is_switched_off(self) -> None:
        node = DrivenNode(settings={"delete.topic.enable": "false"})
        node.create("there")
        for version, code in ((1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)):
            (answer,) = node.ask("DeleteTopics", version, topic_names=["there"])["responses"]
            assert answer["error_code"] == code

    @pytest.mark.parametrize("survival", Survival)
    def test_gone_is_gone_over_a_crash_and_the_name_is_free(self, survival: Survival) -> None:
        node = DrivenNode()
        old_id = node.create("there")
        node.produce("there", 0, 1, 2)
        delete(node, {"name": "there"})
        node.crash(survival)
        assert node.metadata("there")[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.create("there") != old_id
        assert node.produce("there", 0) == 0

    def test_made_anew_at_once(self) -> None:
        node = DrivenNode()
        old_id = node.create("there")
        node.produce("there", 0, 1, 2)
        delete(node, {"name": "there"})
        new_id = node.create("there")
        assert new_id != old_id
        assert node.produce("there", 0) == 0
        node.crash(Survival.EVERYTHING)
        assert node.metadata("there")[0]["topic_id"] == new_id


def grow(node: DrivenNode, *topics: Message, **more: Any) -> list[tuple[str, int, str | None]]:
    answer = node.ask("CreatePartitions", 3, topics=list(topics), **more)
    return [(one["name"], one["error_code"], one["error_message"]) for one in answer["results"]]


def to(count: int, *assignments: list[int], topic: str = "there") -> Message:
    brokers = [{"broker_ids": one} for one in assignments] if assignments else None
    return {"name": topic, "count": count, "assignments": brokers}


class TestCreatePartitions:
    def test_new_ones_begin_empty_and_old_ones_stay(self) -> None:
        node = DrivenNode()
        node.create("there")
        node.produce("there", 0, 1)
        assert grow(node, to(3)) == [("there", 0, None)]
        assert node.produce("there", 0, partition=2) == 0
        node.crash(Survival.EVERYTHING)
        assert len(node.metadata("there")[0]["partitions"]) == 3
        assert node.produce("there", 0) == 2

    def test_validating_only_changes_nothing(self) -> None:
        node = DrivenNode()
        node.create("there")
        assert grow(node, to(3), validate_only=True) == [("there", 0, None)]
        assert len(node.metadata("there")[0]["partitions"]) == 1

    @pytest.mark.parametrize(
        ("asked", "code", "message"),
        [
            (to(2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
            (
                to(1),
                ErrorCode.INVALID_PARTITIONS,
                "The topic there currently has 2 partition(s); 1 would not be an increase.",
            ),
            (
                to(-1),
                ErrorCode.INVALID_PARTITIONS,
                "The topic there currently has 2 partition(s); -1 would not be an increase.",
            ),
            (
                to(10_003),
                ErrorCode.POLICY_VIOLATION,
                "Excessively large number of partitions per request.",
            ),
            (to(3, topic="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
            (
                to(4, [1]),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
            ),
            (
                to(3, [1], [1]),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
            ),
            (
                to(3, [99]),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes broker 99, but no such broker is registered.",
            ),
            (
                to(3, [1, 1]),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "The manual partition assignment includes the broker 1 more than once.",
            ),
        ],
    )
    def test_refusals(self, asked: Message, code: ErrorCode, message: str | None) -> None:
        node = DrivenNode()
        node.create("there", partitions=2)
        assert grow(node, asked) == [(asked["name"], code, message)]
        assert len(node.metadata("there")[0]["partitions"]) == 2

    def test_a_topic_twice_is_refused_and_told_once(self) -> None:
        node = DrivenNode()
        node.create("there")
        node.create("other")
        assert grow(node, to(2), to(2, topic="other"), to(3)) == [
            ("other", 0, None),
            ("there", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ]

    def test_the_highest_count_costs_no_memory(self) -> None:
        node = DrivenNode()
        node.create("there")
        tracemalloc.start()
        ((_, code, _),) = grow(node, to(2**31 - 1))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert code == ErrorCode.POLICY_VIOLATION
        assert peak_bytes < 1 << 20

    def test_two_at_once_see_each_other(self) -> None:
        node = DrivenNode()
        node.create("there")
        sent = [node.send("CreatePartitions", 3, {"topics": [to(count)]}) for count in (3, 3, 5)]
        codes = [node.receive("CreatePartitions", 3, answer)["results"][0]["error_code"] for answer in sent]
        assert codes == [0, ErrorCode.INVALID_PARTITIONS, 0]
        assert len(node.metadata("there")[0]["partitions"]) == 5
        node.restart()
        assert len(node.metadata("there")[0]["partitions"]) == 5

    def test_not_to_a_topic_that_is_being_deleted(self) -> None:
        node = DrivenNode()
        node.create("there")
        deleted = node.send("DeleteTopics", 6, {"topics": [{"name": "there", "topic_id": ZERO_TOPIC_ID}]})
        assert grow(node, to(3)) == [("there", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]
        node.receive("DeleteTopics", 6, deleted)
        node.restart()
        assert len(node.node.topics) == 0
