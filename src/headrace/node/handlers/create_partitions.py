"""CreatePartitions, versions 0 to 3.

Ignored: the time-out, for the reason that CreateTopics gives.
"""

from collections import Counter
from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later, gather, resolved
from headrace.node.placement import PARTITIONS_PER_REQUEST_MAX, check_replicas, place
from headrace.node.topics import Topic
from headrace.protocol.messages import create_partitions as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    counts = Counter(topic["name"] for topic in request["topics"])
    answers = [
        _grow(node, topic, validate_only=request["validate_only"])
        for topic in request["topics"]
        if counts[topic["name"]] == 1
    ]
    repeated = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    answers += [resolved(_result(name, repeated)) for name, count in counts.items() if count > 1]
    return gather(answers).map(lambda results: {"results": results})


def _grow(node: "Node", asked: Message, *, validate_only: bool) -> Later[Message]:
    name = asked["name"]
    try:
        topic = node.topics.named(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assignment = _decide_growth(node, topic, asked)
        if validate_only:
            return resolved(_result(name, None))
        return node.catalogue.add_partitions(topic, assignment).map(lambda error: _result(name, error))
    except ApiError as error:
        return resolved(_result(name, error))


def _decide_growth(node: "Node", topic: Topic, asked: Message) -> list[list[int]]:
    """Replicas of each partition to add."""
    existing = node.catalogue.accepted(topic).partitions
    count = asked["count"]
    if count == len(existing):
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if count < len(existing):
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {len(existing)} partition(s); {count} would not be an increase.",
        )
    additional = count - len(existing)
    assignments = asked["assignments"]
    if assignments is not None and len(assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified.",
        )
    if additional > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        )
    replication_factor = len(existing[0][1])
    if assignments is None:
        return place(additional, replication_factor=replication_factor, nodes=[node.id])
    for item in assignments:
        check_replicas(item["broker_ids"], nodes=[node.id], replication_factor=replication_factor)
    return [item["broker_ids"] for item in assignments]


def _result(name: str, error: ApiError | None) -> Message:
    if error is None:
        return {"name": name}
    return {"name": name, "error_code": error.code, "error_message": error.message}


API = Api(messages.API, 0, 3, handle)
