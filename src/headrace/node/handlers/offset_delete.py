"""OffsetDelete, version 0: a group forgets how far it has read some partitions."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.handlers.offset_commit import merged, partitions_by_presence
from headrace.node.later import Later
from headrace.protocol.messages import offset_delete as messages

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
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append({**topic, "partitions": [{**one, "error_code": code} for one in missing]})
    if unknown and not known:
        return {"topics": unknown}

    def with_unknown(said: Message) -> Message:
        return said if said.get("error_code") else {"topics": merged(said["topics"], unknown)}

    deleted = {**request, "topics": known}
    answer = node.groups.decide(Coordinator.decide_delete_offsets, deleted, call, refused=answers.refused)
    return answer.map(with_unknown)


API = Api(messages.API, 0, 0, handle)
