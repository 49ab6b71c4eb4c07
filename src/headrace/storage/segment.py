"""One segment: a `.log` file of batches, and the two sparse indexes over it.

A segment knows positions and offsets, never what is flushed, visible or retained; that is the log's business.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Buffer, File, Files
from headrace.protocol.batch import HEADER_BYTES, LENGTH_END, LOG_APPEND_TIME, MAGIC, NO_TIMESTAMP, BatchHeader
from headrace.protocol.records import decode_records
from headrace.storage.index import OffsetIndex, TimeIndex
from headrace.storage.scan import headers_from

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
# Behind the others, for the time before and after a file is a part of the log.
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

# Base offset, batch length, magic and last offset delta: all that finding a batch needs of its header.
_STEP: Final = Struct(">qi4xb6xi")
_STEP_WINDOW_BYTES: Final = 4096
_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_END


# A piece of a file: who sends it, and how, is the shell's business.
Span = tuple[File, int, int]


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    __slots__ = (
        "_disk",
        "_offsets",
        "_suffix",
        "_times",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "first_timestamp",
        "index_entries",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(
        self, disk: Files, directory: str, base_offset: int, *, created_ms: int, create: bool = False, suffix: str = ""
    ) -> None:
        self._disk = disk
        self._suffix = suffix
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.log: File = disk.open(self.path(LOG_SUFFIX), create=create)
        self.bytes_since_index = 0
        # Learned from the time index when first asked for, kept while appending.
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp: int | None = None
        self.index_entries = 0
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{segment_name(self.base_offset)}{suffix}{self._suffix}"

    @property
    def size(self) -> int:
        return self.log.size

    # The indexes are opened when first needed: most sealed segments are never read again.
    @property
    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            self._offsets = OffsetIndex(self._disk, self.path(INDEX_SUFFIX))
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        if self._times is None:
            self._times = TimeIndex(self._disk, self.path(TIME_INDEX_SUFFIX))
        return self._times

    @property
    def has_indexes(self) -> bool:
        return self._disk.exists(self.path(INDEX_SUFFIX)) and self._disk.exists(self.path(TIME_INDEX_SUFFIX))

    def append(self, batch: Buffer, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> int:
        """Write one placed batch; its position. Plain arguments: they are cheaper, and every batch comes here."""
        position = self.log.size
        self.log.append((batch,))
        self.note(position, len(batch), last_offset, max_timestamp, index_interval_bytes)
        return position

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval_bytes: int) -> None:
        """Index a batch that stands at `position`: after writing it, or when rebuilding."""
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index > index_interval_bytes:
            self.offsets.append(last_offset - self.base_offset, position)
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
            self.index_entries += 1
            self.bytes_since_index = 0
        self.bytes_since_index += size

    def seal(self) -> None:
        """The largest timestamp becomes the last time entry: what asks for it later looks there."""
        if self.max_timestamp != NO_TIMESTAMP:
            self.times.append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def write_indexes(self) -> tuple[File, File]:
        """Write out what the indexes still hold; their files. An empty one is a file too, or it would be rebuilt."""
        self.offsets.flush()
        self.times.flush()
        return self.offsets.file(), self.times.file()

    def close_indexes(self) -> None:
        """Give back their memory, once they are written out. The next reader opens them again."""
        self._offsets = None
        self._times = None

    def forget_indexes(self) -> None:
        """Start the indexes anew, before the whole segment is noted again."""
        self.offsets.clear()
        self.times.clear()
        self.bytes_since_index = 0
        self.index_entries = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = None

    def resume(self) -> None:
        """Recall what appending needs to know of a segment that another process wrote."""
        self.learn_timestamps()
        self.index_entries = self.offsets.count

    def learn_timestamps(self) -> None:
        """Recall the largest timestamp of a segment that was not written by this process."""
        if self.max_timestamp == NO_TIMESTAMP and (last := self.times.last()) is not None:
            self.max_timestamp = last.timestamp
            self.max_timestamp_offset = self.base_offset + last.relative_offset

    def learn_first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which a segment's age in event time is counted."""
        if self.first_timestamp is None:
            for _, header in headers_from(self.log, start=0, end=self.log.size):
                self.first_timestamp = header.max_timestamp
                break
        return NO_TIMESTAMP if self.first_timestamp is None else self.first_timestamp

    def locate(self, offset: int, end: int) -> tuple[int, int] | None:
        """Position and size of the first batch before `end` that reaches `offset`."""
        log = self.log
        unpack = _STEP.unpack_from
        position, following = self.offsets.around(offset - self.base_offset)
        if 0 <= following <= end - _STEP.size:
            # Whoever reads on where a span ended is there already: spans end where the index knows a batch to begin.
            base_offset, length, magic, last_offset_delta = unpack(log.read(following, _STEP.size))
            is_there = base_offset <= offset <= base_offset + last_offset_delta
            if is_there and magic == MAGIC and length >= _LENGTH_MIN:
                return following, length + LENGTH_END
        window_start = position
        window = log.read(position, _STEP_WINDOW_BYTES)
        while position < end:
            at = position - window_start
            if at + _STEP.size > len(window):
                window_start = position
                window = log.read(position, _STEP_WINDOW_BYTES)
                at = 0
                if len(window) < _STEP.size:
                    raise CorruptBatch(f"{log.path} at {position}: no batch header before position {end}")
            base_offset, length, magic, last_offset_delta = unpack(window, at)
            if magic != MAGIC or length < _LENGTH_MIN:
                raise CorruptBatch(f"{log.path} at {position}: no batch header, but magic {magic}, length {length}")
            if base_offset + last_offset_delta >= offset:
                return position, length + LENGTH_END
            position += length + LENGTH_END
        return None

    def span(
        self, position: int, end: int, bytes_max: int, at_least_one: bool, first_bytes: int | None = None
    ) -> Span | None:
        """What a reader gets from the batch at `position` on: whole batches if that is known, no more than its limit.

        `first_bytes` is the size of that batch where it is known. Plain arguments: every fetch asks.
        """
        size = end - position
        if size <= bytes_max:
            return self.log, position, size
        # Ending on a batch boundary spares the reader a cut batch, which it would fetch again.
        size = self.offsets.boundary(position + bytes_max) - position
        if size <= 0:
            if first_bytes is None:
                first_bytes = int.from_bytes(self.log.read(position + 8, 4), "big") + LENGTH_END
            if first_bytes <= bytes_max:
                size = bytes_max
            elif at_least_one:
                size = first_bytes
            else:
                return None  # Some readers take bytes without one whole batch for a broken log.
        return self.log, position, size

    def last_header(self) -> BatchHeader | None:
        """The last batch, found from the last index entry on."""
        last_entry = self.offsets.last()
        start = last_entry[1] if last_entry and last_entry[1] < self.log.size else 0
        last = None
        for _, header in headers_from(self.log, start=start, end=self.log.size):
            last = header
        return last

    def find_timestamp(self, timestamp: int, *, start_offset: int, end: int) -> TimestampOffset | None:
        """The first record at or after `start_offset` whose timestamp is at least `timestamp`."""
        from_offset = max(self.times.floor(timestamp), start_offset - self.base_offset)
        for position, header in headers_from(self.log, start=self.offsets.floor(from_offset), end=end):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for record in decode_records(self.log.read(position, header.size_bytes)):
                if record.timestamp_ms >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return None

    def find_max_timestamp(self, *, end: int) -> TimestampOffset | None:
        """The first record that carries the segment's largest timestamp."""
        self.learn_timestamps()
        if self.max_timestamp == NO_TIMESTAMP:
            return None
        start = self.offsets.floor(self.max_timestamp_offset - self.base_offset)
        for position, header in headers_from(self.log, start=start, end=end):
            if header.max_timestamp == self.max_timestamp:
                if header.attributes & LOG_APPEND_TIME:
                    return TimestampOffset(header.max_timestamp, header.base_offset, header.leader_epoch)
                for record in decode_records(self.log.read(position, header.size_bytes)):
                    if record.timestamp_ms == self.max_timestamp:
                        return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return None

    def doomed_files(self, *, keep_snapshot: bool = False) -> list[File]:
        """The files renamed out of the way, to be deleted once nobody can be reading them.

        A snapshot stays where another segment begins at the same offset.
        """
        return self.rename(DELETED_SUFFIX, with_snapshot=not keep_snapshot)

    def rename(self, suffix: str, *, with_snapshot: bool = False) -> list[File]:
        """Give all its files another last suffix; the files."""
        # By the handles that there are: a sync of one that is under way must not lose its file.
        opened = [self.log]
        opened += [index.opened for index in (self._offsets, self._times) if index is not None and index.opened]
        by_path = {file.path: file for file in opened}
        others = [self.path(kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)]
        if with_snapshot:
            others.append(f"{self.directory}/{segment_name(self.base_offset)}{SNAPSHOT_SUFFIX}")
        for path in others:
            if path not in by_path and self._disk.exists(path):
                by_path[path] = self._disk.open(path)
        for path, file in by_path.items():
            file.rename(path.removesuffix(self._suffix) + suffix)
        self._suffix = suffix
        return list(by_path.values())
