"""DescribeGroups, versions 0 to 6: the state of groups, their members, and who was given what."""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.operations import GROUP_OPERATIONS
from headrace.protocol.messages import describe_groups as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    groups = [_describe(node, group_id, call.version) for group_id in request["groups"]]
    if request["include_authorized_operations"]:
        for group in groups:
            if group.get("error_code", ErrorCode.NONE) == ErrorCode.NONE:
                group["authorized_operations"] = GROUP_OPERATIONS
    return {"groups": groups}


def _describe(node: "Node", group_id: str, version: int) -> Message:
    try:
        return node.groups.coordinator_of(group_id).describe(group_id, version=version)
    except ApiError as error:
        return answers.describe_refused(group_id, error.code)


API = Api(messages.API, 0, 6, handle)
