"""Compaction of this node's logs: one at a time, the filthiest first.

Decides what is to be done next and what its outcome means; the work is the cleaner's, off the loop, and the swap is
storage's. Between two steps anything may have happened to the log: retention may have taken segments, the topic may be
gone. Each step looks again, and what does not fit any more is thrown away; the next cleaning begins anew.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import CorruptBatch, HeadraceError, StorageError
from headrace.ids import TopicPartition
from headrace.node.topics import Partition
from headrace.ports import CleanedSegments, Cleaner, CleanJob, Disk, File, MapJob, MappedKeys
from headrace.storage.cleanable import Dirt, is_due, next_group
from headrace.storage.segment import CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, segment_name
from headrace.storage.swapping import Swap

if TYPE_CHECKING:
    from headrace.node.node import Node

LOOK_US_MIN: Final = 100_000


class CompactionStatistics(NamedTuple):
    cleanings: int
    failures: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    running: str | None  # The partition that is being cleaned.
    uncleanable: int  # Partitions that cannot be read, left alone until the next start.


class _Cleaning:
    """One log being cleaned, from its first segment on."""

    __slots__ = ("began_us", "dirt", "name", "next_offset", "partition", "totals")

    def __init__(self, partition: Partition, name: TopicPartition, dirt: Dirt, began_us: int) -> None:
        self.partition = partition
        self.name = name
        self.dirt = dirt
        self.began_us = began_us
        self.next_offset = 0
        self.totals = CleanedSegments(0, 0, 0, 0)


class Compaction:
    def __init__(self, node: "Node", disk: Disk, cleaner: Cleaner) -> None:
        self._node = node
        self._disk = disk
        self._cleaner = cleaner
        self._running: _Cleaning | None = None
        self._uncleanable: set[tuple[bytes, int]] = set()
        self._is_closed = False
        self._cleanings = self._failures = 0
        self._totals = CleanedSegments(0, 0, 0, 0)

    def close(self) -> None:
        """What is under way is left as a crash would leave it."""
        self._is_closed = True

    def statistics(self) -> CompactionStatistics:
        running = str(self._running.name) if self._running is not None else None
        return CompactionStatistics(
            self._cleanings, self._failures, *self._totals, running=running, uncleanable=len(self._uncleanable)
        )

    # --- Choosing --------------------------------------------------------------------------------------------

    def look_regularly(self) -> None:
        """As often as the settings say by then."""
        interval_us = max(self._node.config.log_cleaner_backoff_ms * 1000, LOOK_US_MIN)

        def again() -> None:
            if not self._is_closed:
                self._node.attempt("compaction failed", self.look)
                self.look_regularly()

        self._node.timers.at(self._node.clock.mono_us() + interval_us, again)

    def look(self) -> None:
        """Begin with the filthiest log, if any is dirty enough and none is being cleaned."""
        if self._running is not None or self._is_closed or not self._node.config.log_cleaner_enable:
            return
        filthiest = max(self.find_due(), key=lambda due: due[2].ratio, default=None)
        if filthiest is not None:
            self._begin(*filthiest)

    def find_due(self) -> Iterator[tuple[Partition, TopicPartition, Dirt]]:
        """The logs that are dirty enough."""
        for topic in self._node.topics:
            if not topic.config.compacts:
                continue
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.index)
                dirt = self._dirt_of(partition, name)
                if dirt is not None:
                    yield partition, name, dirt

    def _dirt_of(self, partition: Partition, name: TopicPartition) -> Dirt | None:
        log = partition.log
        if log.offline is not None or _identity(partition) in self._uncleanable:
            return None
        try:
            if log.recovery_point < log.segments[-1].base_offset:
                # What a start had to read again is not trusted to be on disk, and nobody else may ask for it to be.
                log.flush()
            dirt = log.find_dirt(cleaned_offset=self._node.data.cleaned_offset(name), now_ms=self._node.clock.wall_ms())
        except (StorageError, CorruptBatch) as error:
            self._give_up(partition, error)
            return None
        return dirt if is_due(dirt, log.config) else None

    # --- Working ---------------------------------------------------------------------------------------------

    def _begin(self, partition: Partition, name: TopicPartition, dirt: Dirt) -> None:
        cleaning = self._running = _Cleaning(partition, name, dirt, self._node.clock.mono_us())
        log, config = partition.log, self._node.config
        sealed = [segment.base_offset for segment in log.segments[:-1] if segment.base_offset < dirt.end_offset]
        # From the one on in which the dirty part begins.
        first = max((base for base in sealed if base <= dirt.start_offset), default=sealed[0])
        job = MapJob(
            directory=log.directory,
            bases=[base for base in sealed if base >= first],
            start_offset=dirt.start_offset,
            end_offset=dirt.end_offset,
            memory_bytes_max=config.log_cleaner_dedupe_buffer_size,
            bytes_per_s_max=config.log_cleaner_io_max_bytes_per_second,
        )
        self._cleaner.map_then(job, partial(self._mapped, cleaning))

    def _mapped(self, cleaning: _Cleaning, outcome: MappedKeys | Exception) -> None:
        if isinstance(outcome, Exception):
            self._fail(cleaning, outcome)
        elif outcome.end_offset <= cleaning.dirt.start_offset:
            reason = "the keys of one batch do not fit log.cleaner.dedupe.buffer.size"
            self._fail(cleaning, CorruptBatch(f"{cleaning.partition.log.directory}: {reason}"))
        else:
            self._clean_next(cleaning, outcome.end_offset)

    def _clean_next(self, cleaning: _Cleaning, mapped_offset: int) -> None:
        """The next segments that become one; the end where there are no more."""
        if not self._is_wanted(cleaning):
            return
        log, config = cleaning.partition.log, self._node.config
        try:
            group = next_group(
                log.sealed_segments(with_indexes=True),
                log.config,
                from_offset=cleaning.next_offset,
                mapped_offset=mapped_offset,
                end_offset=cleaning.dirt.end_offset,
            )
            if not group:
                self._finish(cleaning, mapped_offset)
                return
            targets = self._make_targets(log.directory, group[0])
        except (StorageError, CorruptBatch) as error:
            self._fail(cleaning, error)
            return
        cleaning.next_offset = group[-1] + 1
        job = CleanJob(
            directory=log.directory,
            bases=group,
            remembered_offsets=sorted(log.producers.remembered_offsets()),
            now_ms=self._node.clock.wall_ms(),
            delete_retention_ms=log.config.delete_retention_ms,
            index_interval_bytes=log.config.index_interval_bytes,
            bytes_per_s_max=config.log_cleaner_io_max_bytes_per_second,
        )
        self._cleaner.clean_then(job, targets, partial(self._cleaned, cleaning, mapped_offset, group, targets))

    def _make_targets(self, directory: str, base_offset: int) -> list[File]:
        """Empty files to write into: made here, so that no cleaner ever needs a path to write to."""
        targets = []
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = f"{directory}/{segment_name(base_offset)}{suffix}{CLEANED_SUFFIX}"
            if self._disk.exists(path):
                self._disk.open(path).delete()  # Of a cleaning that failed.
            targets.append(self._disk.open(path, create=True))
        return targets

    def _cleaned(
        self,
        cleaning: _Cleaning,
        mapped_offset: int,
        group: Sequence[int],
        targets: Sequence[File],
        outcome: CleanedSegments | Exception,
    ) -> None:
        for file in targets:
            file.close()
        if isinstance(outcome, Exception):
            self._discard(targets)
            self._fail(cleaning, outcome)
            return
        if not self._is_wanted(cleaning):
            self._discard(targets)
            return
        cleaning.totals = _sum(cleaning.totals, outcome)
        log = cleaning.partition.log
        # Where records have no time of their own, retention goes by this.
        created_ms = max((old.created_ms for old in log.segments if old.base_offset <= group[-1]), default=0)
        try:
            segment = Segment(self._disk, log.directory, group[0], created_ms=created_ms, suffix=CLEANED_SUFFIX)
        except (StorageError, FileNotFoundError) as error:
            self._fail(cleaning, error)
            return

        def swapped(replaced: list[File] | None) -> None:
            if self._is_closed:
                return
            if replaced is not None:
                self._node.remove_later(cleaning.partition, replaced)
            self._clean_next(cleaning, mapped_offset)

        Swap(self._disk, log, group, segment, swapped).begin()

    def _discard(self, targets: Sequence[File]) -> None:
        def delete() -> None:
            for file in targets:
                file.delete()

        if not self._is_closed:
            self._node.attempt("cleaned segment not removed", delete)

    # --- Ends ------------------------------------------------------------------------------------------------

    def _is_wanted(self, cleaning: _Cleaning) -> bool:
        """Whether what is being cleaned is still there, and still to be compacted; if not, that was the end of it."""
        if self._is_closed or self._running is not cleaning:
            return False
        partition = cleaning.partition
        if partition.log.offline is None and partition.topic.config.compacts:
            return True
        self._running = None
        return False

    def _finish(self, cleaning: _Cleaning, mapped_offset: int) -> None:
        self._running = None
        self._cleanings += 1
        totals, node = cleaning.totals, self._node
        self._totals = _sum(self._totals, totals)
        node.attempt("cleaned offset not written", partial(node.data.note_cleaned, cleaning.name, mapped_offset))
        node.events.info(
            "log cleaned",
            partition=cleaning.name,
            offset=mapped_offset,
            ms=(node.clock.mono_us() - cleaning.began_us) // 1000,
            **totals._asdict(),
        )
        node.timers.at(node.clock.mono_us(), self.look)  # There may be more, of this log too.

    def _fail(self, cleaning: _Cleaning, error: Exception) -> None:
        if self._is_closed or self._running is not cleaning:
            return
        self._running = None
        if cleaning.partition.log.offline is not None:
            return  # That it failed, or is gone, has been told.
        self._failures += 1
        if isinstance(error, StorageError | FileNotFoundError):
            # For want of room, or because retention was faster: the next look tries again.
            self._node.events.warning("log not cleaned", partition=cleaning.name, error=error)
        else:
            self._give_up(cleaning.partition, error)

    def _give_up(self, partition: Partition, error: Exception) -> None:
        """Leave a log that cannot be read alone; a start repairs it."""
        assert isinstance(error, HeadraceError), error
        self._uncleanable.add(_identity(partition))
        self._node.events.error("log uncleanable", partition=partition.log.directory, error=error)


def _identity(partition: Partition) -> tuple[bytes, int]:
    return partition.topic.id, partition.index


def _sum(one: CleanedSegments, other: CleanedSegments) -> CleanedSegments:
    return CleanedSegments(*[left + right for left, right in zip(one, other, strict=True)])
