"""DescribeCluster, versions 0 to 2.

Ignored: whether fenced brokers are wanted too, for there are none.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.operations import CLUSTER_OPERATIONS
from headrace.protocol.messages import describe_cluster as messages
from headrace.protocol.messages.metadata import OPERATIONS_UNKNOWN

if TYPE_CHECKING:
    from headrace.node.node import Node

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(node: "Node", request: Message, call: Call) -> Message:
    endpoint_type = request["endpoint_type"]
    if endpoint_type == _CONTROLLERS:
        return _failed(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if endpoint_type != _BROKERS:
        return _failed(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}")
    asked = request["include_cluster_authorized_operations"]
    endpoint = node.endpoints[call.client.listener]
    return {
        "cluster_id": node.identity.cluster_id,
        "controller_id": node.id,
        "brokers": [
            {
                "broker_id": node.id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": node.config.broker_rack,
            }
        ],
        "cluster_authorized_operations": CLUSTER_OPERATIONS if asked else OPERATIONS_UNKNOWN,
    }


def _failed(code: ErrorCode, message: str) -> Message:
    return {"error_code": code, "error_message": message}


API = Api(messages.API, 0, 2, handle)
