"""FindCoordinator, versions 0 to 6: this node, for every group.

The first who asks has the topic of groups made, and waits for it. (Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile,
and lets the client ask again.) Transactions and share groups are not served: who looks for their coordinator is told
so with the error that its clients take as final.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import find_coordinator as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_MANY_SINCE: Final = 4
_GROUP: Final = 0
_NOWHERE: Final[Message] = {"node_id": -1, "host": "", "port": -1}
_REFUSED: Final = {
    1: (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not served by this node."),
    2: (ErrorCode.INVALID_REQUEST, "Share groups are not served by this node."),
}


def handle(node: "Node", request: Message, call: Call) -> Message | Later[Message]:
    kind = request["key_type"]
    keys = request["coordinator_keys"] if call.version >= _MANY_SINCE else [request["key"]]
    if kind != _GROUP:
        code, words = _REFUSED.get(kind, (ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {kind}."))
        return _answer(keys, call.version, {**_NOWHERE, "error_code": code, "error_message": words})
    endpoint = node.endpoints[call.client.listener]

    def found(code: ErrorCode) -> Message:
        if code is not ErrorCode.NONE:
            return _answer(keys, call.version, {**_NOWHERE, "error_code": code})
        return _answer(keys, call.version, {"node_id": node.id, "host": endpoint.host, "port": endpoint.port})

    return node.groups.ensure_topic().map(found)


def _answer(keys: list[str], version: int, coordinator: Message) -> Message:
    if version >= _MANY_SINCE:
        return {"coordinators": [{"key": key, **coordinator} for key in keys]}
    # Kafka says so in these versions, also where nothing is wrong.
    return {"error_message": ErrorCode(coordinator.get("error_code", ErrorCode.NONE)).name, **coordinator}


API = Api(messages.API, 0, 6, handle, notes="Groups only: for transactions and share groups nobody is found.")
