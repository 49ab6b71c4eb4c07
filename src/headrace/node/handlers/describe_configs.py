"""DescribeConfigs, versions 1 to 4: settings of topics, of this node, and the defaults of all nodes.

Documentation is our own, and shorter than Kafka's. Loggers are described as none: this node's log has no levels to
turn. Groups and client metrics are refused; they are not served.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode
from headrace.ids import parse_topic_name
from headrace.node.apis import Api, Call, Message
from headrace.node.config_entries import ConfigEntry, describe_broker, describe_broker_defaults, describe_topic
from headrace.node.config_resources import ResourceType
from headrace.protocol.messages import describe_configs as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

# Kafka's words for any bad request.
_UNSUPPORTED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def handle(node: "Node", request: Message, call: Call) -> Message:
    return {"results": [_describe(node, resource, request) for resource in request["resources"]]}


def _describe(node: "Node", resource: Message, request: Message) -> Message:
    answer: Message = {"resource_type": resource["resource_type"], "resource_name": resource["resource_name"]}
    try:
        entries = _entries(node, resource["resource_type"], resource["resource_name"])
    except ApiError as error:
        return answer | {"error_code": error.code, "error_message": error.message or ""}
    keys = frozenset(resource["configuration_keys"] or ())
    answer["configs"] = [_config(entry, request) for entry in entries if not keys or entry.name in keys]
    return answer


def _entries(node: "Node", resource_type: int, name: str) -> Iterable[ConfigEntry]:
    if resource_type == ResourceType.TOPIC:
        topic = node.topics.named(parse_topic_name(name))
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(topic.config, node.config)
    if resource_type == ResourceType.BROKER:
        if not name:
            return describe_broker_defaults(node.config)
        _refuse_other_node(node, name, expected=f"{node.id} or empty string,")
        return describe_broker(node.config)
    if resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _refuse_other_node(node, name, expected=str(node.id))
        return ()
    raise ApiError(ErrorCode.INVALID_REQUEST, _UNSUPPORTED)


def _refuse_other_node(node: "Node", name: str, *, expected: str) -> None:
    try:
        node_id = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if node_id != node.id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} but received {name}")


def _config(entry: ConfigEntry, request: Message) -> Message:
    synonyms = entry.synonyms if request["include_synonyms"] else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.sensitive,
        "synonyms": [{"name": each.name, "value": each.value, "source": each.source} for each in synonyms],
        "config_type": entry.type_code,
        "documentation": entry.documentation if request["include_documentation"] else None,
    }


API = Api(messages.API, 1, 4, handle, notes="Settings that this node knows; documentation in our own words.")
