"""Incremental fetch sessions (KIP-227): a reader names its partitions once, then only what changes about them.

A session keeps its entries, and a *dirty* set of those that changed or may have something to tell. A fetch looks at
those alone, so that a reader of a thousand partitions does not pay for the idle ones. An entry leaves the set when
all that it can tell has been told, and comes back when its partition says so: whoever changes what a reader could
be told must notify the partition, or the reader never hears of it.

A session outlives the connection that opened it, since nothing says that its reader will not come back; their number
and what they hold together are bounded.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import ApiError, ErrorCode
from headrace.node.fetch_entries import Entry, EntryKey
from headrace.protocol.fetch import FetchPartition

if TYPE_CHECKING:
    from headrace.node.fetching import Fetch

SESSION_IDLE_US: Final = 120_000_000
SESSION_EPOCH_MAX: Final = 2**31 - 1
# Of all sessions together: some 50 MB. Without the bound, a thousand sessions could hold thirty million.
ENTRIES_MAX: Final = 1 << 17


class FetchSession:
    __slots__ = ("by_id", "dirty", "entries", "epoch", "id", "parked", "used_us")

    def __init__(self, session_id: int, *, by_id: bool, now_us: int) -> None:
        self.id = session_id
        self.epoch = 1  # The epoch that the next request must carry.
        self.by_id = by_id
        self.used_us = now_us
        self.entries: dict[EntryKey, Entry] = {}
        self.dirty: dict[Entry, None] = {}
        # One at most, unless its reader does not wait for answers.
        self.parked: list[Fetch] = []

    def put(self, topic_key: bytes, asked: FetchPartition) -> None:
        key = (topic_key, asked.partition)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(topic_key, asked, self)
        else:
            entry.asked = asked
            # To the end of the line: partitions that were just served come after those that were not.
            self.dirty.pop(entry, None)
        self.dirty[entry] = None

    def forget(self, topic_key: bytes, partition: int) -> None:
        entry = self.entries.pop((topic_key, partition), None)
        if entry is not None:
            entry.unwatch()
            self.dirty.pop(entry, None)

    def on_visible(self, entry: Entry, grown_bytes: int) -> None:
        self.dirty[entry] = None
        for fetch in self.parked:
            fetch.on_visible(entry, grown_bytes)

    def on_gone(self, entry: Entry) -> None:
        self.dirty[entry] = None
        for fetch in self.parked:
            fetch.on_gone(entry)

    def close(self) -> None:
        for entry in self.entries.values():
            entry.unwatch()
        self.entries.clear()
        self.dirty.clear()
        # They would wait for what nobody tells them any more.
        for fetch in tuple(self.parked):
            fetch.hurry()


class FetchSessionStatistics(NamedTuple):
    sessions: int
    partitions: int
    evicted: int


class FetchSessions:
    """The node's sessions. When they are full, only idle ones give way, and newcomers do without."""

    __slots__ = ("_by_id", "_entries_max", "_evicted", "_slots_max")

    def __init__(self, *, slots_max: int, entries_max: int = ENTRIES_MAX) -> None:
        # In the order of their use, so that the first is the idlest.
        self._by_id: dict[int, FetchSession] = {}
        self._slots_max = slots_max
        self._entries_max = entries_max
        self._evicted = 0

    def open(
        self, entry_count: int, *, by_id: bool, random_bytes: Callable[[int], bytes], now_us: int
    ) -> FetchSession | None:
        """A session for a reader of so many partitions, or None where there is no room."""
        while len(self._by_id) >= self._slots_max or self._entry_count() + entry_count > self._entries_max:
            idlest = next(iter(self._by_id.values()), None)
            if idlest is None or now_us - idlest.used_us < SESSION_IDLE_US:
                return None
            self.close(idlest.id)
            self._evicted += 1
        session_id = 0
        while session_id == 0 or session_id in self._by_id:
            session_id = int.from_bytes(random_bytes(4), "big") & 0x7FFFFFFF
        session = self._by_id[session_id] = FetchSession(session_id, by_id=by_id, now_us=now_us)
        return session

    def find(self, session_id: int) -> FetchSession | None:
        """To look at; nobody is served by it."""
        return self._by_id.get(session_id)

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

    def check_room(self, session: FetchSession) -> None:
        """Of a session that grew. Without it, its reader names everything again and is served without one."""
        if self._entry_count() > self._entries_max:
            self.close(session.id)
            self._evicted += 1
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()

    def _entry_count(self) -> int:
        return sum([len(session.entries) for session in self._by_id.values()])

    def statistics(self) -> FetchSessionStatistics:
        return FetchSessionStatistics(len(self._by_id), self._entry_count(), self._evicted)
