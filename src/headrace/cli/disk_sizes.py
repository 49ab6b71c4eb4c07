"""How large partitions are on the brokers' disks.

librdkafka has no DescribeLogDirs, so the brokers are asked in their own words. Sizes are an extra: those of a broker
that does not tell, for whatever reason, stay unknown.
"""

from collections.abc import Iterable, Mapping

from headrace.cli.connection import Connection
from headrace.errors import HeadraceError
from headrace.ids import TopicName, TopicPartition
from headrace.protocol.messages.describe_log_dirs import API
from headrace.wire.settings import Address


def leader_sizes(cluster: Connection, leaders: Mapping[TopicPartition, Address]) -> dict[TopicPartition, int]:
    """Bytes on the leader's disk for each partition whose leader would say."""
    sizes: dict[TopicPartition, int] = {}
    for address in set(leaders.values()):
        wanted = [partition for partition, leader in leaders.items() if leader == address]
        try:
            sizes |= _ask(cluster, address, wanted)
        except HeadraceError:
            continue
    return sizes


def _ask(cluster: Connection, address: Address, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in wanted:
        by_topic.setdefault(topic, []).append(partition)
    topics = [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
    response = cluster.ask(address, API, {"topics": topics})
    return {
        TopicPartition(TopicName(topic["name"]), partition["partition_index"]): partition["partition_size"]
        for log_dir in response["results"]
        for topic in log_dir["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }
