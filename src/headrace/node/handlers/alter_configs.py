"""AlterConfigs, versions 0 to 2: the settings given replace all that a resource had."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.config_resources import Overrides, alter
from headrace.node.later import Later
from headrace.node.settings import Setting
from headrace.protocol.messages import alter_configs as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    return alter(node, request, _replaced)


def _replaced(configs: list[Message], current: Mapping[str, str], rows: Mapping[str, Setting]) -> Overrides:
    refuse_nulls([config["name"] for config in configs if config["value"] is None])
    return {config["name"]: config["value"] for config in configs}


def refuse_nulls(names: list[str]) -> None:
    if names:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(names)}")


API = Api(messages.API, 0, 2, handle)
