"""Opening a partition's directory, after a clean stop or a crash.

After a clean stop almost nothing is read. After a crash every segment that was not known to be on disk is read
whole and its indexes are built anew. A torn tail of the last segment is cut at the first bad batch: nothing behind it
was acknowledged as flushed. In a sealed segment only the bad bytes go, to quarantine.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Disk
from headrace.protocol.batch import NO_PRODUCER_ID, BatchHeader
from headrace.storage.epochs import LeaderEpochs
from headrace.storage.log import EPOCHS_FILE, LogConfig, PartitionLog
from headrace.storage.producers import Producers
from headrace.storage.repair import Quarantined, repair_segment
from headrace.storage.scan import Damage, checked_batches, headers_from
from headrace.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, segment_name

LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, ".cleaned", ".swap", ".tmp")


class Recovery(NamedTuple):
    """What opening a log found and did."""

    segments_scanned: int = 0
    bytes_scanned: int = 0
    bytes_cut: int = 0
    quarantined: tuple[Quarantined, ...] = ()


def load_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
    now_ms: int,
) -> tuple[PartitionLog, Recovery]:
    disk.make_dir(directory)
    names = disk.list(directory)
    for name in names:
        if name.endswith(LEFTOVER_SUFFIXES):
            disk.open(f"{directory}/{name}").delete()
    bases = sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if _is_segment(name))
    if not bases:
        bases = [max(start_offset, 0)]
        Segment(disk, directory, bases[0], created_ms=now_ms, create=True)
    start_offset = max(start_offset, bases[0])
    segments = [Segment(disk, directory, base, created_ms=now_ms) for base in bases]

    first_doubted = len(segments) if clean else _segment_holding(bases, recovery_point)
    recovery = Recovery()
    if not clean:
        recovery = _recover(disk, directory, config, segments, first_doubted, now_ms)
    for segment in segments:
        if not segment.has_indexes:
            rebuild_indexes(segment, config)

    end_offset = _end_offset(segments[-1])
    producers = _load_producers(disk, directory, names, segments, trusted_to=_base_at(bases, first_doubted, end_offset))
    epochs = _load_epochs(disk, directory, segments, end_offset, first_doubted)
    log = PartitionLog(
        disk,
        directory,
        config,
        segments=segments,
        start_offset=min(start_offset, end_offset),
        end_offset=end_offset,
        # What recovery read may still be in the page cache alone: only what was known before the crash counts.
        flushed_offset=end_offset if clean else min(recovery_point, end_offset),
        producers=producers,
        epochs=epochs,
    )
    return log, recovery


def _is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdigit()


def _segment_holding(bases: list[int], offset: int) -> int:
    return max((index for index, base in enumerate(bases) if base <= offset), default=0)


def _base_at(bases: list[int], index: int, end_offset: int) -> int:
    return bases[index] if index < len(bases) else end_offset


def _recover(
    disk: Disk, directory: str, config: LogConfig, segments: list[Segment], first: int, now_ms: int
) -> Recovery:
    bytes_scanned = bytes_cut = 0
    quarantined: list[Quarantined] = []
    for index in range(first, len(segments)):
        segment = segments[index]
        bytes_scanned += segment.size
        damage = rebuild_indexes(segment, config)
        if damage is None:
            continue
        if index + 1 < len(segments):
            next_base = segments[index + 1].base_offset
            quarantined += repair_segment(disk, directory, segment.base_offset, next_base=next_base)
            segments[index] = segment = Segment(disk, directory, segment.base_offset, created_ms=now_ms)
            damage = rebuild_indexes(segment, config)
            assert damage is None, damage
        else:
            bytes_cut += segment.size - damage.position
            segment.log.truncate(damage.position)
    return Recovery(len(segments) - first, bytes_scanned, bytes_cut, tuple(quarantined))


def rebuild_indexes(segment: Segment, config: LogConfig) -> Damage | None:
    """Read the whole segment, indexing as an append would have; where and why it stops being batches."""
    segment.forget_indexes()
    next_offset = segment.base_offset
    for found in checked_batches(segment.log):
        if isinstance(found, Damage):
            return found
        position, header = found
        if header.base_offset < next_offset:
            return Damage(position, f"offset {header.base_offset} where {next_offset} or more must stand")
        next_offset = header.last_offset + 1
        segment.note(
            position,
            header.size_bytes,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
            index_interval_bytes=config.index_interval_bytes,
        )
    segment.seal()
    return None


def _end_offset(last: Segment) -> int:
    try:
        header = last.last_header()
    except CorruptBatch:
        # A clean stop vouches for the log, not for the medium: fall back to reading it all.
        header = None
        for found in checked_batches(last.log):
            if isinstance(found, Damage):
                last.log.truncate(found.position)
                break
            header = found[1]
    return last.base_offset if header is None else header.last_offset + 1


def _load_producers(
    disk: Disk, directory: str, names: list[str], segments: list[Segment], *, trusted_to: int
) -> Producers:
    """The newest snapshot that the log still vouches for, and the batches written after it."""
    offsets = sorted(
        (int(name.removesuffix(SNAPSHOT_SUFFIX)) for name in names if name.endswith(SNAPSHOT_SUFFIX)), reverse=True
    )
    producers, replay_from = Producers(), segments[0].base_offset
    for offset in offsets:
        path = f"{directory}/{segment_name(offset)}{SNAPSHOT_SUFFIX}"
        if offset > trusted_to:
            disk.open(path).delete()
            continue
        try:
            producers = Producers.decode(disk.read_file(path) or b"")
        except ValueError:
            disk.open(path).delete()
            continue
        replay_from = offset
        break
    for _, header in _headers_since(segments, replay_from):
        if header.producer_id != NO_PRODUCER_ID and not header.is_control:
            producers.note(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                last_sequence=header.last_sequence,
                last_offset=header.last_offset,
                offset_delta=header.last_offset_delta,
                timestamp=header.max_timestamp,
            )
    return producers


def _load_epochs(
    disk: Disk, directory: str, segments: list[Segment], end_offset: int, first_doubted: int
) -> LeaderEpochs:
    try:
        epochs = LeaderEpochs.decode(disk.read_file(f"{directory}/{EPOCHS_FILE}") or b"")
        since = segments[first_doubted].base_offset if first_doubted < len(segments) else end_offset
    except ValueError:
        epochs, since = LeaderEpochs(), segments[0].base_offset
    epochs.truncate_from_end(end_offset)
    for _, header in _headers_since(segments, since):
        epochs.assign(header.leader_epoch, header.base_offset)
    return epochs


def _headers_since(segments: list[Segment], offset: int) -> Iterable[tuple[int, BatchHeader]]:
    """Headers of the batches that begin at or after `offset`."""
    first = _segment_holding([segment.base_offset for segment in segments], offset)
    for segment in segments[first:]:
        start = 0
        if segment.base_offset < offset:
            found = segment.locate(offset, end=segment.size)
            if found is None:
                continue
            start = found[0]
        yield from headers_from(segment.log, start=start, end=segment.size)
