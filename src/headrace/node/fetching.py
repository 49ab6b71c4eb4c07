"""Fetch: what a request asks for, what is there to give, and the wait in between.

A request names partitions outright or through a session that remembers them; either way it is about entries.
Looking at them gives spans. If those come to too little, the fetch is parked: its entries watch their partitions, what
becomes visible is counted, and when it may be enough they are looked at again, until it is or the time is up.

Who must not wait, as in Kafka: a fetch with an error from a log, and one without any partition that exists. Beside
one that does, partitions that do not exist are no reason to hurry, or their readers would ask without a pause.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from headrace.errors import ErrorCode
from headrace.node.apis import Answer, Parts
from headrace.node.fetch_entries import Entry, EntryKey
from headrace.node.fetch_sessions import FetchSession
from headrace.node.later import Later
from headrace.ports import Cancel
from headrace.protocol.fetch import (
    ENDPOINTS_SINCE,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    FetchRequest,
    PartitionData,
    encode_fetch_head,
    encode_fetch_tail,
    encode_partition_head,
    encode_partition_tail,
    encode_topic_head,
    encode_topic_tail,
)
from headrace.storage.segment import Span

if TYPE_CHECKING:
    from headrace.node.node import Node

# About what a parked fetch takes, and what each partition of it that no session keeps adds.
_FETCH_BYTES: Final = 2048
_ENTRY_BYTES: Final = 512

Evaluated = list[tuple[Entry, PartitionData, Span | None]]
# Id, host and port.
Leader = tuple[int, str, int]


class Fetch:
    """One request on its way to an answer."""

    __slots__ = (
        "_by_id",
        "_bytes_max",
        "_bytes_min",
        "_bytes_seen",
        "_cancel_timer",
        "_entries",
        "_is_full",
        "_is_woken",
        "_later",
        "_leader",
        "_node",
        "_request",
        "_session",
        "_version",
    )

    def __init__(
        self,
        node: "Node",
        request: FetchRequest,
        version: int,
        *,
        leader: Leader,
        session: FetchSession | None,
        entries: Collection[Entry],
        is_full: bool,
    ) -> None:
        """`entries` are those of the session, where there is one; `leader` is this node as the reader can reach it."""
        self._node = node
        self._leader = leader
        self._request = request
        self._version = version
        self._by_id = version >= TOPIC_IDS_SINCE
        self._session = session
        self._entries = entries
        self._is_full = is_full
        self._bytes_max = min(request.bytes_max, node.config.fetch_max_bytes)
        self._bytes_min = min(request.bytes_min, self._bytes_max)
        self._bytes_seen = 0
        self._later: Later[Answer] | None = None
        self._cancel_timer: Cancel | None = None
        self._is_woken = False

    def begin(self) -> Answer | Later[Answer]:
        found, is_enough = self._evaluate()
        if is_enough or self._request.wait_ms_max <= 0:
            return self._answer(found)
        return self._park()

    def _evaluate(self) -> tuple[Evaluated, bool]:
        """What can be told now, and whether it is enough to answer."""
        read_committed = self._request.read_committed
        topics = self._node.topics.keyed(by_id=self._by_id)
        bytes_left = self._bytes_max
        at_least_one = True
        is_urgent = False
        bytes_seen = 0
        found: Evaluated = []
        missing: Evaluated = []
        for entry in tuple(self._session.dirty) if self._session is not None else self._entries:
            if entry.partition is None and not entry.find(topics):
                missing.append((entry, entry.missing(topics, by_id=self._by_id), None))
                continue
            data, span = entry.read(bytes_left=bytes_left, at_least_one=at_least_one, read_committed=read_committed)
            if span is not None:
                size = span[2]
                bytes_seen += size
                bytes_left = bytes_left - size if bytes_left > size else 0
                at_least_one = False
            elif data.error != 0 or data.diverging is not None:
                is_urgent = True
            found.append((entry, data, span))
        self._bytes_seen = bytes_seen
        is_enough = (
            is_urgent
            or bytes_seen >= self._bytes_min
            or len(missing) == len(self._entries)  # Of a session the missing ones are always dirty.
            or (bytes_seen > 0 and self._fills_limits(found))
        )
        return found + missing, is_enough

    def _fills_limits(self, found: Evaluated) -> bool:
        """Whether the limits let no more be given, though it is less than was asked for.

        Batches are given whole, so the last bytes of a limit mostly stay free. Where more is there, these count as
        given.
        """
        bytes_left, bytes_counted = self._bytes_max, 0
        for entry, data, span in found:
            if span is None:
                if data.error == 0 and entry.asked.fetch_offset < data.high_watermark:
                    return True  # There is something, and it had no room.
                continue
            assert entry.partition is not None
            size = span[2]
            if entry.partition.log.has_more(span):
                bytes_counted += max(size, min(bytes_left, entry.asked.bytes_max))
            else:
                bytes_counted += size
            bytes_left = max(0, bytes_left - size)
        return bytes_counted >= self._bytes_min

    def _answer(self, found: Evaluated) -> Answer:
        """Encode, leaving out what an incremental reader knows already."""
        session = self._session
        if session is None:
            return encode_answer(found, self._version, session_id=NO_SESSION, leader=self._leader)
        told = []
        for item in found:
            entry, data, _ = item
            if entry.is_news(data) or self._is_full:
                told.append(item)
            if entry.has_told_all(data):
                session.dirty.pop(entry, None)
        return encode_answer(told, self._version, session_id=session.id, leader=self._leader)

    # --- Waiting ---------------------------------------------------------------------------------------------

    def _park(self) -> Later[Answer]:
        if self._session is not None:
            self._session.parked.append(self)
            held_bytes = _FETCH_BYTES
        else:
            for entry in self._entries:
                entry.watch(self)
            held_bytes = _FETCH_BYTES + _ENTRY_BYTES * len(self._entries)
        deadline_us = self._node.clock.mono_us() + self._request.wait_ms_max * 1000
        self._cancel_timer = self._node.timers.at(deadline_us, self.hurry)
        self._later = Later(hurry=self.hurry, held_bytes=held_bytes)
        return self._later

    def on_visible(self, entry: Entry, grown_bytes: int) -> None:
        self._bytes_seen += grown_bytes
        if self._bytes_seen >= self._bytes_min:
            self._wake()

    def on_gone(self, entry: Entry) -> None:
        self._bytes_min = 0  # The reader shall hear of it now, with whatever else there is.
        self._wake()

    def _wake(self) -> None:
        """Once for all that a turn brings, when it is done."""
        if not self._is_woken:
            self._is_woken = True
            self._node.wake(self)

    def look_again(self) -> None:
        self._is_woken = False
        if self._later is not None:
            found, is_enough = self._evaluate()
            if is_enough:
                self._complete(found)

    def hurry(self) -> None:
        """Answer with what there is: the time is up, or nobody waits."""
        if self._later is not None:
            self._complete(self._evaluate()[0])

    def _complete(self, found: Evaluated) -> None:
        assert self._later is not None
        assert self._cancel_timer is not None
        later, self._later = self._later, None
        self._cancel_timer()
        if self._session is not None:
            self._session.parked.remove(self)
        else:
            for entry in self._entries:
                entry.unwatch()
        later.resolve(self._answer(found))


def encode_answer(
    found: Evaluated, version: int, *, session_id: int, error: int = 0, leader: Leader | None = None
) -> Answer:
    """Neighbouring partitions of one topic share a topic's place in the answer."""
    leaders: set[Leader] = set()
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
            elif data.leader is not None:
                # As in Kafka, who leads is told only where it can be told where that is (KIP-951).
                if leader is not None and version >= ENDPOINTS_SINCE:
                    leaders.add(leader)
                else:
                    data = data._replace(leader=None)
            text.append(encode_partition_tail(version, data))
        text.append(encode_topic_tail(version))
    text.append(encode_fetch_tail(version, tuple(leaders)))
    joined = b"".join(text)
    if joined:
        parts.append(joined)
    return parts, size + len(joined)


def asked_entries(request: FetchRequest) -> dict[EntryKey, Entry]:
    """A partition that is asked for twice is answered once, by what was said last."""
    return {
        (topic_key, asked.partition): Entry(topic_key, asked)
        for topic_key, partitions in request.topics
        for asked in partitions
    }


def refuse_follower(node: "Node", request: FetchRequest, version: int) -> Answer:
    """No other node holds a replica of anything here; in Kafka's two ways of saying so."""
    by_id = version >= TOPIC_IDS_SINCE
    topics = node.topics.keyed(by_id=by_id)
    found: Evaluated = []
    for entry in asked_entries(request).values():
        if entry.find(topics):
            knows_epoch = entry.asked.current_leader_epoch >= 0
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            data = PartitionData(entry.asked.partition, code, -1, -1, -1, 0)
        else:
            data = entry.missing(topics, by_id=by_id)
        found.append((entry, data, None))
    return encode_answer(found, version, session_id=NO_SESSION)
