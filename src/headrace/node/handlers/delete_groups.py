"""DeleteGroups, versions 0 to 2: groups without members are forgotten, with their offsets."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.coordination.coordinator import Coordinator
from headrace.coordination.decision import Decision, Now
from headrace.coordination.members import Caller
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later, gather
from headrace.protocol.messages import delete_groups as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    deleted = [_delete(node, group_id, call) for group_id in dict.fromkeys(request["groups_names"])]
    return gather(deleted).map(lambda said: {"results": [result for one in said for result in one["results"]]})


def _delete(node: "Node", group_id: str, call: Call) -> Later[Message]:
    def decide(coordinator: Coordinator, request: Message, caller: Caller, now: Now) -> Decision:
        return coordinator.decide_delete_groups([request["group_id"]], caller, now)

    return node.groups.decide(
        decide, {"group_id": group_id}, call, refused=lambda code: answers.delete_refused([group_id], code)
    )


API = Api(messages.API, 0, 2, handle)
