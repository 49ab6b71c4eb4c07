"""The topics of this node: names and ids to partitions, and their records in the store.

The store is the truth about which topics exist, with which settings; folders on disk hold the data. A folder that
the store does not know (written by Apache Kafka, or brought here by hand) is adopted with the id it names.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from headrace.errors import ApiError, ErrorCode
from headrace.ids import TopicId, TopicName, parse_topic_id, topic_id_text
from headrace.node.configs import TopicConfig
from headrace.node.statistics import TopicTraffic
from headrace.storage.epochs import UNDEFINED_EPOCH
from headrace.storage.log import PartitionLog

TOPICS: Final = "topics/"
DELETING: Final = "deleting/"

# What a client sends that does not know the leader's epoch.
UNKNOWN_EPOCH: Final = -1

OFFSETS_TOPIC: Final = TopicName("__consumer_offsets")
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state"})


# More than anybody waits for: whoever is told of so much looks again.
MANY_BYTES: Final = 1 << 62


class Watcher(Protocol):
    """Wants to know what becomes of a partition."""

    def on_visible(self, grown_bytes: int) -> None:
        """More can be read, or something else can: nought where it is nothing to wake up for."""
        ...

    def on_gone(self) -> None:
        """The partition was deleted; this is the last that is heard of it."""
        ...


class Partition:
    """One partition that this node leads."""

    __slots__ = ("flush_timer_armed", "index", "leader_epoch", "log", "replicas", "topic", "watchers")

    def __init__(
        self, topic: "Topic", index: int, log: PartitionLog, *, leader_epoch: int, replicas: list[int]
    ) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.watchers: dict[Watcher, None] = {}
        self.flush_timer_armed = False

    def notify(self, grown_bytes: int = MANY_BYTES) -> None:
        for watcher in tuple(self.watchers):
            watcher.on_visible(grown_bytes)

    def retire(self) -> None:
        """It was deleted: what its log still has to say concerns nobody."""
        self.log.on_watermark = self.log.on_offline = _ignore
        watchers, self.watchers = self.watchers, {}
        for watcher in watchers:
            watcher.on_gone()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client that knows another leader epoch."""
        if current_leader_epoch in (UNKNOWN_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one, and the offset where it ended; both -1 where nobody can know."""
        log = self.log
        if epoch == self.leader_epoch:
            return epoch, log.end_offset
        written = log.epochs.latest
        if written < epoch < self.leader_epoch:
            # It wrote nothing, and so did the present one, which begins where the log ends.
            return (epoch if written == UNDEFINED_EPOCH else written), log.end_offset
        return log.epochs.end_offset(epoch, log_end_offset=log.end_offset)


def _ignore() -> None:
    pass


class Topic:
    __slots__ = ("config", "id", "is_internal", "name", "name_bytes", "overrides", "partitions", "traffic")

    def __init__(
        self, name: TopicName, topic_id: TopicId, config: TopicConfig, overrides: dict[str, str], traffic: TopicTraffic
    ) -> None:
        self.name = name
        self.name_bytes = name.encode()
        self.is_internal = name in INTERNAL_TOPICS
        self.id = topic_id
        self.config = config
        self.overrides = overrides
        self.partitions: list[Partition] = []
        self.traffic = traffic

    def record(self) -> str:
        """What the store keeps of a topic."""
        return topic_record(
            self.id, self.overrides, [(partition.leader_epoch, partition.replicas) for partition in self.partitions]
        )


class TopicRecord(NamedTuple):
    """A topic as the store has it; `partitions` are leader epochs and replicas."""

    id: TopicId
    overrides: dict[str, str]
    partitions: list[tuple[int, list[int]]]


def topic_record(topic_id: TopicId, overrides: Mapping[str, str], partitions: Iterable[tuple[int, list[int]]]) -> str:
    return json.dumps(
        {
            "id": topic_id_text(topic_id),
            "configs": dict(overrides),
            "partitions": [{"leader_epoch": epoch, "replicas": replicas} for epoch, replicas in partitions],
        },
        separators=(",", ":"),
    )


def parse_topic_record(text: str) -> TopicRecord:
    record = json.loads(text)
    partitions = [(partition["leader_epoch"], partition["replicas"]) for partition in record["partitions"]]
    return TopicRecord(parse_topic_id(record["id"]), record["configs"], partitions)


class Topics:
    """Lookup by name, by the name's bytes as they stand in a frame, and by id."""

    __slots__ = ("_by_id", "_by_name", "_by_name_bytes")

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_name_bytes: dict[bytes, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def add(self, topic: Topic) -> None:
        assert topic.name not in self._by_name
        assert topic.id not in self._by_id
        self._by_name[topic.name] = topic
        self._by_name_bytes[topic.name_bytes] = topic
        self._by_id[topic.id] = topic

    def remove(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_name_bytes[topic.name_bytes]
        del self._by_id[topic.id]

    def named(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def with_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def keyed(self, *, by_id: bool) -> Mapping[bytes, Topic]:
        """By the bytes that a Produce or Fetch frame names topics with."""
        return self._by_id if by_id else self._by_name_bytes

    def partition(self, name: str, index: int) -> Partition:
        """The partition, or the error a client expects."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic.partitions[index]

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())


def collides(name: str, names: Iterable[str]) -> str | None:
    """Kafka refuses names that differ only in '.' and '_': metric names could not tell them apart."""
    folded = name.replace(".", "_")
    if "_" not in folded:
        return None
    return next((other for other in names if other != name and other.replace(".", "_") == folded), None)
