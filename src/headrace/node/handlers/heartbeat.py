"""Heartbeat, versions 0 to 4: a member is still there, and hears whether it has to join again."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import heartbeat as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    return node.groups.decide(Coordinator.decide_heartbeat, request, call, refused=answers.refused)


API = Api(messages.API, 0, 4, handle)
