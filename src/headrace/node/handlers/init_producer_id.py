"""InitProducerId, versions 0 to 5: an id for an idempotent producer.

Ignored: the transaction timeout, and the id and epoch that a producer had before. Kafka too gives an idempotent
producer a new id, since nothing ties the old one to it.

Transactions are not served. Their clients ask for a coordinator first, and there and here are told
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the one error that every client takes as final, where others are retried until
some distant time-out. Version 6 is withheld, as Kafka withholds it.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later
from headrace.protocol.messages import init_producer_id as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_NONE: Final = -1


def handle(node: "Node", request: Message, call: Call) -> Message | Later[Message]:
    transactional_id = request["transactional_id"]
    if transactional_id is not None:
        if not transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)
        return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request["producer_id"] == _NONE) != (request["producer_epoch"] == _NONE):
        return _failed(ErrorCode.INVALID_REQUEST)
    return node.next_producer_id().map(_given)


def _given(producer_id: int | ApiError) -> Message:
    if isinstance(producer_id, ApiError):
        return _failed(producer_id.code)
    return {"producer_id": producer_id, "producer_epoch": 0}


def _failed(code: ErrorCode) -> Message:
    return {"error_code": code, "producer_id": _NONE, "producer_epoch": _NONE}


API = Api(messages.API, 0, 5, handle, notes="Idempotent producers only: a transactional id is refused (error 53).")
