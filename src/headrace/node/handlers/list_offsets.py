"""ListOffsets, versions 1 to 11.

Version 11, newer than any released Kafka, has the shape of 10 and allows one more special timestamp, which is about
remote storage; some clients use it wherever it is offered.

Ignored: the time-out, which is for lookups in remote storage.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, CorruptBatch, ErrorCode, StorageError
from headrace.node.apis import Api, Call, Message
from headrace.node.topics import Partition
from headrace.protocol.messages import list_offsets as messages
from headrace.storage.segment import TimestampOffset

if TYPE_CHECKING:
    from headrace.node.node import Node

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The version in which each negative timestamp got its meaning.
_SPECIAL_SINCE: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_NOWHERE: Final = TimestampOffset(-1, -1, -1)


def handle(node: "Node", request: Message, call: Call) -> Message:
    # A partition that is asked for twice is answered once, and refused: two answers could not be told apart.
    asked_for: dict[str, dict[int, Message | None]] = {}
    for topic in request["topics"]:
        partitions = asked_for.setdefault(topic["name"], {})
        for asked in topic["partitions"]:
            index = asked["partition_index"]
            partitions[index] = None if index in partitions else asked
    is_consumer = request["replica_id"] == _CONSUMER

    def look_up(name: str, index: int, asked: Message | None) -> Message:
        code, found = ErrorCode.NONE, _NOWHERE
        try:
            if asked is None or request["isolation_level"] not in (_READ_UNCOMMITTED, _READ_COMMITTED):
                raise ApiError(ErrorCode.INVALID_REQUEST)
            if asked["timestamp"] < 0 and call.version < _SPECIAL_SINCE.get(asked["timestamp"], 1 << 15):
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            partition = node.topics.partition(name, index)
            partition.check_epoch(asked["current_leader_epoch"])
            found = _find(partition, asked["timestamp"], is_consumer=is_consumer)
        except ApiError as error:
            code = error.code
        return {
            "partition_index": index,
            "error_code": code,
            "timestamp": found.timestamp,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch,
        }

    return {
        "topics": [
            {"name": name, "partitions": [look_up(name, index, asked) for index, asked in partitions.items()]}
            for name, partitions in asked_for.items()
            if partitions
        ]
    }


def _find(partition: Partition, timestamp: int, *, is_consumer: bool) -> TimestampOffset:
    log = partition.log
    if log.offline is not None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    if timestamp == LATEST:
        # Without transactions everything visible is stable, so the isolation level makes no difference.
        end = log.high_watermark if is_consumer else log.end_offset
        return TimestampOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_at(log.start_offset)
        return TimestampOffset(-1, log.start_offset, partition.leader_epoch if epoch < 0 else epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    try:
        found = log.find_max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_timestamp(timestamp)
    except CorruptBatch as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE) from error
    except StorageError as error:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return found or _NOWHERE


API = Api(messages.API, 1, 11, handle, notes="Version 11 as 10: there is no remote storage.")
