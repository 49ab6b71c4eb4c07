"""Fetch: what a request asks for, what is there to give, and the wait in between.

A request names partitions outright or through a *session* (KIP-227) that remembers them; either way it becomes a
list of entries. Evaluating entries gives spans. If they come to too little, the fetch is parked and every entry
watches its partition; what becomes visible is counted, and the answer is made when it is enough or the time is up.

A session keeps a *dirty* set: the entries that changed, or may have more to give. A wake-up looks at those alone, so
that a consumer of a thousand partitions does not pay for the idle ones.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode, StorageError
from headrace.node.apis import Answer, Parts
from headrace.node.topics import Partition
from headrace.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    PartitionData,
    encode_fetch_head,
    encode_fetch_tail,
    encode_partition_head,
    encode_partition_tail,
    encode_topic_head,
    encode_topic_tail,
)
from headrace.storage.log import Span

if TYPE_CHECKING:
    from headrace.node.node import Node

UNKNOWN: Final = -1
SESSION_IDLE_US: Final = 120_000_000
SESSION_EPOCH_MAX: Final = 2**31 - 1


class Entry:
    """One partition of one fetch, or of one session for as long as it lasts."""

    __slots__ = (
        "asked",
        "fetch",
        "partition",
        "partition_error",
        "sent_start",
        "sent_watermark",
        "session",
        "topic_key",
    )

    def __init__(
        self, topic_key: bytes, asked: FetchPartition, partition: Partition | None, error: ErrorCode
    ) -> None:
        self.topic_key = topic_key
        self.asked = asked
        self.partition = partition
        self.partition_error = error
        self.session: FetchSession | None = None
        self.fetch: ParkedFetch | None = None
        # What the reader was told last; an incremental answer leaves out what it knows.
        self.sent_watermark = UNKNOWN
        self.sent_start = UNKNOWN

    def on_visible(self, grown_bytes: int) -> None:
        session = self.session
        if session is not None:
            session.dirty[self] = None
            if session.parked is not None:
                session.parked.on_visible(grown_bytes)
        elif self.fetch is not None:
            self.fetch.on_visible(grown_bytes)

    def watch(self) -> None:
        if self.partition is not None:
            self.partition.watchers[self] = None

    def unwatch(self) -> None:
        if self.partition is not None:
            self.partition.watchers.pop(self, None)

    def read(self, *, bytes_left: int, at_least_one: bool, read_committed: bool) -> tuple[PartitionData, Span | None]:
        asked, partition = self.asked, self.partition
        if partition is None:
            return PartitionData(asked.partition, self.partition_error, -1, -1, -1, 0, aborted=[]), None
        log = partition.log
        try:
            if log.offline is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            if asked.current_leader_epoch >= 0:
                partition.check_epoch(asked.current_leader_epoch)
            if asked.last_fetched_epoch >= 0:
                diverging = _divergence(partition, asked)
                if diverging is not None:
                    return self._data(ErrorCode.NONE, 0, read_committed, diverging), None
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
        return self._data(ErrorCode.NONE, span[2] if span else 0, read_committed, None), span

    def _data(
        self, error: ErrorCode, records_bytes: int, read_committed: bool, diverging: tuple[int, int] | None
    ) -> PartitionData:
        assert self.partition is not None
        log = self.partition.log
        watermark = log.high_watermark
        # Without transactions everything visible is stable.
        return PartitionData(
            self.asked.partition,
            error,
            watermark,
            watermark,
            log.start_offset,
            records_bytes,
            [] if read_committed else None,
            diverging,
        )

    def is_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must mention this; remembers that it was told."""
        news = (
            data.records_bytes > 0
            or data.error != 0
            or data.diverging is not None
            or data.high_watermark != self.sent_watermark
            or data.start_offset != self.sent_start
        )
        # After an error the reader is told everything anew.
        self.sent_watermark = data.high_watermark if data.error == 0 else UNKNOWN
        self.sent_start = data.start_offset
        return news


_LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def _divergence(partition: Partition, asked: FetchPartition) -> tuple[int, int] | None:
    """KIP-320: a reader whose last epoch ended before its offset has read what was taken back."""
    log = partition.log
    epoch, end_offset = log.epochs.end_offset(asked.last_fetched_epoch, log_end_offset=log.end_offset)
    if epoch < 0 or end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None


class FetchSession:
    __slots__ = ("by_id", "dirty", "entries", "epoch", "id", "parked", "used_us")

    def __init__(self, session_id: int, *, by_id: bool, now_us: int) -> None:
        self.id = session_id
        self.epoch = 1  # The epoch that the next request must carry.
        self.by_id = by_id
        self.used_us = now_us
        self.entries: dict[tuple[bytes, int], Entry] = {}
        self.dirty: dict[Entry, None] = {}
        self.parked: ParkedFetch | None = None

    def put(self, entry: Entry) -> None:
        key = (entry.topic_key, entry.asked.partition)
        old = self.entries.get(key)
        if old is not None and old.partition is entry.partition:
            old.asked = entry.asked
            entry = old
        else:
            if old is not None:
                self.drop(old)
            entry.session = self
            self.entries[key] = entry
            entry.watch()
        # To the end of the line: partitions that were just served come after those that were not.
        self.dirty.pop(entry, None)
        self.dirty[entry] = None

    def drop(self, entry: Entry) -> None:
        entry.unwatch()
        self.dirty.pop(entry, None)
        self.entries.pop((entry.topic_key, entry.asked.partition), None)

    def close(self) -> None:
        for entry in self.entries.values():
            entry.unwatch()
        self.entries.clear()
        self.dirty.clear()


class FetchSessions:
    """The node's sessions, bounded: when full, only idle ones give way, and newcomers do without."""

    __slots__ = ("_by_id", "_slots_max", "evicted")

    def __init__(self, *, slots_max: int) -> None:
        self._by_id: dict[int, FetchSession] = {}
        self._slots_max = slots_max
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, *, by_id: bool, random_bytes: Callable[[int], bytes], now_us: int) -> FetchSession | None:
        if len(self._by_id) >= self._slots_max:
            # Sessions are kept in the order of their use, so the first is the idlest.
            idlest = next(iter(self._by_id.values()), None)
            if idlest is None or now_us - idlest.used_us < SESSION_IDLE_US:
                return None
            self.close(idlest.id)
            self.evicted += 1
        session_id = 0
        while session_id == 0 or session_id in self._by_id:
            session_id = int.from_bytes(random_bytes(4), "big") & 0x7FFFFFFF
        session = self._by_id[session_id] = FetchSession(session_id, by_id=by_id, now_us=now_us)
        return session

    def use(self, session_id: int, *, epoch: int, by_id: bool, now_us: int) -> FetchSession:
        session = self._by_id.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == SESSION_EPOCH_MAX else epoch + 1
        session.used_us = now_us
        self._by_id[session_id] = self._by_id.pop(session_id)
        return session

    def close(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()

    @property
    def partition_count(self) -> int:
        return sum(len(session.entries) for session in self._by_id.values())


class ParkedFetch:
    """A fetch that waits for enough bytes, or for its time to be up."""

    __slots__ = ("_answer", "_bytes_seen", "_cancel_timer", "_entries", "_fetch", "_is_woken", "_node")

    def __init__(
        self, node: "Node", fetch: "Fetch", entries: list[Entry], *, bytes_ready: int, answer: Callable[[Answer], None]
    ) -> None:
        self._node = node
        self._fetch = fetch
        self._answer = answer
        self._bytes_seen = bytes_ready
        self._is_woken = False
        # A session's entries watch for as long as it lasts; these watch for this one wait.
        self._entries = entries
        if fetch.session is None:
            for entry in entries:
                entry.fetch = self
                entry.watch()
        else:
            fetch.session.parked = self
        deadline_us = node.clock.mono_us() + fetch.request.wait_ms_max * 1000
        self._cancel_timer = node.timers.at(deadline_us, self._complete)

    def on_visible(self, grown_bytes: int) -> None:
        self._bytes_seen += grown_bytes
        if self._bytes_seen >= self._fetch.request.bytes_min and not self._is_woken:
            self._is_woken = True
            self._node.wake(self)

    def complete_if_ready(self) -> None:
        self._cancel_timer()
        self._complete()

    def _complete(self) -> None:
        fetch = self._fetch
        if fetch.session is not None:
            if fetch.session.parked is not self:
                return  # The session moved on without waiting for this answer.
            fetch.session.parked = None
        else:
            for entry in self._entries:
                entry.unwatch()
                entry.fetch = None
        self._is_woken = True
        self._answer(fetch.answer(fetch.evaluate(self._node)))


Evaluated = list[tuple[Entry, PartitionData, Span | None]]


class Fetch:
    """One fetch request, resolved to entries."""

    __slots__ = ("_entries", "is_full", "request", "session", "version")

    def __init__(
        self, request: FetchRequest, version: int, session: FetchSession | None, entries: list[Entry], *, is_full: bool
    ) -> None:
        self.request = request
        self.version = version
        self.session = session
        self.is_full = is_full
        self._entries = entries

    @property
    def candidates(self) -> Iterable[Entry]:
        """Those worth looking at: in a session the dirty ones, where every entry of a full fetch is one."""
        return tuple(self.session.dirty) if self.session is not None else self._entries

    @property
    def has_partitions(self) -> bool:
        return bool(self.session.entries if self.session is not None else self._entries)

    @property
    def entries(self) -> list[Entry]:
        return self._entries

    def evaluate(self, node: "Node") -> Evaluated:
        request = self.request
        bytes_left = min(request.bytes_max, node.config.fetch_max_bytes)
        at_least_one = True
        found: Evaluated = []
        for entry in self.candidates:
            data, span = entry.read(
                bytes_left=bytes_left, at_least_one=at_least_one, read_committed=request.read_committed
            )
            if span is not None:
                bytes_left = max(0, bytes_left - span[2])
                at_least_one = False
            found.append((entry, data, span))
        return found

    def is_enough(self, found: Evaluated) -> bool:
        """Whether to answer at once: enough bytes, or something the reader must hear of."""
        total = 0
        for _, data, _ in found:
            if data.error != 0 or data.diverging is not None:
                return True
            total += data.records_bytes
        return total >= self.request.bytes_min

    def answer(self, found: Evaluated) -> Answer:
        """Encode, leaving out what an incremental reader knows already."""
        session = self.session
        told = found
        if session is not None:
            told = []
            for item in found:
                entry, data, span = item
                if entry.is_news(data) or self.is_full:
                    told.append(item)
                if span is None and data.error == 0:
                    # Nothing more to give until it grows. What was given stays dirty until the reader moves on.
                    session.dirty.pop(entry, None)
        return encode_answer(told, self.version, session_id=session.id if session is not None else 0)


def encode_answer(found: Evaluated, version: int, *, session_id: int, error: int = 0) -> Answer:
    """Neighbouring partitions of one topic share a topic's place in the answer."""
    groups: list[tuple[bytes, Evaluated]] = []
    for item in found:
        if not groups or groups[-1][0] != item[0].topic_key:
            groups.append((item[0].topic_key, []))
        groups[-1][1].append(item)
    text = [encode_fetch_head(version, error=error, session_id=session_id, topic_count=len(groups))]
    parts: Parts = []
    size = 0
    for topic_key, items in groups:
        text.append(encode_topic_head(version, topic_key, len(items)))
        for entry, data, span in items:
            text.append(encode_partition_head(version, data))
            if span is not None:
                joined = b"".join(text)
                parts.append(joined)
                parts.append(span)
                size += len(joined) + span[2]
                text = []
                partition = entry.partition
                assert partition is not None
                partition.topic.traffic.bytes_out(span[2])
            text.append(encode_partition_tail(version, data))
        text.append(encode_topic_tail(version))
    text.append(encode_fetch_tail(version))
    joined = b"".join(text)
    if joined:
        parts.append(joined)
    return parts, size + len(joined)


def resolve_entries(node: "Node", request: FetchRequest, version: int) -> list[Entry]:
    by_id = version >= TOPIC_IDS_SINCE
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # A partition that is asked for twice is answered once, by what was said last.
    entries: dict[tuple[bytes, int], Entry] = {}
    for topic_key, partitions in request.topics:
        topic = node.topics.with_key(topic_key)
        for asked in partitions:
            index = asked.partition
            if topic is None:
                entry = Entry(topic_key, asked, None, missing)
            elif 0 <= index < len(topic.partitions):
                entry = Entry(topic_key, asked, topic.partitions[index], ErrorCode.NONE)
            else:
                entry = Entry(topic_key, asked, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            entries[topic_key, index] = entry
    return list(entries.values())


def refuse_follower(node: "Node", request: FetchRequest, version: int) -> Answer:
    """No other node holds a replica of anything here; in Kafka's two ways of saying so."""
    found: Evaluated = []
    for entry in resolve_entries(node, request, version):
        if entry.partition is None:
            data, _ = entry.read(bytes_left=0, at_least_one=False, read_committed=False)
        else:
            knows_epoch = entry.asked.current_leader_epoch >= 0
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            data = PartitionData(entry.asked.partition, code, -1, -1, -1, 0)
        found.append((entry, data, None))
    return encode_answer(found, version, session_id=0)
