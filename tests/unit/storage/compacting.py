"""A log that is compacted in one go, for the tests of the storage room; the node does it in steps."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar

from headrace.ports import CleanedSegments, File, Readable
from headrace.protocol.records import Record, encode_batch
from headrace.storage.cleanable import next_group
from headrace.storage.compaction import clean_segments, map_keys
from headrace.storage.key_map import KeyMap
from headrace.storage.segment import CLEANED_SUFFIX, LOG_SUFFIX, Segment
from headrace.storage.swapping import Swap
from tests.unit.storage.logs import DIRECTORY, NOW_MS, LogStage, read_records

R = TypeVar("R")
Pair = tuple[bytes | None, bytes | None]
MEMORY_BYTES = 1 << 20


def keyed(*pairs: Pair, timestamp_ms: int = NOW_MS, **more: object) -> bytes:
    """A batch of keys and values."""
    records = [Record(key, value, timestamp_ms=timestamp_ms) for key, value in pairs]
    return encode_batch(records, **more)  # type: ignore[arg-type]


def run(steps: Generator[int, None, R]) -> R:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def sources(stage: LogStage, bases: Sequence[int]) -> list[Callable[[], Readable]]:
    return [partial(stage.disk.open, stage.path(base, LOG_SUFFIX)) for base in bases]


def write_cleaned(
    stage: LogStage, bases: Sequence[int], keys: KeyMap, *, now_ms: int = NOW_MS
) -> tuple[Segment, CleanedSegments]:
    """The files that take the place of some segments, not there yet."""
    settings = stage.settings
    path = stage.path(bases[0], LOG_SUFFIX) + CLEANED_SUFFIX
    stage.disk.open(path, create=True)
    target = Segment(stage.disk, DIRECTORY, bases[0], created_ms=now_ms, suffix=CLEANED_SUFFIX)
    cleaned = run(
        clean_segments(
            sources(stage, bases),
            target,
            keys,
            remembered_offsets=stage.log.producers.remembered_offsets(),
            now_ms=now_ms,
            delete_retention_ms=settings.delete_retention_ms,
            index_interval_bytes=settings.index_interval_bytes,
        )
    )
    return Segment(stage.disk, DIRECTORY, bases[0], created_ms=now_ms, suffix=CLEANED_SUFFIX), cleaned


def compact(
    stage: LogStage, *, cleaned_offset: int | None = None, now_ms: int = NOW_MS, memory_bytes: int = MEMORY_BYTES
) -> int:
    """Compact whatever is sealed; up to where that was done. The files that were replaced are deleted at once."""
    if stage.log.recovery_point < stage.log.segments[-1].base_offset:
        assert stage.flush() is None
    stage.settle()
    log = stage.log
    dirt = log.find_dirt(cleaned_offset=cleaned_offset, now_ms=now_ms)
    sealed = [segment.base_offset for segment in log.segments[:-1] if segment.base_offset < dirt.end_offset]
    if dirt.dirty_bytes == 0:
        return dirt.start_offset
    first = max((base for base in sealed if base <= dirt.start_offset), default=sealed[0])
    keys = KeyMap(start_offset=dirt.start_offset, bytes_max=memory_bytes)
    dirty = sources(stage, [base for base in sealed if base >= first])
    mapped = run(map_keys(dirty, keys, end_offset=dirt.end_offset))
    next_offset = 0
    while group := next_group(
        log.sealed_segments(with_indexes=True),
        log.config,
        from_offset=next_offset,
        mapped_offset=mapped.end_offset,
        end_offset=dirt.end_offset,
    ):
        next_offset = group[-1] + 1
        segment, _ = write_cleaned(stage, group, keys, now_ms=now_ms)
        swap(stage, group, segment)
    return mapped.end_offset


def swap(stage: LogStage, group: Sequence[int], segment: Segment) -> list[File] | None:
    outcomes: list[list[File] | None] = []
    Swap(stage.disk, stage.log, group, segment, outcomes.append).begin()
    stage.world.run_until_true(lambda: bool(outcomes))
    for file in outcomes[0] or ():
        file.delete()
    return outcomes[0]


def pairs(stage: LogStage) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of everything that a reader gets."""
    return [(record.offset, record.key, record.value) for record in read_records(stage.log)]


def latest(found: Sequence[tuple[int, bytes | None, bytes | None]]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in found}
