"""LeaveGroup, versions 0 to 5: members go, by themselves or at an administrator's wish.

Ignored: the reason, which is for logs.
"""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import leave_group as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    return node.groups.decide(Coordinator.decide_leave, request, call, refused=answers.refused)


API = Api(messages.API, 0, 5, handle)
