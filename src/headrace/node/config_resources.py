"""What settings belong to, and changing them: topics, this node, all nodes.

One request changes several resources, each wholly or not at all. The two APIs for it differ only in how they say
what the settings shall be, which is the `Change` that each brings along.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.errors import ApiError, ConfigError, ErrorCode
from headrace.ids import parse_topic_name
from headrace.node.apis import Message
from headrace.node.configs import BrokerConfig, TopicConfig, parse_broker_override
from headrace.node.later import Later, gather, resolved
from headrace.node.settings import Setting

if TYPE_CHECKING:
    from headrace.node.node import Node

Overrides = dict[str, str]
# Of a resource's settings as the request words them, those that it has, and the table: those that it shall have.
Change = Callable[[list[Message], Mapping[str, str], Mapping[str, Setting]], Overrides]


class ResourceType(IntEnum):
    """Kafka's numbers for what has settings; groups and client metrics, which have some too, are not served."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


def alter(node: "Node", request: Message, change: Change) -> Later[Message]:
    """Both requests' answer: one response for each resource, in their order."""
    resources = request["resources"]
    counts = Counter((resource["resource_type"], resource["resource_name"]) for resource in resources)

    def alter_one(resource: Message) -> Later[Message]:
        kind, name = resource["resource_type"], resource["resource_name"]

        def response(error: ApiError | None) -> Message:
            return {
                "error_code": error.code if error is not None else ErrorCode.NONE,
                "error_message": error.message if error is not None else None,
                "resource_type": kind,
                "resource_name": name,
            }

        try:
            if counts[kind, name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if len({config["name"] for config in resource["configs"]}) < len(resource["configs"]):
                raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            altered = _alter(node, resource, change, validate_only=request["validate_only"])
        except ApiError as error:
            return resolved(response(error))
        return altered.map(response)

    return gather([alter_one(resource) for resource in resources]).map(lambda responses: {"responses": responses})


def _alter(node: "Node", resource: Message, change: Change, *, validate_only: bool) -> Later[ApiError | None]:
    kind, name = resource["resource_type"], resource["resource_name"]
    if kind == ResourceType.TOPIC:
        return _alter_topic(node, name, resource["configs"], change, validate_only=validate_only)
    if kind == ResourceType.BROKER:
        return _alter_broker(node, name, resource["configs"], change, validate_only=validate_only)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _alter_topic(
    node: "Node", name: str, configs: list[Message], change: Change, *, validate_only: bool
) -> Later[ApiError | None]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = node.topics.named(parse_topic_name(name))
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    current = node.catalogue.accepted(topic).overrides
    overrides = change(configs, current, TopicConfig.rows)
    TopicConfig.resolve(node.config, overrides)
    if validate_only or overrides == current:
        return resolved(None)
    return node.catalogue.configure(topic, overrides)


def _alter_broker(
    node: "Node", name: str, configs: list[Message], change: Change, *, validate_only: bool
) -> Later[ApiError | None]:
    if name:
        _refuse_other_node(node, name)
    current = node.broker_overrides(name)
    overrides = change(configs, current, BrokerConfig.rows)
    for setting, text in overrides.items():
        if current.get(setting) != text:
            parse_broker_override(setting, text)
    scopes = {"": node.broker_overrides(""), str(node.id): node.broker_overrides(str(node.id)), name: overrides}
    try:
        config = BrokerConfig.resolve(
            node.static_config.layers[-1].texts, dynamic=scopes[str(node.id)], dynamic_default=scopes[""]
        )
        for topic in node.topics:
            TopicConfig.resolve(config, topic.overrides)
    except (ConfigError, ApiError) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
    if validate_only or overrides == current:
        return resolved(None)
    return node.configure_broker(name, overrides)


def _refuse_other_node(node: "Node", name: str) -> None:
    try:
        node_id = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if node_id != node.id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.id}, but received {name}")
