"""OffsetCommit, versions 2 to 9: how far a group has read.

What is committed of partitions that do not exist is refused here; the group never hears of it. Version 10, with topics
by id, is withheld, as Kafka withholds it.
"""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import offset_commit as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message | Later[Message]:
    known: list[Message] = []
    unknown: list[Message] = []
    for topic in request["topics"]:
        there, missing = partitions_by_presence(node, topic)
        if there:
            known.append({**topic, "partitions": there})
        if missing:
            unknown.append({**topic, "partitions": missing})
    refused = answers.commit_refused({"topics": unknown}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)["topics"]
    if unknown and not known:
        return {"topics": refused}
    committed = {**request, "topics": known}
    answer = node.groups.decide(
        Coordinator.decide_commit, committed, call, refused=lambda code: answers.commit_refused(committed, code)
    )
    return answer.map(lambda said: {"topics": merged(said["topics"], refused)}) if refused else answer


def partitions_by_presence(node: "Node", topic: Message) -> tuple[list[Message], list[Message]]:
    """The partitions that are there, and those that are not."""
    found = node.topics.named(topic["name"])
    count = 0 if found is None else len(found.partitions)
    there = [one for one in topic["partitions"] if 0 <= one["partition_index"] < count]
    return there, [one for one in topic["partitions"] if not 0 <= one["partition_index"] < count]


def merged(topics: list[Message], refused: list[Message]) -> list[Message]:
    """Every topic once, with all of its partitions."""
    by_name = {topic["name"]: topic for topic in topics}
    for topic in refused:
        known = by_name.setdefault(topic["name"], {**topic, "partitions": []})
        known["partitions"] = known["partitions"] + topic["partitions"]
    return list(by_name.values())


API = Api(messages.API, 2, 9, handle)
