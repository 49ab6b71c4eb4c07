"""DeleteRecords, versions 0 to 2.

Ignored: the time-out, since there are no followers to wait for. The new start is on disk before it is answered: a
crash must not bring deleted records back.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode, StorageError
from headrace.ids import TopicPartition
from headrace.node.apis import Api, Call, Message
from headrace.node.topics import Partition
from headrace.protocol.messages import delete_records as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_HIGH_WATERMARK: Final = -1
_NO_OFFSET: Final = -1


def handle(node: "Node", request: Message, call: Call) -> Message:
    # A partition that is named twice is told once; the later offset counts.
    asked: dict[str, dict[int, int]] = {}
    for topic in request["topics"]:
        offsets = asked.setdefault(topic["name"], {})
        offsets.update((item["partition_index"], item["offset"]) for item in topic["partitions"])
    raised: list[Partition] = []
    answers = {
        (name, index): _raise_start(node, name, index, offset, raised)
        for name, offsets in asked.items()
        for index, offset in offsets.items()
    }
    if raised:
        try:
            node.data.checkpoint_starts()
        except StorageError as error:
            node.events.error("start offsets not written", error=error)
            for partition in raised:
                key = (partition.topic.name, partition.index)
                answers[key] = _failed(partition.index, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            node.delete_expired(raised)
    return {
        "topics": [
            {"name": name, "partitions": [answers[name, index] for index in offsets]}
            for name, offsets in asked.items()
            if offsets
        ]
    }


def _raise_start(node: "Node", name: str, index: int, offset: int, raised: list[Partition]) -> Message:
    try:
        partition = node.topics.partition(name, index)
        log, config = partition.log, partition.topic.config
        if log.offline is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if partition.topic.is_internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if config.cleanup_policy and not config.deletes:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if offset == _HIGH_WATERMARK:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    except ApiError as error:
        return _failed(index, error.code)
    if offset > log.start_offset:
        log.raise_start(offset)
        partition.notify(0)  # Readers are told of it when they are next told something.
    # An earlier request may have raised it and found no room to write it down.
    if not node.data.is_start_written(TopicPartition(partition.topic.name, partition.index)):
        raised.append(partition)
    return {"partition_index": index, "low_watermark": log.start_offset}


def _failed(index: int, code: ErrorCode) -> Message:
    return {"partition_index": index, "low_watermark": _NO_OFFSET, "error_code": code}


API = Api(messages.API, 0, 2, handle)
