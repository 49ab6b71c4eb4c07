"""One partition as one reader sees it: what was asked of it, what can be told, and who wants to know of more.

An entry lives as long as its fetch, or as its session. It finds its partition when it is looked at, so one that was
made later is found later; one that is deleted says so.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from headrace.errors import ApiError, ErrorCode, StorageError
from headrace.node.topics import Partition, Topic
from headrace.protocol.fetch import FetchPartition, PartitionData
from headrace.storage.segment import Span

_UNTOLD: Final = -1
_LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

# A topic as frames name it, and the partition's index.
EntryKey = tuple[bytes, int]


class Listener(Protocol):
    """A session, or a parked fetch without one."""

    def on_visible(self, entry: "Entry", grown_bytes: int) -> None: ...
    def on_gone(self, entry: "Entry") -> None: ...


class Entry:
    __slots__ = ("asked", "listener", "partition", "told_start", "told_watermark", "topic_key")

    def __init__(self, topic_key: bytes, asked: FetchPartition, listener: Listener | None = None) -> None:
        self.topic_key = topic_key
        self.asked = asked
        self.partition: Partition | None = None
        # While there is one, the partition is watched.
        self.listener = listener
        # An incremental answer leaves out what the reader knows.
        self.told_watermark = _UNTOLD
        self.told_start = _UNTOLD

    def find(self, topics: Mapping[bytes, Topic]) -> bool:
        """Look for the partition; whether there is one."""
        topic = topics.get(self.topic_key)
        index = self.asked.partition
        if topic is None or not 0 <= index < len(topic.partitions):
            return False
        self.partition = topic.partitions[index]
        if self.listener is not None:
            self.partition.watchers[self] = None
        return True

    def watch(self, listener: Listener) -> None:
        self.listener = listener
        if self.partition is not None:
            self.partition.watchers[self] = None

    def unwatch(self) -> None:
        self.listener = None
        if self.partition is not None:
            self.partition.watchers.pop(self, None)

    def on_visible(self, grown_bytes: int) -> None:
        assert self.listener is not None
        self.listener.on_visible(self, grown_bytes)

    def on_gone(self) -> None:
        assert self.listener is not None
        self.partition = None
        self.listener.on_gone(self)

    def read(self, *, bytes_left: int, at_least_one: bool, read_committed: bool) -> tuple[PartitionData, Span | None]:
        """What is to be told of a partition that was found."""
        asked, partition = self.asked, self.partition
        assert partition is not None
        log = partition.log
        diverging = span = None
        try:
            if log.offline is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            if asked.current_leader_epoch >= 0:
                partition.check_epoch(asked.current_leader_epoch)
            if asked.last_fetched_epoch >= 0:
                diverging = _divergence(partition, asked)
            if diverging is None:
                span = log.read(
                    asked.fetch_offset,
                    bytes_max=asked.bytes_max if asked.bytes_max < bytes_left else bytes_left,
                    at_least_one=at_least_one,
                )
        except ApiError as error:
            leader = None
            if error.code in _LEADER_ERRORS:
                leader = (partition.replicas[0], partition.leader_epoch)
            return PartitionData(asked.partition, error.code, -1, -1, -1, 0, leader=leader), None
        except StorageError:
            return PartitionData(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, 0), None
        watermark = log.high_watermark
        # Without transactions everything visible is stable, and nothing is aborted.
        data = PartitionData(
            asked.partition,
            ErrorCode.NONE,
            watermark,
            watermark,
            log.start_offset,
            span[2] if span is not None else 0,
            [] if read_committed else None,
            diverging,
        )
        return data, span

    def missing(self, topics: Mapping[bytes, Topic], *, by_id: bool) -> PartitionData:
        """What is to be told of one that was not found."""
        topic_is_unknown = by_id and self.topic_key not in topics
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic_is_unknown else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionData(self.asked.partition, code, -1, -1, -1, 0, aborted=[])

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must mention this; remembers that it was told."""
        news = (
            data.records_bytes > 0
            or data.error != 0
            or data.diverging is not None
            or data.high_watermark != self.told_watermark
            or data.start_offset != self.told_start
        )
        # After an error the reader is told everything anew: its watermark is -1.
        self.told_watermark = data.high_watermark
        self.told_start = data.start_offset
        return news

    def has_told_all(self, data: PartitionData) -> bool:
        """Whether nothing is left to tell until the partition changes.

        Not where there is something to read that was not given for want of room, nor what the reader was given
        before it moves on, nor an error, which is told until it is mended.
        """
        return data.error == 0 and data.diverging is None and self.asked.fetch_offset >= data.high_watermark


def _divergence(partition: Partition, asked: FetchPartition) -> tuple[int, int] | None:
    """KIP-320: a reader whose last epoch ended before its offset has read what was taken back."""
    epoch, end_offset = partition.end_of_epoch(asked.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None
