"""Metadata, versions 0 to 13.

A topic that is asked for twice is told once. As in Kafka, ids are understood from version 12 on, though the field is
there from 10 on.

A topic that does not exist is created where the request allows it and `auto.create.topics.enable` does; the answer
waits until it is there. (Kafka answers UNKNOWN_TOPIC_OR_PARTITION at once and lets the client ask again.)
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode
from headrace.ids import ZERO_TOPIC_ID, TopicName, parse_topic_name
from headrace.node.apis import Api, Call, Message
from headrace.node.handlers.create_topics import decide_topic
from headrace.node.later import Later, gather, resolved
from headrace.node.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from headrace.node.topics import INTERNAL_TOPICS, Partition, Topic
from headrace.protocol.messages import metadata as messages
from headrace.protocol.messages.metadata import OPERATIONS_UNKNOWN

if TYPE_CHECKING:
    from headrace.node.node import Node

_NONE_IS_ALL_SINCE: Final = 1
_IDS_SINCE: Final = 12


def handle(node: "Node", request: Message, call: Call) -> Message | Later[Message]:
    asked = request["topics"]
    if asked is None or (not asked and call.version < _NONE_IS_ALL_SINCE):
        return _answer(node, request, call, [_found(topic) for topic in node.topics])
    if not all(_is_understood(item, call.version) for item in asked):
        return _refused(asked)
    creates = request["allow_auto_topic_creation"] and node.config.auto_create_topics_enable
    topics: dict[str | bytes, Message] = {}
    created: list[Later[Message]] = []
    for item in asked:
        name, topic_id = item["name"], item["topic_id"]
        by_id = topic_id != ZERO_TOPIC_ID
        topic = node.topics.with_id(topic_id) if by_id else node.topics.named(name)
        if topic is not None:
            topics[topic.name] = _found(topic)
        elif by_id:
            topics[topic_id] = _missing(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id)
        elif name not in topics:
            topics[name] = _missing(name, _why_missing(name))
            if creates and topics[name]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                created.append(_create(node, name))
    if not created:
        return _answer(node, request, call, list(topics.values()))

    def answer(made: list[Message]) -> Message:
        topics.update((topic["name"], topic) for topic in made)
        return _answer(node, request, call, list(topics.values()))

    return gather(created).map(answer)


def _is_understood(item: Message, version: int) -> bool:
    if version < _IDS_SINCE:
        return item["name"] is not None and item["topic_id"] == ZERO_TOPIC_ID
    return item["name"] is not None or item["topic_id"] != ZERO_TOPIC_ID


def _refused(asked: list[Message]) -> Message:
    """All of it, without a word on the cluster, as Kafka does."""
    code = ErrorCode.INVALID_REQUEST
    topics = [{**item, "name": item["name"] or "", "error_code": code} for item in asked]
    return {"topics": topics, "error_code": code}


def _why_missing(name: str) -> ErrorCode:
    try:
        parse_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _create(node: "Node", name: str) -> Later[Message]:
    """The topic with the node's defaults, or why not. Where somebody else is creating it, what becomes of that: one who
    was told that it is there must not be told afterwards that it is not."""
    under_way = node.catalogue.creation_of(TopicName(name))
    if under_way is not None:
        return under_way.map(lambda outcome: _outcome(name, outcome))
    by_default = {"num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
    try:
        plan = decide_topic(node, {"name": name, **by_default})
    except ApiError as error:
        return resolved(_missing(name, error.code))

    created = node.catalogue.create(plan.name, overrides=plan.overrides, assignment=plan.assignment)
    return created.map(lambda outcome: _outcome(name, outcome))


def _outcome(name: str, outcome: Topic | ApiError) -> Message:
    if isinstance(outcome, Topic):
        return _found(outcome)
    if outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
        # An old one of that name is still being removed; asked again, the new one can be made.
        return _missing(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _missing(name, outcome.code)


def _answer(node: "Node", request: Message, call: Call, topics: list[Message]) -> Message:
    if request["include_topic_authorized_operations"]:
        for topic in topics:
            if topic["name"] is not None:
                topic["topic_authorized_operations"] = TOPIC_OPERATIONS
    endpoint = node.endpoints[call.client.listener]
    cluster_operations = CLUSTER_OPERATIONS if request["include_cluster_authorized_operations"] else OPERATIONS_UNKNOWN
    return {
        "brokers": [
            {"node_id": node.id, "host": endpoint.host, "port": endpoint.port, "rack": node.config.broker_rack}
        ],
        "cluster_id": node.identity.cluster_id,
        "controller_id": node.id,
        "topics": topics,
        "cluster_authorized_operations": cluster_operations,
    }


def _found(topic: Topic) -> Message:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(partition) for partition in topic.partitions],
    }


def _partition(partition: Partition) -> Message:
    return {
        "partition_index": partition.index,
        "leader_id": partition.replicas[0],
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.replicas,
    }


def _missing(name: str | None, code: ErrorCode, *, topic_id: bytes = ZERO_TOPIC_ID) -> Message:
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": name in INTERNAL_TOPICS}


API = Api(messages.API, 0, 13, handle, notes="A topic that is created on demand is answered once it is there.")
