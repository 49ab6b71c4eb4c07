"""How large partitions are on the brokers' disks.

librdkafka has no DescribeLogDirs, so it is asked over a plain socket, at the version that every Kafka since 1.0
answers. Through TLS or SASL it is not asked and sizes stay unknown: they are an extra, never a reason to fail.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.plain_request import Address, ask, is_plain
from headrace.errors import ProtocolError
from headrace.ids import TopicName, TopicPartition
from headrace.protocol.messages.describe_log_dirs import API

_VERSION: Final = 1


def leader_sizes(cluster: Connection, leaders: Mapping[TopicPartition, Address]) -> dict[TopicPartition, int]:
    """Bytes on the leader's disk for each partition whose leader would say."""
    if not is_plain(cluster):
        return {}
    sizes: dict[TopicPartition, int] = {}
    for address in set(leaders.values()):
        wanted = [partition for partition, leader in leaders.items() if leader == address]
        try:
            sizes |= _ask(address, wanted, timeout_s=cluster.timeout_s)
        except (OSError, ProtocolError):
            continue
    return sizes


def _ask(address: Address, wanted: Iterable[TopicPartition], *, timeout_s: float) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in wanted:
        by_topic.setdefault(topic, []).append(partition)
    topics = [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
    response = ask(address, API, {"topics": topics}, version=_VERSION, timeout_s=timeout_s)
    return {
        TopicPartition(TopicName(topic["name"]), partition["partition_index"]): partition["partition_size"]
        for log_dir in response["results"]
        for topic in log_dir["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }
