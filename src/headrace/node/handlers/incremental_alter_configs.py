"""IncrementalAlterConfigs, versions 0 and 1: settings one by one, the others staying as they are."""

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.config_resources import Overrides, alter
from headrace.node.handlers.alter_configs import refuse_nulls
from headrace.node.later import Later
from headrace.node.settings import Kind, Setting, value_text
from headrace.protocol.messages import alter_configs as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    return alter(node, request, _edited)


def _edited(configs: list[Message], current: Mapping[str, str], rows: Mapping[str, Setting]) -> Overrides:
    refuse_nulls(
        [
            config["name"]
            for config in configs
            if config["value"] is None and config["config_operation"] != Operation.DELETE
        ]
    )
    overrides = dict(current)
    for config in configs:
        name, operation, value = config["name"], config["config_operation"], config["value"]
        if operation == Operation.SET:
            overrides[name] = value
        elif operation == Operation.DELETE:
            overrides.pop(name, None)
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            overrides[name] = _edited_list(Operation(operation), name, value, current.get(name), rows.get(name))
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown config operation {operation}")
    return overrides


def _edited_list(operation: Operation, name: str, value: str, current: str | None, row: Setting | None) -> str:
    if row is None or row.kind is not Kind.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST.")
    text = value_text(row.default) if current is None else current
    items = text.split(",") if text else []
    for item in value.split(","):
        if operation is Operation.SUBTRACT and item in items:
            items.remove(item)
        elif operation is Operation.APPEND and item not in items:
            items.append(item)
    return ",".join(items)


API = Api(messages.INCREMENTAL_API, 0, 1, handle)
