"""The catalogue of topics: which there are, with which partitions and settings, and every change of that.

The store is written first, then the disk, so that a crash between the two is finished by the next start. A change
begins from what the store has accepted, not from what is open: two changes under way must not undo each other.

Changes were validated by whoever asks for them. How a log is opened, and what is told when one fails, is the node's
business; it lends what the catalogue needs of that.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import ApiError, ErrorCode, HeadraceError, StorageError
from headrace.ids import TopicId, TopicName, TopicPartition, topic_id_from
from headrace.node.configs import TopicConfig
from headrace.node.later import Later
from headrace.node.topics import DELETING, TOPICS, Topic, TopicRecord, parse_topic_record, topic_record
from headrace.store.local import ABSENT, Check, Delete, Put

if TYPE_CHECKING:
    from headrace.node.node import Node

# Folders made or removed before others have their turn.
PARTITIONS_PER_TURN: Final = 16
RETRY_US: Final = 1_000_000

# Leader epochs and replicas of a topic's partitions, in their order.
Placed = list[tuple[int, list[int]]]
Done = Callable[[HeadraceError | None], None]


class OpenPartitions(Protocol):
    def __call__(self, topic: Topic, placed: Placed, /) -> object:
        """Open the logs of those partitions that the topic does not have yet."""
        ...


class FreeName(Protocol):
    def __call__(self, name: TopicName, done: Callable[[], None], /) -> None:
        """Let a name be used again once no crash can bring its folders back. `done` does not wait for a disk that
        does not let that be."""
        ...


class Catalogue:
    def __init__(self, node: "Node", *, open_partitions: OpenPartitions, free_name: FreeName) -> None:
        self._node = node
        self._open_partitions = open_partitions
        self._free_name = free_name
        self._creating: dict[TopicName, list[Later[Topic | ApiError]]] = {}

    # --- What there is ---------------------------------------------------------------------------------------

    def finish_deletions(self) -> list[str]:
        """Remove what a crash kept from being removed; the topics whose deletion is then over."""
        deleting = [name for name, _ in self._node.store.children(DELETING)]
        for partition, _ in list(self._node.data.found_partitions()) if deleting else ():
            if partition.topic in deleting:
                self._node.data.remove_partition(partition)
        return deleting

    def found(self) -> dict[TopicName, TopicRecord]:
        """The topics that a start finds: those of the store, and those that only their folders know of."""
        node = self._node
        records = {TopicName(name): parse_topic_record(text) for name, text in node.store.children(TOPICS)}
        foreign: dict[TopicName, tuple[TopicId | None, int]] = {}
        for (name, index), topic_id in node.data.found_partitions():
            if name not in records:
                known_id, count = foreign.get(name, (None, 0))
                foreign[name] = (known_id or topic_id, max(count, index + 1))
        for name, (topic_id, count) in foreign.items():
            node.events.info("topic adopted", topic=name, partitions=count)
            records[name] = TopicRecord(topic_id or topic_id_from(node.random_bytes(16)), {}, [(0, [node.id])] * count)
        return records

    def accepted(self, topic: Topic) -> TopicRecord:
        """The topic as the store has it, changes under way included; ApiError where it is being deleted.

        What is changed next is changed from here; nor may a change bring a deleted topic back.
        """
        stored = self._node.store.read(TOPICS + topic.name)
        if stored is not None:
            record = parse_topic_record(stored.value)
            if record.id == topic.id:
                return record
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def make_topic(self, name: TopicName, topic_id: TopicId, overrides: dict[str, str]) -> Topic:
        """A topic without partitions yet, known to nobody."""
        node = self._node
        return Topic(name, topic_id, TopicConfig.resolve(node.config, overrides), overrides, node.collected.topic(name))

    # --- Creating --------------------------------------------------------------------------------------------

    def create(
        self, name: TopicName, *, overrides: dict[str, str], assignment: list[list[int]]
    ) -> Later[Topic | ApiError]:
        """A topic into the store, then onto the disk; where that has no room for it, out of the store again."""
        node = self._node
        created: Later[Topic | ApiError] = Later()
        topic_id = topic_id_from(node.random_bytes(16))
        placed: Placed = [(0, replicas) for replicas in assignment]
        topic = self.make_topic(name, topic_id, overrides)
        # Of two that create one topic, the first is the one that others may wait for.
        waiting: list[Later[Topic | ApiError]] = []
        self._creating.setdefault(name, waiting)

        def conclude(outcome: Topic | ApiError) -> None:
            if self._creating.get(name) is waiting:
                del self._creating[name]
            for later in (created, *waiting):
                later.resolve(outcome)

        def stored(error: HeadraceError | None) -> None:
            if error is None:
                self._open_gradually(topic, placed, opened)
            elif isinstance(error, StorageError):
                conclude(_storage_error(error))
            else:
                conclude(ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."))

        def opened(error: HeadraceError | None) -> None:
            if error is not None:
                node.events.error("topic not created", topic=name, error=error)
                self._take_back(topic, lambda: conclude(_storage_error(error)))
                return
            node.topics.add(topic)
            node.groups.topic_opened(topic)
            node.events.info("topic created", topic=name, partitions=len(placed))
            conclude(topic)

        record = topic_record(topic_id, overrides, placed)
        # A deletion is over once its folders are gone for good: a crash must not find the old data under a new topic.
        free = [Check(TOPICS + name, ABSENT), Check(DELETING + name, ABSENT)]
        node.store.multi_then([*free, Put(TOPICS + name, record)], stored)
        return created

    def creation_of(self, name: TopicName) -> Later[Topic | ApiError] | None:
        """What becomes of a creation that is under way; None where there is none."""
        waiting = self._creating.get(name)
        if waiting is None:
            return None
        waiting.append(later := Later[Topic | ApiError]())
        return later

    def _open_gradually(self, topic: Topic, placed: Placed, done: Done) -> None:
        """Open new partitions a few a turn: ten thousand of them must not hold up everybody else."""
        node = self._node

        def open_some() -> None:
            try:
                self.accepted(topic)  # It may have been deleted between two turns.
                self._open_partitions(topic, placed[: len(topic.partitions) + PARTITIONS_PER_TURN])
            except HeadraceError as error:
                done(error)
                return
            if len(topic.partitions) < len(placed):
                node.timers.at(node.clock.mono_us(), open_some)
            else:
                done(None)

        open_some()

    def _take_back(self, topic: Topic, done: Callable[[], None]) -> None:
        """Remove a topic that could not be made whole, and give its name back. Until then the store has it: a crash
        leaves it to the next start to make it."""
        self._node.collected.forget_topic(topic.name)
        for partition in topic.partitions:
            partition.retire()
        # Nobody has seen these folders, and on a full disk the rest may need their room.
        self._remove_folders(topic, delay_us=0, done=done)

    # --- Deleting --------------------------------------------------------------------------------------------

    def delete(self, topic: Topic) -> Later[ApiError | None]:
        """Out of the store first, then off the disk.

        Answered once the name is free again, unless the disk keeps it from being so for now.
        """
        node = self._node
        deleted: Later[ApiError | None] = Later()

        def stored(error: HeadraceError | None) -> None:
            if error is not None:
                deleted.resolve(_storage_error(error))
                return
            if node.topics.named(topic.name) is topic:
                node.topics.remove(topic)
                node.collected.forget_topic(topic.name)
                for partition in topic.partitions:
                    partition.retire()
                node.groups.topic_deleted(topic)
                # Readers under way still hold spans of these files.
                delay_us = topic.config.file_delete_delay_ms * 1000
                self._remove_folders(topic, delay_us=delay_us, done=lambda: deleted.resolve(None))
                node.events.info("topic deleted", topic=topic.name)
                node.finish_turn()
            else:
                deleted.resolve(None)

        tombstone = Put(DELETING + topic.name, str(len(topic.partitions)))
        node.store.multi_then([Delete(TOPICS + topic.name), tombstone], stored)
        return deleted

    def _remove_folders(self, topic: Topic, *, delay_us: int, done: Callable[[], None]) -> None:
        """Move the folders of a topic out of the way, free its name, and remove them after a while."""
        node = self._node
        marker = node.random_bytes(16).hex()
        left = deque(TopicPartition(topic.name, partition.index) for partition in topic.partitions)
        unfinished = TopicPartition(topic.name, len(topic.partitions))
        doomed: list[str] = []

        def move() -> None:
            for _ in range(min(len(left), PARTITIONS_PER_TURN)):
                doomed.append(node.data.remove_log(left[0], marker=marker))
                left.popleft()
            if not left:
                # Where the next one could not be opened, something of it may be there.
                node.data.remove_partition(unfinished)

        def remove() -> None:
            for name in doomed[:PARTITIONS_PER_TURN]:
                node.attempt("folder not removed", partial(node.data.remove_folder, name))
            del doomed[:PARTITIONS_PER_TURN]
            if doomed:
                node.timers.at(node.clock.mono_us(), remove)

        def begin(done: Callable[[], None]) -> None:
            if not node.attempt("folders not removed", move):
                node.timers.at(node.clock.mono_us() + RETRY_US, partial(begin, lambda: None))
                done()
            elif left:
                node.timers.at(node.clock.mono_us(), partial(begin, done))
                return
            else:
                self._free_name(topic.name, done)
            node.timers.at(node.clock.mono_us() + delay_us, remove)

        begin(done)

    # --- Growing and configuring -----------------------------------------------------------------------------

    def add_partitions(self, topic: Topic, assignment: list[list[int]]) -> Later[ApiError | None]:
        """Further partitions, onto those that the topic has been accepted with."""
        record = self.accepted(topic)
        placed = record.partitions + [(0, replicas) for replicas in assignment]
        return self._change(topic, record.overrides, placed, lambda done: self._open_gradually(topic, placed, done))

    def configure(self, topic: Topic, overrides: dict[str, str]) -> Later[ApiError | None]:
        """Replace a topic's settings."""
        config = TopicConfig.resolve(self._node.config, overrides)

        def apply(done: Done) -> None:
            topic.overrides = overrides
            _set_config(topic, config)
            done(None)

        return self._change(topic, overrides, self.accepted(topic).partitions, apply)

    def _change(
        self, topic: Topic, overrides: dict[str, str], placed: Placed, apply: Callable[[Done], None]
    ) -> Later[ApiError | None]:
        """The new record into the store, then what follows from it."""
        changed: Later[ApiError | None] = Later()

        def applied(error: HeadraceError | None) -> None:
            changed.resolve(None if error is None else _storage_error(error))

        def stored(error: HeadraceError | None) -> None:
            if error is None:
                apply(applied)
            else:
                applied(error)

        record = topic_record(topic.id, overrides, placed)
        self._node.store.multi_then([Put(TOPICS + topic.name, record)], stored)
        return changed

    def follow_broker_config(self) -> None:
        """The node's settings changed, and with them the defaults of every topic."""
        node = self._node
        for topic in node.topics:
            _set_config(topic, TopicConfig.resolve(node.config, topic.overrides))


def _set_config(topic: Topic, config: TopicConfig) -> None:
    topic.config = config
    for partition in topic.partitions:
        partition.log.configure(config)


def _storage_error(error: HeadraceError) -> ApiError:
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
