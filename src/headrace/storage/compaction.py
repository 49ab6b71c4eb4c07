"""Compaction itself: reading keys, and writing segments anew with the last record of each key alone.

Offsets never change, nor does their order. Of a batch stays what is last of its key, under the header that it had: its
first and last offset, producer, sequence and epoch. Batches all of whose records stay are copied as they are. A batch
without any goes, unless its producer's sequence would be forgotten with it, or it is the last of its segment, which
says how far that reaches: those stay, empty.

A tombstone stays for a while, so that readers learn of the deletion. When compaction first meets one that is the last
of its key, it writes into the batch until when (KIP-534); the first cleaning after that drops it.

Records without a key go, as in Kafka: nothing could ever supersede them. Batches of transactions are copied untouched:
which of them were aborted is not known here.

Both walks are generators that give the bytes read or written since they last did, so that whoever drives them can take
his time. They know files, never what becomes of them.
"""

from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from headrace.errors import CorruptBatch
from headrace.ports import Buffer, CleanedSegments, MappedKeys, Readable
from headrace.protocol.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    make_batch,
)
from headrace.protocol.compression import compress, parse_codec
from headrace.protocol.record_walk import (
    NO_KEY,
    Bounds,
    is_tombstone,
    open_payload,
    read_time_delta,
    walk_records,
    write_moved_record,
)
from headrace.storage.admission import OPENED_BYTES_MAX
from headrace.storage.key_map import KeyMap
from headrace.storage.scan import whole_batches_in
from headrace.storage.segment import Segment

_WRITE_BYTES: Final = 1 << 20


def map_keys(
    sources: Sequence[Callable[[], Readable]], keys: KeyMap, *, end_offset: int
) -> Generator[int, None, MappedKeys]:
    """Read the dirty segments as far as their keys fit, or to `end_offset`, where the first untouched one begins."""
    bytes_read = 0
    for header, batch in _batches_of(sources):
        if header.last_offset < keys.start_offset:
            continue
        if header.record_count and not _is_of_transaction(header):
            payload = open_payload(batch, header, output_bytes_max=OPENED_BYTES_MAX)
            if not keys.put(header.base_offset, payload, header.record_count):
                return MappedKeys(keys.end_offset, len(keys), bytes_read)
        keys.end_offset = header.last_offset + 1
        bytes_read += len(batch)
        yield len(batch)
    keys.end_offset = max(keys.end_offset, end_offset)
    return MappedKeys(keys.end_offset, len(keys), bytes_read)


def clean_segments(
    sources: Sequence[Callable[[], Readable]],
    target: Segment,
    keys: KeyMap,
    *,
    remembered_offsets: frozenset[int],
    now_ms: int,
    delete_retention_ms: int,
    index_interval_bytes: int,
) -> Generator[int, None, CleanedSegments]:
    """Write what stays of some segments into one. `remembered_offsets` are the last ones of producers' batches that
    must still be found."""
    writer = _Writer(target, index_interval_bytes)
    tombstones = _Tombstones(now_ms, delete_retention_ms)
    bytes_read = records_read = records_kept = 0
    pending: tuple[BatchHeader, memoryview] | None = None
    for header, batch in _batches_of(sources):
        if pending is not None:
            records_kept += writer.put(*_what_stays(*pending, keys, tombstones, remembered_offsets))
            yield writer.flush_if_large() + len(pending[1])
        pending = header, batch
        bytes_read += len(batch)
        records_read += header.record_count
    if pending is not None:
        last = frozenset((pending[0].last_offset,))
        records_kept += writer.put(*_what_stays(*pending, keys, tombstones, last))
    yield writer.finish()
    return CleanedSegments(bytes_read, target.size, records_read, records_kept)


def _batches_of(sources: Sequence[Callable[[], Readable]]) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch, in order; CorruptBatch where one is not. What has rotted must not get a new checksum."""
    next_offset = 0
    for open_source in sources:
        file = open_source()
        try:
            for position, header, batch in whole_batches_in(file):
                if header.base_offset < next_offset:
                    raise CorruptBatch(f"offset {header.base_offset} at {position}, behind {next_offset - 1}")
                next_offset = header.last_offset + 1
                yield header, batch
        except CorruptBatch as error:
            raise CorruptBatch(f"{file.path}: {error}") from error


class _Tombstones:
    __slots__ = ("_now_ms", "horizon_ms")

    def __init__(self, now_ms: int, delete_retention_ms: int) -> None:
        self._now_ms = now_ms
        self.horizon_ms = now_ms + delete_retention_ms

    def may_go(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._now_ms


class _Writer:
    """Batches into a segment, many at a time."""

    __slots__ = ("_interval_bytes", "_parts", "_parts_bytes", "_target")

    def __init__(self, target: Segment, index_interval_bytes: int) -> None:
        self._target = target
        self._interval_bytes = index_interval_bytes
        self._parts: list[Buffer] = []
        self._parts_bytes = 0

    def put(self, header: BatchHeader | None, batch: Buffer) -> int:
        """The number of records put; None for a header where nothing stays."""
        if header is None:
            return 0
        position = self._target.size + self._parts_bytes
        self._target.note(position, len(batch), header.last_offset, header.record_timestamp_max, self._interval_bytes)
        self._parts.append(batch)
        self._parts_bytes += len(batch)
        return header.record_count

    def flush_if_large(self) -> int:
        return self._flush() if self._parts_bytes >= _WRITE_BYTES else 0

    def _flush(self) -> int:
        size = self._parts_bytes
        if size:
            self._target.log.append(self._parts)
        self._parts, self._parts_bytes = [], 0
        return size

    def finish(self) -> int:
        size = self._flush()
        self._target.seal()
        for file in (self._target.log, *self._target.write_indexes()):
            file.sync()
        return size


_NOTHING: Final[tuple[None, bytes]] = None, b""


def _is_of_transaction(header: BatchHeader) -> bool:
    return header.is_control or header.is_transactional


def _what_stays(
    header: BatchHeader,
    batch: memoryview,
    keys: KeyMap,
    tombstones: _Tombstones,
    kept_offsets: frozenset[int],
) -> tuple[BatchHeader | None, Buffer]:
    if header.last_offset >= keys.end_offset or _is_of_transaction(header):
        return header, batch
    if header.record_count == 0:
        return (header, batch) if header.last_offset in kept_offsets else _NOTHING
    wanted: array[int] | None = None
    if header.base_offset >= keys.start_offset:
        wanted = keys.last_offsets(header.base_offset, header.last_offset)
    if wanted is not None and not wanted:
        kept: list[Bounds] = []  # Whatever its keys are: it need not be opened.
        payload = b""
        is_marked = False
    else:
        payload = open_payload(batch, header, output_bytes_max=OPENED_BYTES_MAX)
        kept, is_marked = _kept_records(header, payload, keys, wanted, tombstones)
    if not kept:
        return _emptied(header) if header.last_offset in kept_offsets else _NOTHING
    needs_horizon = is_marked and header.delete_horizon_ms is None
    if len(kept) == header.record_count and not needs_horizon:
        return header, batch
    return _rebuilt(header, payload, kept, horizon_ms=tombstones.horizon_ms if needs_horizon else None)


def _kept_records(
    header: BatchHeader, payload: bytes, keys: KeyMap, wanted: "array[int] | None", tombstones: _Tombstones
) -> tuple[list[Bounds], bool]:
    """The records that stay, and whether a tombstone is among them."""
    base_offset = header.base_offset
    tombstones_go = tombstones.may_go(header)
    kept: list[Bounds] = []
    is_marked = False
    last_of_key = None if wanted is None else set(wanted)
    for bounds in walk_records(payload, header.record_count):
        _, _, delta, key_at, key_end = bounds
        if key_at == NO_KEY:
            continue
        if last_of_key is None:
            if not keys.is_last(payload[key_at:key_end], base_offset + delta):
                continue
        elif base_offset + delta not in last_of_key:
            continue
        if is_tombstone(payload, key_end):
            if tombstones_go:
                continue
            is_marked = True
        kept.append(bounds)
    return kept, is_marked


def _emptied(header: BatchHeader) -> tuple[BatchHeader, bytes]:
    """What remembers a producer's sequence, and where the segment ends. As Kafka writes it."""
    empty = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON), base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return empty, make_batch(empty, b"")


def _rebuilt(
    header: BatchHeader, payload: bytes, kept: list[Bounds], *, horizon_ms: int | None
) -> tuple[BatchHeader, bytes]:
    """The batch with these records alone. The largest timestamp is theirs; a horizon moves all of them."""
    max_timestamp = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME:
        newest = header.base_timestamp + max(read_time_delta(payload, bounds)[0] for bounds in kept)
        max_timestamp = max(NO_TIMESTAMP, min(newest, max_timestamp))  # A producer may claim anything.
    rebuilt = header._replace(record_count=len(kept), max_timestamp=max_timestamp)
    if horizon_ms is None:
        content: Buffer = b"".join([payload[bounds[0] : bounds[1]] for bounds in kept])
    else:
        rebuilt = rebuilt._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms)
        content = bytearray()
        for bounds in kept:
            write_moved_record(content, payload, bounds, by_ms=horizon_ms - header.base_timestamp)
    return rebuilt, make_batch(rebuilt, compress(parse_codec(header.attributes & CODEC_MASK), content))
