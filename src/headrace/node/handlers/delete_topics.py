"""DeleteTopics, versions 1 to 6: by name, from version 6 on also by id.

Ignored: the time-out. A deletion is answered when it is durable; the files follow after `file.delete.delay.ms`.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode
from headrace.ids import ZERO_TOPIC_ID
from headrace.node.apis import Api, Call, Message
from headrace.node.later import Later, gather, resolved
from headrace.node.topics import Topic
from headrace.protocol.messages import delete_topics as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_BY_ID_SINCE: Final = 6
_DISABLED_SINCE: Final = 3


def handle(node: "Node", request: Message, call: Call) -> Later[Message]:
    asked = request["topics"]
    if call.version < _BY_ID_SINCE:
        asked = [{"name": name, "topic_id": ZERO_TOPIC_ID} for name in request["topic_names"]]
    answers: list[Later[Message]] = []
    topics: dict[bytes, tuple[Topic, str | None]] = {}
    for (name, topic_id), count in Counter((item["name"], item["topic_id"]) for item in asked).items():
        try:
            if not node.config.delete_topic_enable:
                raise _disabled(call.version)
            topic = _find(node, name, topic_id, is_repeated=count > 1)
            if topic.id in topics:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
        except ApiError as error:
            answers.append(resolved(_result(name, topic_id, error)))
            continue
        topics[topic.id] = (topic, name)
    answers += [_delete(node, topic) for topic, _ in topics.values()]
    return gather(answers).map(lambda responses: {"responses": responses})


def _disabled(version: int) -> ApiError:
    if version < _DISABLED_SINCE:
        return ApiError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
    return ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")


def _find(node: "Node", name: str | None, topic_id: bytes, *, is_repeated: bool) -> Topic:
    by_id = topic_id != ZERO_TOPIC_ID
    if name is not None and by_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and not by_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if is_repeated:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if by_id else 'name'}.")
    if name is None:
        topic = node.topics.with_id(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic
    topic = node.topics.named(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return topic


def _delete(node: "Node", topic: Topic) -> Later[Message]:
    return node.delete_topic(topic).map(lambda error: _result(topic.name, topic.id, error))


def _result(name: str | None, topic_id: bytes, error: ApiError | None) -> Message:
    result: Message = {"name": name, "topic_id": topic_id}
    if error is not None:
        result |= {"error_code": error.code, "error_message": error.message}
    return result


API = Api(messages.API, 1, 6, handle)
