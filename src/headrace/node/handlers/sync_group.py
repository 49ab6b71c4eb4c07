"""SyncGroup, versions 0 to 5: answered when the leader has brought everybody's assignment."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import sync_group as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    return node.groups.decide(Coordinator.decide_sync, request, call, refused=answers.refused)


API = Api(messages.API, 0, 5, handle)
