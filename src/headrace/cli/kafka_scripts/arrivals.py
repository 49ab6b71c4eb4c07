"""What there is to read at the moment, and what comes later: topics that are not there yet, partitions that are added.

Asking for a topic by its name has it made, where the broker makes topics. What comes after the first look is read from
its beginning: all of it came since. Only the first look waits for a cluster that is slow; later ones are taken by who
is reading. Knows no messages.
"""

import re
import time
from collections.abc import Callable
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.topics import INTERNAL
from headrace.cli.output import CommandError
from headrace.cli.topic_facts import ClusterRefusal
from headrace.ids import TopicName, TopicPartition

LOOK_EVERY_S: Final = 0.5
GLANCE_S: Final = 0.5
_BEGINNING: Final = -2  # The client library's OFFSET_BEGINNING.

Look = Callable[[float], set[TopicPartition]]  # Given how long it may take, in seconds.


def look_for_topic(cluster: Connection, topic: str, partition: int | None, timeout_s: float) -> set[TopicPartition]:
    """Its partitions, or this one; none as long as it is not there."""
    from confluent_kafka import KafkaError

    found = cluster.cluster_metadata(cluster.admin(), topic, timeout_s=timeout_s).topics[topic]
    if found.error is not None:
        if found.error.code() not in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}:
            raise ClusterRefusal(topic, found.error)
        return set()
    return {TopicPartition(TopicName(topic), number) for number in found.partitions if partition in {None, number}}


def look_for_pattern(cluster: Connection, pattern: re.Pattern[str], timeout_s: float) -> set[TopicPartition]:
    """Those of topics that match as a whole, Kafka's own topics left out."""
    topics = cluster.cluster_metadata(cluster.admin(), timeout_s=timeout_s).topics
    return {
        TopicPartition(TopicName(name), number)
        for name, topic in topics.items()
        if name not in INTERNAL and pattern.fullmatch(name)
        for number in topic.partitions
    }


class Arrivals:
    """What has come since it was last asked, and where to begin in it. It looks every so often."""

    def __init__(
        self,
        look: Look,
        known: set[TopicPartition],
        *,
        offset: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._known = set(known)
        self._offset = _BEGINNING if offset is None else offset
        self._now_s = now_s
        self._due_s = now_s() + LOOK_EVERY_S

    def __call__(self) -> dict[TopicPartition, int]:
        if self._now_s() < self._due_s:
            return {}
        come = _glance(self._look) - self._known
        self._due_s = self._now_s() + LOOK_EVERY_S
        self._known |= come
        return dict.fromkeys(sorted(come), self._offset)


def wait_for(look: Look, *, quiet_s: float | None) -> bool:
    """Until there is something; false if that took too long."""
    began_s = time.monotonic()
    while not _glance(look):
        if quiet_s is not None and time.monotonic() - began_s >= quiet_s:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _glance(look: Look) -> set[TopicPartition]:
    try:
        return look(GLANCE_S)
    except ClusterRefusal:
        raise
    except CommandError:  # Nobody answers at the moment, which is no reason to end.
        return set()
