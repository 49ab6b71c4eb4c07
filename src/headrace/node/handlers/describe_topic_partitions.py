"""DescribeTopicPartitions, version 0: topics in the order of their names, by the page.

A page ends at the limit of the request or at `max.request.partition.size.limit`; its cursor names the partition
that comes next. A topic is created by none of this.
"""

from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.ids import parse_topic_name
from headrace.node.apis import Api, Call, Message
from headrace.node.operations import TOPIC_OPERATIONS
from headrace.node.topics import INTERNAL_TOPICS, Partition, Topic
from headrace.protocol.messages import describe_topic_partitions as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    cursor = request["cursor"]
    asked = {topic["name"] for topic in request["topics"]}
    if cursor is not None and (cursor["partition_index"] < 0 or (asked and cursor["topic_name"] not in asked)):
        return {"topics": [{"error_code": ErrorCode.INVALID_REQUEST, "name": name} for name in sorted(asked)]}
    names = sorted(asked or (topic.name for topic in node.topics))
    start = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor["topic_name"]]
        if names and names[0] == cursor["topic_name"]:
            start = cursor["partition_index"]
    room = max(min(request["response_partition_limit"], node.config.max_request_partition_size_limit), 1)
    topics: list[Message] = []
    for name in names:
        if room == 0:
            return {"topics": topics, "next_cursor": _cursor(name, 0)}
        topic = node.topics.named(name)
        if topic is None:
            topics.append(_missing(name))
        else:
            page = topic.partitions[start : start + room]
            topics.append(_found(topic, page))
            room -= len(page)
            if start + len(page) < len(topic.partitions):
                return {"topics": topics, "next_cursor": _cursor(name, start + len(page))}
        start = 0
    return {"topics": topics}


def _cursor(topic_name: str, partition_index: int) -> Message:
    return {"topic_name": topic_name, "partition_index": partition_index}


def _found(topic: Topic, partitions: list[Partition]) -> Message:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(partition) for partition in partitions],
        "topic_authorized_operations": TOPIC_OPERATIONS,
    }


def _partition(partition: Partition) -> Message:
    return {
        "partition_index": partition.index,
        "leader_id": partition.replicas[0],
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.replicas,
        "eligible_leader_replicas": [],
        "last_known_elr": [],
    }


def _missing(name: str) -> Message:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        parse_topic_name(name)
    except ApiError as error:
        code = error.code
    return {
        "error_code": code,
        "name": name,
        "is_internal": name in INTERNAL_TOPICS,
        "topic_authorized_operations": TOPIC_OPERATIONS,
    }


API = Api(messages.API, 0, 0, handle)
