"""The messages that wait between a cluster and the streams: one lane for each partition that is owned.

A lane keeps the order of its partition, feeds one stream, and is bounded: full, it is to be held back, until half of it
is gone. A message that a stream has given out is *in hand* until the stream is asked for the next one; only then
is it finished, and may be committed without being told to. While one of its messages is in hand nobody gets the
next one, also when the lane is dealt to another stream meanwhile.

No locks, threads, clocks or network: whoever calls sees to it that calls come one at a time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from headrace.client.dealing import deal
from headrace.client.message import Claim, Partition


class Raw(Protocol):
    """As much of one of librdkafka's messages as anybody here asks for."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...
    def __len__(self) -> int: ...


class Limits(NamedTuple):
    """Of one lane. A lane may exceed them by what a single poll brings, and by its last message."""

    messages_max: int
    bytes_max: int


class Lane:
    __slots__ = (
        "claim", "committed", "feed", "finished", "is_held_back", "is_in_hand", "messages", "partition", "queued_bytes",
    )  # fmt: skip

    def __init__(self, partition: Partition, feed: "Feed", ownership: int) -> None:
        self.partition: Final = partition
        self.claim = Claim(ownership, 0)  # Made once, and not for every message.
        self.feed = feed
        self.messages: deque[Raw] = deque()
        self.queued_bytes = 0
        self.is_held_back = False
        self.is_in_hand = False
        self.finished: int | None = None  # The offset after the last message that is done with.
        self.committed: int | None = None  # What `finished` was when it was last taken for a commit.


class InHand(NamedTuple):
    lane: Lane
    offset: int
    claim: Claim


class Feed:
    """What one stream gets its messages from."""

    __slots__ = ("in_hand", "index", "ready", "topic", "wake")

    def __init__(self, topic: str, index: int) -> None:
        self.topic: Final = topic
        self.index: Final = index
        self.ready: deque[Lane] = deque()  # Of its lanes, those that have a message that may be taken.
        self.in_hand: InHand | None = None
        self.wake: Callable[[], None] = lambda: None


class Lanes:
    def __init__(self, streams: Mapping[str, int], limits: Limits) -> None:
        self.feeds: Final = {topic: [Feed(topic, index) for index in range(count)] for topic, count in streams.items()}
        self._limits = limits
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._ownerships = 0
        self._to_hold_back: set[Partition] = set()
        self._to_release: set[Partition] = set()

    @property
    def owned(self) -> frozenset[Partition]:
        return frozenset(lane.partition for lane in self._lanes.values())

    @property
    def queued_messages(self) -> int:
        return sum(len(lane.messages) for lane in self._lanes.values())

    @property
    def queued_bytes(self) -> int:
        return sum(lane.queued_bytes for lane in self._lanes.values())

    @property
    def held_back(self) -> frozenset[Partition]:
        return frozenset(lane.partition for lane in self._lanes.values() if lane.is_held_back)

    def stream_of(self, partition: Partition) -> int:
        return self._lanes[partition].feed.index

    # Ownership.

    def gain(self, partitions: Iterable[Partition]) -> None:
        gained = list(partitions)
        for partition in gained:
            assert partition not in self._lanes, f"{partition} came twice"
            self._ownerships += 1
            # Any feed will do until they are dealt.
            self._lanes[partition] = Lane(partition, self.feeds[partition.topic][0], self._ownerships)
        self._deal({partition.topic for partition in gained}, new=frozenset(gained))

    def lose(self, partitions: Iterable[Partition]) -> None:
        """What waits is dropped; what is in hand is still somebody's, but finishing it changes nothing here."""
        lost = list(partitions)
        for partition in lost:
            lane = self._lanes.pop(partition)
            self._empty(lane)
            self._to_hold_back.discard(partition)
            self._to_release.discard(partition)
        self._deal({partition.topic for partition in lost})

    def drain(self, partitions: Iterable[Partition]) -> None:
        """Nothing more of them is given out. They are owned still, and can be committed."""
        for partition in partitions:
            self._empty(self._lanes[partition])

    def is_claim_good(self, partition: Partition, claim: Claim | None) -> bool:
        """Whether the partition is owned; and if a claim is given, by the same right ever since."""
        lane = self._lanes.get(partition)
        return lane is not None and (claim is None or claim.ownership == lane.claim.ownership)

    def claim(self, partition: Partition) -> Claim:
        return self._lanes[partition].claim

    def _deal(self, topics: set[str], new: frozenset[Partition] = frozenset()) -> None:
        for topic in topics:
            lanes = {lane.partition.partition: lane for lane in self._lanes.values() if lane.partition.topic == topic}
            held = {number: lane.feed.index for number, lane in lanes.items() if lane.partition not in new}
            for number, index in deal(held, lanes, streams=len(self.feeds[topic])).items():
                self._move(lanes[number], self.feeds[topic][index])

    def _move(self, lane: Lane, feed: Feed) -> None:
        if lane.feed is not feed:
            self._unready(lane)
            lane.feed = feed
            self._ready(lane)

    # Messages.

    def put(self, message: Raw) -> bool:
        """False where the partition is not owned any more: the message is for somebody else to read."""
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        assert partition is not None
        lane = self._lanes.get((topic, partition))
        if lane is None:
            return False
        lane.messages.append(message)
        lane.queued_bytes += _size_bytes(message)
        if len(lane.messages) == 1:
            self._ready(lane)
        if not lane.is_held_back and self._is_full(lane):
            lane.is_held_back = True
            self._to_hold_back.add(lane.partition)
        return True

    def take(self, feed: Feed) -> tuple[Raw, Claim] | None:
        """The next message of a stream, whose last one is finished with that."""
        self.finish(feed)
        if not feed.ready:
            return None
        lane = feed.ready.popleft()
        assert lane.feed is feed
        assert not lane.is_in_hand
        message = lane.messages.popleft()
        lane.queued_bytes -= _size_bytes(message)
        lane.is_in_hand = True
        offset = message.offset()
        assert offset is not None
        feed.in_hand = InHand(lane, offset, lane.claim)
        if lane.is_held_back and self._has_room(lane):
            self._to_release.add(lane.partition)
        return message, lane.claim

    def finish(self, feed: Feed) -> None:
        if feed.in_hand is None:
            return
        lane, offset, claim = feed.in_hand
        feed.in_hand = None
        lane.is_in_hand = False
        if claim == lane.claim:
            lane.finished = max(lane.finished or 0, offset + 1)
        self._ready(lane)

    def rewind(self, partition: Partition) -> None:
        """What waits is from before. Reading goes on elsewhere, and so do commits."""
        lane = self._lanes[partition]
        self._empty(lane)
        lane.claim = Claim(lane.claim.ownership, lane.claim.rewinds + 1)
        lane.finished = lane.committed = None
        if lane.is_held_back:
            self._to_release.add(partition)

    def _ready(self, lane: Lane) -> None:
        """Let it have its turn, after the other lanes of its stream."""
        if lane.messages and not lane.is_in_hand:
            lane.feed.ready.append(lane)
            lane.feed.wake()

    def _unready(self, lane: Lane) -> None:
        if lane.messages and not lane.is_in_hand:
            lane.feed.ready.remove(lane)

    def _empty(self, lane: Lane) -> None:
        self._unready(lane)
        lane.messages.clear()
        lane.queued_bytes = 0

    # Holding back.

    def take_changes(self) -> tuple[set[Partition], set[Partition]]:
        """The partitions to stop fetching, and those to fetch again, since this was last asked."""
        hold_back, release = self._to_hold_back, self._to_release
        self._to_hold_back, self._to_release = set(), set()
        for partition in release:
            self._lanes[partition].is_held_back = False
        return hold_back - release, release

    def _is_full(self, lane: Lane) -> bool:
        return len(lane.messages) >= self._limits.messages_max or lane.queued_bytes >= self._limits.bytes_max

    def _has_room(self, lane: Lane) -> bool:
        return len(lane.messages) <= self._limits.messages_max // 2 and lane.queued_bytes <= self._limits.bytes_max // 2

    # Commits.

    def finished(self) -> dict[Partition, int]:
        """What is done with and was not taken for a commit yet."""
        return {
            lane.partition: lane.finished
            for lane in self._lanes.values()
            if lane.finished is not None and lane.finished != lane.committed
        }

    def note_commit(self, offsets: Mapping[Partition, int]) -> None:
        """They are on their way. What is finished by now needs no commit of its own: a given one is the last word."""
        for partition, offset in offsets.items():
            if (lane := self._lanes.get(partition)) is not None:
                lane.committed = lane.finished if lane.finished is not None else offset

    def note_finished(self, partition: Partition, offset: int, claim: Claim) -> None:
        """A message was committed while it was in hand: it is as good as finished."""
        lane = self._lanes.get(partition)
        if lane is not None and claim == lane.claim:
            lane.finished = max(lane.finished or 0, offset + 1)

    def forget_commit(self, partitions: Iterable[Partition]) -> None:
        """They did not arrive, and are to be taken again."""
        for partition in partitions:
            if (lane := self._lanes.get(partition)) is not None:
                lane.committed = None


def _size_bytes(message: Raw) -> int:
    key = message.key()
    return len(message) + (0 if key is None else len(key))
