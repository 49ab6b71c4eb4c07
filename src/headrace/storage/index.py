"""The two sparse indexes of a segment, in Kafka's format.

`.index` maps an offset (relative to the segment) to the position of the batch that ends with it; `.timeindex` maps
a timestamp to the offset by which it was reached. Entries rise strictly in the offset index.

Only the tail is in memory, so that memory does not grow with the data, and beside it the block of older entries that
was read last: a reader of old data moves through one block after the other. Entries are written in bulk; those not
written when the process dies are rebuilt by recovery, which reads every segment that was not known to be on disk.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import DiskFull
from headrace.ports import File, Files
from headrace.protocol.batch import NO_TIMESTAMP

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")

# Entries kept in memory behind the end: 1,024 of them reach back 4 MiB at least.
_TAIL_ENTRIES: Final = 1024
_PENDING_ENTRIES_MAX: Final = 512
_BLOCK_ENTRIES: Final = 512


class _EntryFile:
    """Fixed-width entries in a file that is created when the first ones are written."""

    __slots__ = ("_disk", "_entry", "_path", "count", "opened")

    def __init__(self, disk: Files, path: str, entry: Struct) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self.opened: File | None = disk.open(path) if disk.exists(path) else None
        # A torn last entry is not an entry.
        self.count = self.opened.size // entry.size if self.opened else 0

    def file(self) -> File:
        if self.opened is None:
            self.opened = self._disk.open(self._path, create=True)
        return self.opened

    def append(self, entries: Sequence[tuple[int, int]]) -> None:
        file, pack = self.file(), self._entry.pack
        if file.size != self.count * self._entry.size:
            file.truncate(self.count * self._entry.size)
        file.append([b"".join([pack(*entry) for entry in entries])])
        self.count += len(entries)

    def at(self, index: int) -> tuple[int, int]:
        first, second = self._entry.unpack(self.file().read(index * self._entry.size, self._entry.size))
        return first, second

    def first_index_where(self, beyond: Callable[[tuple[int, int]], bool], *, end: int) -> int:
        """The smallest index below `end` whose entry is `beyond`, or `end`."""
        low, high = 0, end
        while low < high:
            middle = (low + high) // 2
            if beyond(self.at(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def block_before(self, beyond: Callable[[tuple[int, int]], bool], *, end: int) -> tuple["array[int]", "array[int]"]:
        """Both columns of the last block that does not begin `beyond`; of the first one if all do."""
        low, high = 0, (end + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES
        while low < high:
            middle = (low + high) // 2
            if beyond(self.at(middle * _BLOCK_ENTRIES)):
                high = middle
            else:
                low = middle + 1
        first = max(low - 1, 0) * _BLOCK_ENTRIES
        count = min(_BLOCK_ENTRIES, end - first)
        columns = array("i", self.file().read(first * self._entry.size, count * self._entry.size))
        if sys.byteorder == "little":
            columns.byteswap()
        return columns[0::2], columns[1::2]

    def truncate(self, count: int) -> None:
        if self.opened is not None:
            self.opened.truncate(count * self._entry.size)
        self.count = count


class OffsetIndex:
    __slots__ = ("_block_offsets", "_block_positions", "_entries", "_offsets", "_pending", "_positions", "_tail_first")

    def __init__(self, disk: Files, path: str) -> None:
        self._entries = _EntryFile(disk, path, OFFSET_ENTRY)
        self._pending: list[tuple[int, int]] = []
        # The tail: entries from number `_tail_first` on, pending ones included.
        self._tail_first = self._entries.count
        self._offsets = array("i")
        self._positions = array("i")
        self._block_offsets = array("i")
        self._block_positions = array("i")

    @property
    def count(self) -> int:
        return self._tail_first + len(self._offsets)

    def append(self, relative_offset: int, position: int) -> None:
        assert not self._offsets or relative_offset > self._offsets[-1]
        self._offsets.append(relative_offset)
        self._positions.append(position)
        self._pending.append((relative_offset, position))
        if len(self._pending) >= _PENDING_ENTRIES_MAX:
            # The batch is in the log already: a full disk must not fail it. The entries wait for room.
            with suppress(DiskFull):
                self.flush()

    def floor(self, relative_offset: int) -> int:
        """Position of a batch that ends at or before `relative_offset`; 0 where none is known."""
        return self.around(relative_offset)[0]

    def around(self, relative_offset: int) -> tuple[int, int]:
        """That position, and the one of the next entry, whose batch may hold `relative_offset`; -1 where none may."""
        offsets, positions = self._offsets, self._positions
        if self._tail_first and not (offsets and relative_offset >= offsets[0]):
            block = self._block_offsets
            if not block or not block[0] <= relative_offset < block[-1]:
                self._read_block(lambda entry: entry[0] > relative_offset)
            offsets, positions = self._block_offsets, self._block_positions
        index = bisect_right(offsets, relative_offset)
        if not index:
            return 0, positions[0] if positions else -1
        is_between = offsets[index - 1] < relative_offset and index < len(positions)
        return positions[index - 1], positions[index] if is_between else -1

    def boundary(self, position: int) -> int:
        """The last known start of a batch at or before `position`; 0 where none is known."""
        positions = self._positions
        if positions and position >= positions[0]:
            return positions[bisect_right(positions, position) - 1]
        if not self._tail_first:
            return 0
        positions = self._block_positions
        if not positions or not positions[0] <= position < positions[-1]:
            self._read_block(lambda entry: entry[1] > position)
        index = bisect_right(self._block_positions, position)
        return self._block_positions[index - 1] if index else 0

    def _read_block(self, beyond: Callable[[tuple[int, int]], bool]) -> None:
        """Read the block before the first one that begins `beyond`."""
        self._block_offsets, self._block_positions = self._entries.block_before(beyond, end=self._tail_first)

    def last(self) -> tuple[int, int] | None:
        if self._offsets:
            return self._offsets[-1], self._positions[-1]
        return self._entries.at(self._tail_first - 1) if self._tail_first else None

    def flush(self) -> None:
        if self._pending:
            self._entries.append(self._pending)
            self._pending = []
        excess = len(self._offsets) - _TAIL_ENTRIES
        if excess > 0:
            del self._offsets[:excess]
            del self._positions[:excess]
            self._tail_first += excess

    def clear(self) -> None:
        """Forget everything, whatever the file holds: after a crash that may be anything."""
        self._entries.truncate(0)
        self._pending.clear()
        self.truncate(0)

    def truncate(self, relative_offset: int) -> None:
        """Forget entries at or beyond `relative_offset`."""
        keep = self._entries.first_index_where(lambda e: e[0] >= relative_offset, end=self._entries.count)
        self._entries.truncate(keep)
        self._pending = [entry for entry in self._pending if entry[0] < relative_offset]
        self._tail_first = keep
        self._offsets = array("i", [entry[0] for entry in self._pending])
        self._positions = array("i", [entry[1] for entry in self._pending])
        self._block_offsets = array("i")
        self._block_positions = array("i")

    def file(self) -> File:
        return self._entries.file()

    @property
    def opened(self) -> File | None:
        return self._entries.opened


class TimeEntry(NamedTuple):
    timestamp: int
    relative_offset: int


class TimeIndex:
    __slots__ = ("_entries", "_last", "_pending")

    def __init__(self, disk: Files, path: str) -> None:
        self._entries = _EntryFile(disk, path, TIME_ENTRY)
        self._pending: list[TimeEntry] = []
        self._last: TimeEntry | None = None

    @property
    def count(self) -> int:
        return self._entries.count + len(self._pending)

    def last(self) -> TimeEntry | None:
        if self._last is None and self._entries.count:
            self._last = TimeEntry(*self._entries.at(self._entries.count - 1))
        return self._last

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Entries that would not raise the timestamp are left out, as Kafka does."""
        last = self.last()
        if timestamp <= (last.timestamp if last is not None else NO_TIMESTAMP):
            return
        self._last = TimeEntry(timestamp, relative_offset)
        self._pending.append(self._last)
        if len(self._pending) >= _PENDING_ENTRIES_MAX:
            with suppress(DiskFull):
                self.flush()

    def floor(self, timestamp: int) -> int:
        """A relative offset before which every record is older than `timestamp`; 0 where none is known."""
        if self._pending and self._pending[0].timestamp < timestamp:
            return self._pending[bisect_left(self._pending, (timestamp,)) - 1].relative_offset
        index = self._entries.first_index_where(lambda e: e[0] >= timestamp, end=self._entries.count)
        return self._entries.at(index - 1)[1] if index else 0

    def flush(self) -> None:
        if self._pending:
            self._entries.append(self._pending)
            self._pending = []

    def clear(self) -> None:
        self._entries.truncate(0)
        self._pending.clear()
        self._last = None

    def truncate(self, relative_offset: int) -> None:
        keep = self._entries.first_index_where(lambda e: e[1] >= relative_offset, end=self._entries.count)
        self._entries.truncate(keep)
        self._pending = [entry for entry in self._pending if entry.relative_offset < relative_offset]
        self._last = self._pending[-1] if self._pending else None

    def file(self) -> File:
        return self._entries.file()

    @property
    def opened(self) -> File | None:
        return self._entries.opened
