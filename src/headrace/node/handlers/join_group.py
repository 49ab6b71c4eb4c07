"""JoinGroup, versions 0 to 9: answered when the next generation is complete.

Ignored: the reason, which is for logs.
"""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import join_group as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    def refused(code: ErrorCode) -> Message:
        return answers.join_refused(call.version, code, member_id=request["member_id"])

    return node.groups.decide(Coordinator.decide_join, request, call, refused=refused)


API = Api(messages.API, 0, 9, handle)
