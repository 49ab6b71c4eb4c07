"""OffsetForLeaderEpoch, versions 2 to 4.

A consumer that sees a new leader epoch asks where the one ended under which it last read, and finds out whether the
log was cut below its position. Every unclean stop makes a new epoch, and a client may wait for ever where this is
missing (kafka-python does).

Ignored: who asks. A follower and a consumer get the same answer.
"""

from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Api, Call, Message
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
            if partition.log.offline is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            epoch, end_offset = partition.end_of_epoch(asked["leader_epoch"])
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


API = Api(messages.API, 2, 4, handle)
