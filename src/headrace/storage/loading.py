"""Opening a partition's directory, after a clean stop or a crash.

After a clean stop almost nothing is read. After a crash every segment that was not known to be on disk is read
whole and its indexes are built anew. Behind the recovery point the first damage, or gap, is where the power failed: the
log ends there. Before it everything was on disk once, so that damage is rot: only the bad bytes go, to quarantine.

What was never synced on purpose (producer snapshots, leader epochs) can be missing, torn or old; each is checked
before it is believed, and made from the batches where it is not.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Disk
from headrace.protocol.batch import NO_PRODUCER_ID, BatchHeader
from headrace.storage.epochs import LeaderEpochs
from headrace.storage.log import EPOCHS_FILE, PartitionLog
from headrace.storage.log_config import LogConfig
from headrace.storage.producers import Producers
from headrace.storage.repair import Quarantined, repair_segment
from headrace.storage.scan import Chain, Damage, chained_batches, headers_from
from headrace.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    segment_name,
)
from headrace.storage.swapping import finish_swaps

LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")


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
    known = {"recovery_point": recovery_point, "start_offset": start_offset, "now_ms": now_ms}
    load = partial(_load, disk, directory, config, **known)
    try:
        return load(doubt_from=None if clean else recovery_point)
    except CorruptBatch:
        # A clean stop and a sync vouch for the log, not for the medium. Read everything.
        return load(doubt_from=0)


def _load(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    doubt_from: int | None,
    recovery_point: int,
    start_offset: int,
    now_ms: int,
) -> tuple[PartitionLog, Recovery]:
    """`doubt_from` is the offset whose segment, and all behind it, must be read; None where none must."""
    disk.make_dir(directory)
    for name in disk.list(directory):
        if name.endswith(LEFTOVER_SUFFIXES):
            disk.open(f"{directory}/{name}").delete()
    finish_swaps(disk, directory)
    bases = _offsets_named(disk.list(directory), LOG_SUFFIX)
    if not bases:
        bases = [start_offset]
        Segment(disk, directory, start_offset, created_ms=now_ms, create=True)
    start_offset = max(start_offset, bases[0])
    segments = [Segment(disk, directory, base, created_ms=now_ms) for base in bases]
    while len(segments) > 1 and segments[1].base_offset <= start_offset:
        _delete(segments.pop(0))  # It was to be deleted, and a crash brought it back.
    bases = [segment.base_offset for segment in segments]
    first_doubted = len(segments) if doubt_from is None else _segment_holding(bases, doubt_from)
    recovery, rebuilt = _recover(
        disk, directory, config, segments, first_doubted=first_doubted, recovery_point=recovery_point, now_ms=now_ms
    )
    bases = [segment.base_offset for segment in segments]
    last = segments[-1].last_header()
    end_offset = bases[-1] if last is None else last.last_offset + 1
    trusted_to = bases[first_doubted] if first_doubted < len(bases) else end_offset
    if start_offset > end_offset:
        # More was deleted than survived. The log goes on where it was promised to start, not below.
        for segment in segments:
            _delete(segment)
        segments, rebuilt = [Segment(disk, directory, start_offset, created_ms=now_ms, create=True)], []
        end_offset = trusted_to = start_offset
    log = PartitionLog(
        disk,
        directory,
        config,
        segments=segments,
        start_offset=start_offset,
        end_offset=end_offset,
        # What recovery read may still be in the page cache alone: only what was known before the crash counts.
        flushed_offset=end_offset if doubt_from is None else min(recovery_point, end_offset),
        producers=_load_producers(disk, directory, segments, trusted_to=trusted_to),
        epochs=_load_epochs(disk, directory, segments, trusted_to=trusted_to, end_offset=end_offset),
        unsynced=[segment for segment in rebuilt if segment is not segments[-1]],
        is_settled=doubt_from is None and not rebuilt,
    )
    return log, recovery


def _offsets_named(names: list[str], suffix: str) -> list[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _segment_holding(bases: list[int], offset: int) -> int:
    return max((index for index, base in enumerate(bases) if base <= offset), default=0)


def _recover(
    disk: Disk,
    directory: str,
    config: LogConfig,
    segments: list[Segment],
    *,
    first_doubted: int,
    recovery_point: int,
    now_ms: int,
) -> tuple[Recovery, list[Segment]]:
    """Read the doubted segments, and those that cannot be read without it; what was found, and their indexes anew."""
    rebuilt: list[Segment] = []
    quarantined: list[Quarantined] = []
    bytes_scanned = bytes_cut = 0
    for index, segment in enumerate(segments):
        next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if index < first_doubted and (segment.has_indexes or segment.size == 0):
            continue
        bytes_scanned += segment.size
        # Were a page that a failed sync lost believed, what is written behind it would be lost with it.
        segment.log.evict()
        chain = Chain(segment.base_offset, next_base=next_base)
        damage = rebuild_indexes(segment, chain, config)
        has_gap = damage is not None or (next_base is not None and chain.next_offset < next_base)
        if has_gap and chain.next_offset >= recovery_point:
            end = segment.size if damage is None else damage.position
            bytes_cut += segment.size - end + sum(later.size for later in segments[index + 1 :])
            _end_log_at(disk, directory, segments, index, end)
        elif damage is not None:
            quarantined += repair_segment(disk, directory, segment.base_offset, next_base=next_base)
            segments[index] = segment = Segment(disk, directory, segment.base_offset, created_ms=now_ms)
            damage = rebuild_indexes(segment, Chain(segment.base_offset, next_base=next_base), config)
            assert damage is None, damage
        segment.seal()
        rebuilt.append(segment)
        if segment is segments[-1]:
            break
    return Recovery(len(rebuilt), bytes_scanned, bytes_cut, tuple(quarantined)), rebuilt


def _end_log_at(disk: Disk, directory: str, segments: list[Segment], index: int, position: int) -> None:
    """Cut everything behind a position. A log is a beginning of what was written: nothing stays behind a gap.

    Were a later segment kept, a producer who sends again what is missing would be told that it comes too late.
    """
    for later in segments[index + 1 :]:
        _delete(later)
    del segments[index + 1 :]
    segments[index].log.truncate(position)
    # At once: were it to come back behind what is written next, it could pass for a part of the log.
    segments[index].log.sync()
    disk.sync_dir(directory)


def _delete(segment: Segment) -> None:
    for file in segment.doomed_files():
        file.delete()


def rebuild_indexes(segment: Segment, chain: Chain, config: LogConfig) -> Damage | None:
    """Read the whole segment, indexing as an append would have; where and why it stops being batches."""
    segment.forget_indexes()
    for found in chained_batches(segment.log, chain):
        if isinstance(found, Damage):
            return found
        position, header = found
        segment.note(
            position,
            header.size_bytes,
            last_offset=header.last_offset,
            max_timestamp=header.record_timestamp_max,
            index_interval_bytes=config.index_interval_bytes,
        )
    return None


def _load_producers(disk: Disk, directory: str, segments: list[Segment], *, trusted_to: int) -> Producers:
    """The newest snapshot that the log vouches for, and the batches written after it. Others are swept away."""
    bases = {segment.base_offset for segment in segments}
    producers, replay_from = Producers(), segments[0].base_offset
    is_found = False
    for offset in reversed(_offsets_named(disk.list(directory), SNAPSHOT_SUFFIX)):
        path = f"{directory}/{segment_name(offset)}{SNAPSHOT_SUFFIX}"
        if not is_found and segments[0].base_offset <= offset <= trusted_to:
            try:
                producers, replay_from = Producers.decode(disk.read_file(path) or b""), offset
                is_found = True
                continue
            except ValueError:
                pass
        # Those that earlier segments began with serve if this one is torn one day.
        if not (is_found and offset in bases):
            disk.open(path).delete()
    for header in _headers_since(segments, replay_from):
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


def _headers_since(segments: list[Segment], offset: int) -> Iterator[BatchHeader]:
    """Headers of the batches that begin at or after `offset`."""
    for segment in segments[_segment_holding([segment.base_offset for segment in segments], offset) :]:
        found = segment.locate(offset, end=segment.size)
        if found is not None:
            for _, header in headers_from(segment.log, start=found[0], end=segment.size):
                yield header


def _load_epochs(
    disk: Disk, directory: str, segments: list[Segment], *, trusted_to: int, end_offset: int
) -> LeaderEpochs:
    try:
        epochs = LeaderEpochs.decode(disk.read_file(f"{directory}/{EPOCHS_FILE}") or b"")
    except ValueError:
        epochs = LeaderEpochs()
    epochs.truncate_from_end(end_offset)
    first = sum(segment.base_offset < trusted_to for segment in segments)
    # The file may be older than the segments: it is complete up to a batch whose epoch it knows.
    while first > 0:
        last = segments[first - 1].last_header()
        if last is not None and last.leader_epoch <= epochs.latest:
            break
        first -= 1
    for segment in segments[first:]:
        for _, header in headers_from(segment.log, start=0, end=segment.size):
            epochs.assign(header.leader_epoch, header.base_offset)
    return epochs
