"""CreateTopics, versions 2 to 7.

Ignored: the time-out. A topic is answered when it is durable, which waits for one sync of the local disk and for
nobody else; giving up earlier would leave the client in doubt.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import ApiError, ErrorCode
from headrace.ids import TopicName, parse_topic_name
from headrace.node.apis import Api, Call, Message
from headrace.node.config_entries import describe_topic
from headrace.node.configs import TopicConfig
from headrace.node.later import Later, gather, resolved
from headrace.node.placement import PARTITIONS_PER_REQUEST_MAX, check_replicas, place
from headrace.node.topics import Topic, collides
from headrace.protocol.messages import create_topics as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_DEFAULT: Final = -1
_METADATA_TOPIC: Final = "__cluster_metadata"


class TopicPlan(NamedTuple):
    """A topic that can be created."""

    name: TopicName
    overrides: dict[str, str]
    config: TopicConfig
    assignment: list[list[int]]


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    counts = Counter(topic["name"] for topic in request["topics"])
    wanted = [topic for topic in request["topics"] if counts[topic["name"]] == 1]
    if sum(_partition_count(node, topic) for topic in wanted) > PARTITIONS_PER_REQUEST_MAX:
        error = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        answers = [resolved(_failed(name, error)) for name in counts]
    else:
        answers = [_create(node, topic, validate_only=request["validate_only"]) for topic in wanted]
        repeated = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        answers += [resolved(_failed(name, repeated)) for name, count in counts.items() if count > 1]
    return gather(answers).map(lambda topics: {"topics": topics})


def _partition_count(node: "Node", topic: Message) -> int:
    if topic["assignments"]:
        return len(topic["assignments"])
    count: int = topic["num_partitions"]
    return node.config.num_partitions if count == _DEFAULT else max(count, 0)


def _create(node: "Node", topic: Message, *, validate_only: bool) -> Later[Message]:
    try:
        plan = decide_topic(node, topic)
    except ApiError as error:
        return resolved(_failed(topic["name"], error))
    if validate_only:
        return resolved(_described(node, plan, topic_id=None))

    def made(outcome: Topic | ApiError) -> Message:
        if isinstance(outcome, ApiError):
            return _failed(plan.name, outcome)
        return _described(node, plan, topic_id=outcome.id)

    return node.catalogue.create(plan.name, overrides=plan.overrides, assignment=plan.assignment).map(made)


def decide_topic(node: "Node", topic: Message) -> TopicPlan:
    """What a request for a topic comes to, or the first of Kafka's objections. Changes nothing.

    `topic` is an item of a CreateTopics request; -1 stands for the node's defaults.
    """
    if topic["name"] == _METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {_METADATA_TOPIC} is prohibited.")
    name = parse_topic_name(topic["name"])
    if node.topics.named(name) is not None:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collides(name, (existing.name for existing in node.topics))
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    overrides = _overrides(topic["configs"])
    config = TopicConfig.resolve(node.config, overrides)
    return TopicPlan(name, overrides, config, _assignment(node, topic))


def _overrides(configs: list[Message]) -> dict[str, str]:
    nulls = [config["name"] for config in configs if config["value"] is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    return {config["name"]: config["value"] for config in configs}


def _assignment(node: "Node", topic: Message) -> list[list[int]]:
    partitions, replicas = topic["num_partitions"], topic["replication_factor"]
    if topic["assignments"]:
        return _manual_assignment(node, topic)
    if replicas < _DEFAULT or replicas == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < _DEFAULT or partitions == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return place(
        node.config.num_partitions if partitions == _DEFAULT else partitions,
        replication_factor=node.config.default_replication_factor if replicas == _DEFAULT else replicas,
        nodes=[node.id],
    )


def _manual_assignment(node: "Node", topic: Message) -> list[list[int]]:
    for field, words in (("replication_factor", "replication factor"), ("num_partitions", "numPartitions")):
        if topic[field] != _DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {words} was not set to -1.",
            )
    placed: dict[int, list[int]] = {}
    replication_factor: int | None = None
    for item in topic["assignments"]:
        index, replicas = item["partition_index"], item["broker_ids"]
        if index in placed:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_replicas(replicas, nodes=[node.id], replication_factor=replication_factor)
        replication_factor = len(replicas)
        placed[index] = replicas
    if sorted(placed) != list(range(len(placed))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [placed[index] for index in range(len(placed))]


def _described(node: "Node", plan: TopicPlan, *, topic_id: bytes | None) -> Message:
    described: Message = {
        "name": plan.name,
        "error_message": None,
        "num_partitions": len(plan.assignment),
        "replication_factor": len(plan.assignment[0]),
        "configs": [
            {
                "name": entry.name,
                # As it was written, where DescribeConfigs tells how it was understood.
                "value": plan.overrides.get(entry.name, entry.value),
                "read_only": entry.read_only,
                "config_source": entry.source,
                "is_sensitive": entry.sensitive,
            }
            for entry in describe_topic(plan.config, node.config)
        ],
    }
    if topic_id is not None:
        described["topic_id"] = topic_id
    return described


def _failed(name: str, error: ApiError) -> Message:
    return {"name": name, "error_code": error.code, "error_message": error.message}


API = Api(messages.API, 2, 7, handle)
