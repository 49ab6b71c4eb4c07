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
    found: dict[tuple[str | None, bytes], Topic | ApiError] = {}
    for (name, topic_id), count in Counter((item["name"], item["topic_id"]) for item in asked).items():
        try:
            if not node.config.delete_topic_enable:
                raise _disabled(call.version)
            found[name, topic_id] = _find(node, name, topic_id, is_repeated=count > 1)
        except ApiError as error:
            found[name, topic_id] = error
    times = Counter(topic.id for topic in found.values() if isinstance(topic, Topic))

    def delete(name: str | None, topic_id: bytes, topic: Topic | ApiError) -> Later[Message]:
        if isinstance(topic, Topic) and times[topic.id] > 1:
            # Whoever names a topic in two ways may not mean what they say.
            topic_id = topic.id
            topic = ApiError(
                ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
            )
        if isinstance(topic, ApiError):
            return resolved(_result(name, topic_id, topic))
        gone = topic
        return node.catalogue.delete(gone).map(lambda error: _result(gone.name, gone.id, error))

    answers = [delete(name, topic_id, topic) for (name, topic_id), topic in found.items()]
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
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _result(name: str | None, topic_id: bytes, error: ApiError | None) -> Message:
    result: Message = {"name": name, "topic_id": topic_id}
    if error is not None:
        result |= {"error_code": error.code, "error_message": error.message}
    return result


API = Api(messages.API, 1, 6, handle)
