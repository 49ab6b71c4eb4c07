"""OffsetFetch, versions 1 to 9: how far groups have read.

Ignored: `require_stable`, since without transactions every offset is stable. Version 10, with topics by id, is
withheld, as Kafka withholds it.
"""

from typing import TYPE_CHECKING

from headrace.coordination import answers
from headrace.errors import ApiError
from headrace.node.apis import Api, Call, Message
from headrace.protocol.messages import offset_fetch as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    groups = [_fetch(node, group) for group in answers.fetch_groups(request, call.version)]
    return answers.fetched(request, groups, call.version)


def _fetch(node: "Node", group: Message) -> Message:
    try:
        return node.groups.coordinator_of(group["group_id"]).fetch_offsets(group)
    except ApiError as error:
        return answers.fetch_refused(group, error.code)


API = Api(messages.API, 1, 9, handle)
