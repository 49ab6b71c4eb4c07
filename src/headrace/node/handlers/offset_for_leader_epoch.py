"""OffsetForLeaderEpoch, versions 2 to 4.

A consumer that sees a new leader epoch asks where the one ended under which it last read, and finds out whether the
log was cut below its position. Every unclean stop makes a new epoch, and a client may wait for ever where this is
missing (kafka-python does).

Ignored: who asks. A follower and a consumer get the same answer.
"""

from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
from headrace.node.topics import Partition
from headrace.protocol.messages import offset_for_leader_epoch as messages
from headrace.storage.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    def look_up(name: str, asked: Message) -> Message:
        code, epoch, end_offset = ErrorCode.NONE, UNDEFINED_EPOCH, UNDEFINED_OFFSET
        try:
            partition = node.topics.partition(name, asked["partition"])
            partition.check_epoch(asked["current_leader_epoch"])
            epoch, end_offset = _end_of(partition, asked["leader_epoch"])
        except ApiError as error:
            code = error.code
        return {
            "error_code": code,
            "partition": asked["partition"],
            "leader_epoch": epoch,
            "end_offset": end_offset,
        }

    return {
        "topics": [
            {"topic": topic["topic"], "partitions": [look_up(topic["topic"], asked) for asked in topic["partitions"]]}
            for topic in request["topics"]
        ]
    }


def _end_of(partition: Partition, epoch: int) -> tuple[int, int]:
    """The largest epoch not above the one asked for, and where it ends."""
    log = partition.log
    if log.offline is not None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    if epoch == partition.leader_epoch:
        return epoch, log.end_offset
    written = log.epochs.latest
    if written < epoch < partition.leader_epoch:
        # It wrote nothing, and so did the present one, which begins where the log ends.
        return (epoch if written == UNDEFINED_EPOCH else written), log.end_offset
    return log.epochs.end_offset(epoch, log_end_offset=log.end_offset)


API = Api(messages.API, 2, 4, handle)
