"""OffsetDelete, version 0: a group forgets how far it has read some partitions."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import offset_delete as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message | Later[Message]:
    known = [topic for topic in request["topics"] if node.topics.named(topic["name"]) is not None]
    unknown = [_unknown(topic) for topic in request["topics"] if topic not in known]
    if unknown and not known:
        return {"topics": unknown}

    def with_unknown(said: Message) -> Message:
        return said if said.get("error_code") else {**said, "topics": said["topics"] + unknown}

    deleted = {**request, "topics": known}
    answer = node.groups.decide(Coordinator.decide_delete_offsets, deleted, call, refused=answers.refused)
    return answer.map(with_unknown)


def _unknown(topic: Message) -> Message:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {**topic, "partitions": [{**partition, "error_code": code} for partition in topic["partitions"]]}


API = Api(messages.API, 0, 0, handle)
