"""ListGroups, versions 0 to 5: the groups of this node, of some states or types if asked."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.errors import ApiError
from headrace.node.apis import Api, Call, Message
from headrace.protocol.messages import list_groups as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    states, types = request["states_filter"], request["types_filter"]
    try:
        coordinators = node.groups.coordinators()
    except ApiError as error:
        return answers.refused(error.code)
    listed = [one.list_groups(states=states, types=types) for one in coordinators]
    return {"groups": [group for groups in listed for group in groups]}


API = Api(messages.API, 0, 5, handle)
