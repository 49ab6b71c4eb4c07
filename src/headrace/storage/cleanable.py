"""What of a log is to be compacted, when, and in which pieces: pure questions about sizes, offsets and times.

A log is *clean* up to some offset, *dirty* behind it, and its last part must not be touched: the active segment, what
is not visible or not safely on disk, and what is younger than `min.compaction.lag.ms`. Only whole segments are cleaned.
As in Kafka, save that the safety of what is read counts too.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.storage.index import TIME_ENTRY
from headrace.storage.log_config import LogConfig
from headrace.storage.scan import RELATIVE_OFFSET_MAX


class SealedSegment(NamedTuple):
    """`first_ms` is the largest timestamp of its first batch, `newest_ms` of all of them; -1 where none is known."""

    base_offset: int
    size_bytes: int
    first_ms: int
    newest_ms: int
    index_entries: int


class Dirt(NamedTuple):
    """What a cleaning would do: read the keys from `start_offset` on, and write anew what lies before `end_offset`."""

    start_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


def find_dirt(
    sealed: Sequence[SealedSegment],
    config: LogConfig,
    *,
    cleaned_offset: int | None,
    start_offset: int,
    safe_offset: int,
    active_base: int,
    end_offset: int,
    now_ms: int,
) -> Dirt:
    """`cleaned_offset` is what is written down as clean, `safe_offset` what is visible and on disk for good."""
    if cleaned_offset is None or not start_offset <= cleaned_offset <= end_offset:
        cleaned_offset = start_offset  # The log lost its end, or its beginning.
    next_bases = [segment.base_offset for segment in sealed[1:]] + [active_base]
    stop = active_base
    for segment, next_base in zip(sealed, next_bases, strict=False):
        is_young = config.min_compaction_lag_ms > 0 and segment.newest_ms > now_ms - config.min_compaction_lag_ms
        if next_base > safe_offset or (is_young and next_base > cleaned_offset):
            stop = segment.base_offset
            break
    cleanable = [segment for segment in sealed if segment.base_offset < stop]
    dirty = [segment for segment, end in zip(cleanable, next_bases, strict=False) if end > cleaned_offset]
    oldest_ms = min((segment.first_ms for segment in dirty if segment.first_ms > 0), default=now_ms)
    return Dirt(
        start_offset=cleaned_offset,
        end_offset=max(stop, cleaned_offset),
        clean_bytes=sum(segment.size_bytes for segment in cleanable if segment.base_offset < cleaned_offset),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        is_overdue=bool(dirty) and now_ms - oldest_ms > config.max_compaction_lag_ms,
    )


def is_due(dirt: Dirt, config: LogConfig) -> bool:
    return dirt.dirty_bytes > 0 and (dirt.is_overdue or dirt.ratio > config.min_cleanable_dirty_ratio)


def next_group(
    sealed: Sequence[SealedSegment], config: LogConfig, *, from_offset: int, mapped_offset: int, end_offset: int
) -> list[int]:
    """The base offsets of the next segments that are cleaned into one, which must not be too large then.

    How small it becomes nobody knows yet, so that they are taken as large as they are. Behind `mapped_offset` no key is
    known, and `end_offset` is where the first segment begins that must not be touched.
    """
    group: list[int] = []
    size_bytes = entries = 0
    entries_max = config.segment_index_bytes // TIME_ENTRY.size  # The wider of the two kinds.
    waiting = [segment for segment in sealed if from_offset <= segment.base_offset < end_offset]
    next_bases = [segment.base_offset for segment in waiting[1:]] + [end_offset]
    for segment, next_base in zip(waiting, next_bases, strict=False):
        if segment.base_offset >= mapped_offset:
            break
        size_bytes += segment.size_bytes
        entries += segment.index_entries
        fits = (
            size_bytes <= config.segment_bytes
            and entries < entries_max
            and (segment.size_bytes == 0 or next_base - 1 - (group or [segment.base_offset])[0] <= RELATIVE_OFFSET_MAX)
        )
        if group and not fits:
            break
        group.append(segment.base_offset)
    return group
