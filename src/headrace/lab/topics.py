"""The topics that are measured on: made, assigned to brokers where that is asked for, and deleted afterwards."""

import time
from collections.abc import Mapping, Sequence

from headrace.errors import ErrorCode
from headrace.ids import TopicName, TopicPartition
from headrace.lab.errors import LabError
from headrace.protocol.messages.create_topics import API as CREATE_TOPICS
from headrace.protocol.messages.delete_topics import API as DELETE_TOPICS
from headrace.wire.cluster import Cluster
from headrace.wire.errors import refusal
from headrace.wire.offsets import EARLIEST, LATEST, list_offsets
from headrace.wire.settings import client_settings

_TIMEOUT_MS = 30_000
_KEPT_S_MAX = 20
_LOOK_S = 0.1
_AS_THE_BROKER_SAYS = -1


def assigned(
    *, partitions: int, replication: int, leader: int, brokers: Sequence[int]
) -> list[dict[str, int | list[int]]]:
    """All partitions to one broker, which leads them; replicas beyond it go to those that follow it."""
    assert leader in brokers
    assert replication <= len(brokers)
    first = brokers.index(leader)
    replicas = [brokers[(first + number) % len(brokers)] for number in range(replication)]
    return [{"partition_index": number, "broker_ids": list(replicas)} for number in range(partitions)]


def create_topic(
    settings: Mapping[str, str],
    topic: str,
    *,
    partitions: int,
    replication: int | None = None,
    leader: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Ready to be used: every partition has a leader. `leader` is the id of the broker that is to have all of it."""
    with Cluster(client_settings(config=settings)) as cluster:
        by_counts = {
            "num_partitions": partitions,
            "replication_factor": _AS_THE_BROKER_SAYS if replication is None else replication,
        }
        if leader is not None:
            places = assigned(
                partitions=partitions,
                replication=replication or 1,
                leader=leader,
                brokers=sorted(cluster.refresh().brokers),
            )
            by_counts = {"num_partitions": _AS_THE_BROKER_SAYS, "replication_factor": _AS_THE_BROKER_SAYS}
        else:
            places = []
        asked = {
            "name": topic,
            **by_counts,
            "assignments": places,
            "configs": [{"name": name, "value": value} for name, value in (config or {}).items()],
        }
        answer = cluster.call_any(CREATE_TOPICS, {"topics": [asked], "timeout_ms": _TIMEOUT_MS})
        (told,) = answer["topics"]
        if told["error_code"] != ErrorCode.NONE:
            why = f": {told['error_message']}" if told["error_message"] else ""
            raise refusal(told["error_code"], f"topic {topic!r}{why}")
        for partition in range(partitions):
            cluster.leader(topic, partition)


def wait_kept(settings: Mapping[str, str], topic: str, *, messages: int) -> None:
    """Until a new topic has come to hold exactly what was sent, which with acks=0 may lag the sender a little."""
    with Cluster(client_settings(config=settings)) as cluster:
        ends = {TopicPartition(TopicName(topic), number): LATEST for number in cluster.partitions(topic)}
        deadline_s = time.monotonic() + _KEPT_S_MAX
        while (kept := sum(each.offset for each in list_offsets(cluster, ends).values())) != messages:
            if kept > messages or time.monotonic() > deadline_s:
                raise LabError(f"topic {topic} holds {kept} messages, {messages} were sent")
            time.sleep(_LOOK_S)


def count_deleted(settings: Mapping[str, str], topic: str) -> int:
    """How many messages a new topic has lost to its retention by now."""
    with Cluster(client_settings(config=settings)) as cluster:
        starts = {TopicPartition(TopicName(topic), number): EARLIEST for number in cluster.partitions(topic)}
        return sum(each.offset for each in list_offsets(cluster, starts).values())


def delete_topic(settings: Mapping[str, str], topic: str) -> None:
    with Cluster(client_settings(config=settings)) as cluster:
        body = {"topics": [{"name": topic}], "topic_names": [topic], "timeout_ms": _TIMEOUT_MS}
        (told,) = cluster.call_any(DELETE_TOPICS, body)["responses"]
        if told["error_code"] != ErrorCode.NONE:
            raise refusal(told["error_code"], f"topic {topic!r}")
