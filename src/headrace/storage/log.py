"""One partition's log: segments in order, offsets given out at the end, reads answered with spans.

Owns the offsets of a partition (start, flushed, high watermark, end), the producers' memory and the epochs. One
writer. It does not know replicas, requests or sockets: a read answers with a span `(file, position, size)`, and who
sends it, and how, is the shell's business.

    start_offset <= high_watermark <= end_offset        flushed_offset <= end_offset

On one node the high watermark follows the end at once, or the flushed offset where `flush.before.expose` is set.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from headrace.errors import ApiError, CorruptBatch, DiskFull, ErrorCode, StorageError
from headrace.ports import Disk
from headrace.protocol.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    sequence_after,
    write_append_time,
    write_placement,
)
from headrace.storage.cleanable import Dirt, SealedSegment, find_dirt
from headrace.storage.epochs import LeaderEpochs
from headrace.storage.flushing import FlushDone, Flusher, Place, SyncTargets
from headrace.storage.log_config import LogConfig
from headrace.storage.producers import Producers, WrittenBatch
from headrace.storage.retention import SegmentFacts, expired_segments
from headrace.storage.rolling import Rolling
from headrace.storage.segment import SNAPSHOT_SUFFIX, Segment, Span, TimestampOffset, segment_name
from headrace.storage.segments import Segments

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
# Recent batch starts, so that a reader at the tail needs no search.
_RECENT_MAX: Final = 512
_NEVER_MS: Final = 2**63 - 1


class Appended(NamedTuple):
    """Where a batch stands. `append_time_ms` is -1 unless the broker stamped it."""

    base_offset: int
    last_offset: int
    append_time_ms: int


class Duplicate(NamedTuple):
    """The batch was written before: no error, the same answer as then."""

    base_offset: int
    last_offset: int
    append_time_ms: int


class LogStatistics(NamedTuple):
    start_offset: int
    high_watermark: int
    end_offset: int
    flushed_offset: int
    size_bytes: int
    segments: int
    producers: int
    leader_epoch: int
    offline: str | None


class PartitionLog:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        segments: list[Segment],
        start_offset: int,
        end_offset: int,
        flushed_offset: int,
        producers: Producers,
        epochs: LeaderEpochs,
        unsynced: list[Segment],
        is_settled: bool,
    ) -> None:
        """Use `loading.load_log`; this takes what it found.

        `unsynced` are sealed segments whose indexes were made anew. A settled log is on disk as a clean stop leaves it.
        """
        self._disk = disk
        self.directory = directory
        self._segments = Segments(segments)
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.producers = producers
        self.epochs = epochs
        self.offline: StorageError | None = None
        self._flusher = Flusher(self, flushed_offset=flushed_offset)
        self._dirty_directories = {directory, "."}
        # Sealed segments whose indexes are not known to be on disk: those that a flush is to take, those it has taken.
        self._unsynced = unsynced
        self._syncing: list[Segment] = []
        # Whether the name of the first file is known to be on disk.
        self._is_head_durable = flushed_offset > segments[0].base_offset
        # Where the log ended when it was last left with nothing to write down.
        self._settled_end = end_offset if is_settled else -1
        self._recent: dict[int, int] = {}
        # Set by the owner: told when the high watermark moves outside an append, and when sealed segments are on disk.
        self.on_watermark: Callable[[], None] = lambda: None
        self.on_sealed: Callable[[], None] = lambda: None
        # And when an error takes the log offline.
        self.on_offline: Callable[[], None] = lambda: None
        self._segments.active.resume()
        self._take_config(config)
        # The visible end: offset, and where that is. Readers never pass it.
        visible = flushed_offset if config.flush_before_expose else end_offset
        self.high_watermark = max(visible, start_offset)
        _, self._watermark_base, self._watermark_position = self._place_of(self.high_watermark)

    # --- Writing ---------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, header: BatchHeader, *, now_ms: int, leader_epoch: int) -> Appended | Duplicate:
        """Place an admitted batch at the end. The memory of `batch` is changed, and free again on return."""
        if self.offline is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.directory} is offline: {self.offline}")
        has_producer = header.producer_id != NO_PRODUCER_ID
        if has_producer:
            last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
            written = self.producers.check(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                last_sequence=last_sequence,
            )
            if written is not None:
                return self._duplicate_of(written)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        append_time_ms = -1
        write_placement(batch, base_offset=base_offset, leader_epoch=leader_epoch)
        if self._append_time:
            write_append_time(batch, attributes=header.attributes, now_ms=now_ms)
            max_timestamp = append_time_ms = now_ms
        try:
            self._write(batch, last_offset, max_timestamp, now_ms)
        except DiskFull:
            if has_producer:
                self.producers.await_refused(
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    now_ms=now_ms,
                )
            raise
        except StorageError as error:
            self.fail(error)
            raise
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        if has_producer:
            self.producers.note(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                last_sequence=last_sequence,
                last_offset=last_offset,
                offset_delta=header.last_offset_delta,
                timestamp=max_timestamp,
            )
        return Appended(base_offset, last_offset, append_time_ms)

    def append_all(self, batches: Sequence[tuple[memoryview, BatchHeader]], *, now_ms: int, leader_epoch: int) -> None:
        """As `append`, one after the other: batches without a producer, in one write where one segment takes them all.

        Where that write fails nothing is appended; where several were needed, what came before.
        """
        segment = self._segments.active
        size = sum([len(batch) for batch, _ in batches])
        last_offset = self.end_offset + sum([header.record_count for _, header in batches]) - 1
        max_timestamp = max([header.max_timestamp for _, header in batches])
        is_simple = self.offline is None and segment.size > 0 and not self._append_time
        if not is_simple or self._rolling.is_due(segment, size, last_offset, max_timestamp, now_ms, len(batches)):
            for batch, header in batches:
                self.append(batch, header, now_ms=now_ms, leader_epoch=leader_epoch)
            return
        base_offset = self.end_offset
        for batch, header in batches:
            write_placement(batch, base_offset=base_offset, leader_epoch=leader_epoch)
            base_offset += header.record_count
        position = segment.log.size
        try:
            segment.log.append([batch for batch, _ in batches])
        except DiskFull:
            raise
        except StorageError as error:
            self.fail(error)
            raise
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)
        for batch, header in batches:
            size, last_offset = len(batch), self.end_offset + header.last_offset_delta
            segment.note(position, size, last_offset, header.max_timestamp, self._index_interval_bytes)
            self._move_end(segment, position, size, last_offset)
            position += size

    def _duplicate_of(self, written: WrittenBatch) -> Duplicate:
        append_time_ms = written.timestamp if self._append_time else -1
        return Duplicate(written.base_offset, written.last_offset, append_time_ms)

    def _write(self, batch: memoryview, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """A placed batch into the segment it belongs in, and the end moves. Plain arguments: every batch comes here."""
        segment = self._segments.active
        if self._rolling.is_due(segment, len(batch), last_offset, max_timestamp, now_ms):
            self.roll(now_ms=now_ms)
            segment = self._segments.active
        position = segment.append(batch, last_offset, max_timestamp, self._index_interval_bytes)
        self._move_end(segment, position, len(batch), last_offset)
        if position == 0:
            self._rolling.begin(segment)

    def _move_end(self, segment: Segment, position: int, size: int, last_offset: int) -> None:
        """Behind a batch that was written there."""
        recent = self._recent
        if len(recent) >= _RECENT_MAX:
            recent.clear()
        recent[self.end_offset] = position
        self.end_offset = last_offset + 1
        if not self._flush_before_expose:
            self.high_watermark = self.end_offset
            self._watermark_base = segment.base_offset
            self._watermark_position = position + size

    def roll(self, *, now_ms: int) -> None:
        """Seal the active segment and go on in a new one that starts at the end."""
        active = self._segments.active
        if active.size == 0:
            return
        if not self._is_head_durable:
            # Once, and only if nothing was ever flushed: a crash that took the first file and left the second would
            # make the log seem to start there.
            for path in (self.directory, "."):
                self._disk.sync_dir(path)
            self._is_head_durable = True
        # The new file comes last of what can fail: one that exists without being used would be in the way of offsets
        # that go on in the old one.
        self._write_snapshot(sync=False)
        segment = Segment(self._disk, self.directory, self.end_offset, created_ms=now_ms, create=True)
        active.seal()
        self._unsynced.append(active)
        self._segments.add(segment)
        self._dirty_directories.add(self.directory)
        self._recent.clear()
        self._rolling.begin(segment)
        # What is sealed goes to disk soon, so that recovery never has to read much.
        self._flusher.flush()

    def fail(self, error: StorageError) -> None:
        """Take the log offline: after an I/O error nobody knows what the disk holds."""
        if self.offline is None:
            self.offline = error
            self.on_offline()

    def _take_config(self, config: LogConfig) -> None:
        self.config = config
        # Copied, because an append asks for each of them.
        self._append_time = config.log_append_time
        self._flush_before_expose = config.flush_before_expose
        self._index_interval_bytes = config.index_interval_bytes
        self._rolling = Rolling(config, self._segments.active)

    def configure(self, config: LogConfig) -> None:
        """Obey other settings from now on. What was hidden until flushed is shown once that is no longer asked."""
        self._take_config(config)
        if not config.flush_before_expose and self.high_watermark < self.end_offset:
            self._show_to(self.end_place())

    # --- Flushing --------------------------------------------------------------------------------------------

    @property
    def flushed_offset(self) -> int:
        return self._flusher.flushed_offset

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - self._flusher.flushed_offset

    def flush_then(self, end_offset: int, done: FlushDone) -> None:
        """Call back once everything before `end_offset` is on disk, or cannot be."""
        self._flusher.flush_then(end_offset, done)

    def flush(self) -> None:
        """Put what is there now on disk, indexes of sealed segments included, though nobody waits for it."""
        self._flusher.flush()

    @property
    def recovery_point(self) -> int:
        """What a restart need not read: everything before it is on disk, indexes included."""
        oldest = min((segment.base_offset for segment in self._syncing + self._unsynced), default=self.flushed_offset)
        return min(self.flushed_offset, oldest)

    def end_place(self) -> Place:
        active = self._segments.active
        return Place(self.end_offset, active.base_offset, active.size)

    def _place_of(self, offset: int) -> Place:
        return self.end_place() if offset >= self.end_offset else self._segments.place_of(offset)

    def sync_targets(self) -> SyncTargets:
        with suppress(DiskFull):
            self._write_epochs()
        unsynced, self._unsynced = self._unsynced, []
        # A sealed log once more, though its batches may be on disk: a write that failed for want of room was cut off
        # again, and if a crash brought that back, the log would seem to end there.
        written = dict.fromkeys((*unsynced, *self._segments.since(self.flushed_offset)))
        targets: SyncTargets = [segment.log.sync_then for segment in written]
        # Only sealed segments: the indexes of the active one are rebuilt from it if they are lost.
        for segment in unsynced:
            try:
                targets.extend(file.sync_then for file in segment.write_indexes())
                self._syncing.append(segment)
            except DiskFull:
                self._unsynced.append(segment)
        targets += [partial(self._disk.sync_dir_then, path) for path in sorted(self._dirty_directories)]
        self._dirty_directories.clear()
        return targets

    def on_flushed(self, place: Place) -> None:
        self._is_head_durable = True
        if self._syncing:
            for segment in self._syncing:
                segment.close_indexes()
            self._syncing = []
            self.on_sealed()
        if self._flush_before_expose and place.offset > self.high_watermark:
            self._show_to(place)

    def _show_to(self, place: Place) -> None:
        assert self.high_watermark <= place.offset <= self.end_offset  # Consumers may have read this far.
        self.high_watermark, self._watermark_base, self._watermark_position = place
        self.on_watermark()

    # --- Reading ---------------------------------------------------------------------------------------------

    def read(self, offset: int, *, bytes_max: int, at_least_one: bool, to_end: bool = False) -> Span | None:
        """A span of whole batches from the one that holds `offset`; None where nothing is visible there.

        The span may end inside a batch where no boundary is known within the limit; readers drop the cut part.
        `at_least_one` gives the first batch whole even beyond the limit, or a reader would never get past it; otherwise
        a first batch beyond the limit gives None.
        `to_end` reads beyond the high watermark, for replicas.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is outside {self.start_offset}..{self.end_offset} of {self.directory}",
            )
        if to_end:
            limit_offset, limit_base, limit_position = self.end_place()
        else:
            limit_offset = self.high_watermark
            limit_base, limit_position = self._watermark_base, self._watermark_position
        if offset >= limit_offset:
            return None
        position = self._recent.get(offset)
        if position is not None:
            segment = self._segments.active
            end = limit_position if segment.base_offset == limit_base else segment.log.size
            return segment.span(position, end, bytes_max, at_least_one)
        try:
            return self._segments.read(offset, limit_base, limit_position, bytes_max, at_least_one)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error

    def has_more(self, span: Span) -> bool:
        """Whether more is visible behind a span."""
        file, position, size = span
        last = self._segments.holding(self._watermark_base)
        return file is not last.log or position + size < self._watermark_position

    def find_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first visible record whose timestamp is at least `timestamp`."""
        return self._segments.find_timestamp(
            timestamp,
            start_offset=self.start_offset,
            limit_base=self._watermark_base,
            limit_position=self._watermark_position,
        )

    def find_max_timestamp(self) -> TimestampOffset | None:
        """The first visible record that carries the largest timestamp of the log."""
        return self._segments.find_max_timestamp(
            limit_base=self._watermark_base, limit_position=self._watermark_position
        )

    # --- Forgetting ------------------------------------------------------------------------------------------

    def raise_start(self, offset: int) -> None:
        """Records before `offset` are no longer there."""
        assert offset <= self.high_watermark
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_from_start(offset)

    def drop_expired(self, *, now_ms: int) -> list[Segment]:
        """Let go of the segments that retention no longer wants.

        Their files go once it is written down where the log starts now: of several, a crash may bring back any.
        """
        if self.offline is not None:
            return []
        facts = []
        for segment in self._segments:
            segment.learn_timestamps()
            newest_ms = segment.max_timestamp if segment.max_timestamp != NO_TIMESTAMP else segment.created_ms
            facts.append(SegmentFacts(segment.base_offset, segment.size, newest_ms))
        count = expired_segments(
            facts,
            start_offset=self.start_offset,
            high_watermark=self.high_watermark,
            end_offset=self.end_offset,
            now_ms=now_ms,
            retention_ms=self.config.retention_ms if self.config.deletes else -1,
            retention_bytes=self.config.retention_bytes if self.config.deletes else -1,
        )
        if count == len(self._segments):
            try:
                self.roll(now_ms=now_ms)
            except DiskFull:
                count -= 1  # Where a new segment finds no room the active one stays; the others still make some.
        if count == 0:
            return []
        doomed = self._segments.drop(count)
        self._unsynced = [segment for segment in self._unsynced if segment not in doomed]
        first_base = self._segments.first.base_offset
        self.raise_start(max(self.start_offset, first_base))
        if self._watermark_base < first_base:
            _, self._watermark_base, self._watermark_position = self._place_of(self.high_watermark)
        self._dirty_directories.add(self.directory)
        return doomed

    # --- Compacting ------------------------------------------------------------------------------------------

    def sealed_segments(self, *, with_indexes: bool = False) -> list[SealedSegment]:
        """What compaction asks of the segments before the active one. Their indexes only where it must: that reads."""
        config = self.config
        sealed = []
        for segment in self._segments:
            if segment is self._segments.active:
                break
            if config.min_compaction_lag_ms > 0:
                segment.learn_timestamps()
            first_ms = NO_TIMESTAMP if config.max_compaction_lag_ms == _NEVER_MS else segment.learn_first_timestamp()
            entries = segment.offsets.count if with_indexes else 0
            sealed.append(SealedSegment(segment.base_offset, segment.size, first_ms, segment.max_timestamp, entries))
        return sealed

    def find_dirt(self, *, cleaned_offset: int | None, now_ms: int) -> Dirt:
        """What is to be compacted, given up to where that was done."""
        return find_dirt(
            self.sealed_segments(),
            self.config,
            cleaned_offset=cleaned_offset,
            start_offset=self.start_offset,
            # What is not on disk, indexes included, may still change its place.
            safe_offset=min(self.high_watermark, self.recovery_point),
            active_base=self._segments.active.base_offset,
            end_offset=self.end_offset,
            now_ms=now_ms,
        )

    def exchange(self, bases: Sequence[int], cleaned: Segment) -> list[Segment] | None:
        """Read from a compacted segment from now on; those that it replaces, or None where they are not all there."""
        replaced = self._segments.replace(bases, cleaned)
        if replaced is not None and self._watermark_base in bases:
            # Behind the last of them: positions in it are others now.
            _, self._watermark_base, self._watermark_position = self._place_of(self.high_watermark)
        return replaced

    def holds(self, segment: Segment) -> bool:
        return self._segments.holding(segment.base_offset) is segment

    # --- Lifecycle -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Put everything on disk that only memory holds, so that the next start reads nothing twice."""
        if self.offline is not None or self._settled_end == self.end_offset == self.recovery_point:
            return
        active = self._segments.active
        if self.end_offset == self.start_offset == active.base_offset and not self.producers:
            return  # It holds nothing: were its folder lost, the next start would make it again.
        active.seal()
        self._write_epochs()
        self._write_snapshot(sync=True)
        for segment in self._segments.since(self.recovery_point):
            for file in (segment.log, *segment.write_indexes()):
                file.sync()
        for path in (self.directory, "."):
            self._disk.sync_dir(path)
        self._flusher.flushed_offset = self._settled_end = self.end_offset
        self._unsynced.clear()
        self._syncing.clear()

    def _write_snapshot(self, *, sync: bool) -> None:
        path = f"{self.directory}/{segment_name(self.end_offset)}{SNAPSHOT_SUFFIX}"
        self._disk.replace_file(path, self.producers.encode(), sync=sync)

    def _write_epochs(self) -> None:
        # Not waited for: the batches carry their epochs, and whoever loads the file asks them whether it is complete.
        if self.epochs.dirty:
            self._disk.replace_file(f"{self.directory}/{EPOCHS_FILE}", self.epochs.encode(), sync=False)
            self.epochs.dirty = False

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    def statistics(self) -> LogStatistics:
        return LogStatistics(
            start_offset=self.start_offset,
            high_watermark=self.high_watermark,
            end_offset=self.end_offset,
            flushed_offset=self.flushed_offset,
            size_bytes=self.size_bytes,
            segments=len(self._segments),
            producers=len(self.producers),
            leader_epoch=self.epochs.latest,
            offline=str(self.offline) if self.offline else None,
        )
