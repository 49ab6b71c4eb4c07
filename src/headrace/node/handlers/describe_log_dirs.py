"""DescribeLogDirs, versions 1 to 4: one directory, and how much of each partition is in it.

As in Kafka, a partition that is asked for and not there is left out, and so is a topic without partitions: the
answer describes directories. Version 5, which only adds cordoned directories, is not in any released Kafka yet.
"""

from typing import TYPE_CHECKING

from headrace.errors import ErrorCode, StorageError
from headrace.node.apis import Api, Call, Message
from headrace.node.topics import Partition
from headrace.protocol.messages import describe_log_dirs as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle(node: "Node", request: Message, call: Call) -> Message:
    asked = request["topics"]
    wanted: dict[str, list[Partition]] = {}
    if asked is None:
        wanted = {topic.name: topic.partitions for topic in node.topics}
    else:
        indexes: dict[str, set[int]] = {}
        for item in asked:
            indexes.setdefault(item["topic"], set()).update(item["partitions"])
        for name, chosen in indexes.items():
            topic = node.topics.named(name)
            if topic is not None:
                wanted[name] = [partition for partition in topic.partitions if partition.index in chosen]
    log_dir = node.config.log_dirs or node.config.log_dir
    try:
        total_bytes, usable_bytes = node.data.total_bytes(), node.data.free_bytes()
    except StorageError as error:
        node.events.error("disk does not say its size", error=error)
        return {"results": [{"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": log_dir}]}
    return {
        "results": [
            {
                "log_dir": log_dir,
                "topics": [
                    {"name": name, "partitions": [_partition(each) for each in partitions]}
                    for name, partitions in wanted.items()
                    if partitions
                ],
                "total_bytes": total_bytes,
                "usable_bytes": usable_bytes,
            }
        ]
    }


def _partition(partition: Partition) -> Message:
    return {"partition_index": partition.index, "partition_size": partition.log.size_bytes}


API = Api(messages.API, 1, 4, handle)
