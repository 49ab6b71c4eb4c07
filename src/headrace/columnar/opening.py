"""From the bytes that a fetch brought of one partition to the payloads of their batches, ready to be decoded.

Every batch is checked (length, magic, CRC, counts) and either opened or skipped: control batches always, data of
aborted transactions where the reader wants committed records only. Opened batches lie in one buffer, with a small table
that says where: uncompressed ones stay where they are among the fetched bytes, compressed ones are decompressed one
behind the other, up to a limit.

Whatever is wrong with a batch is a `CorruptBatch` that names its offset, and nothing of the fetch is then delivered.
Only the end may be missing: a broker cuts the last batch anywhere. What is inside a record is `columnar.decoding`'s
business.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    parse_header,
)
from headrace.protocol.checksum import crc32c
from headrace.protocol.compression import decompress_into, make_room, parse_codec
from headrace.protocol.records import decode_records

# One row per opened batch. The compiled kernel declares the same as a struct.
BATCH: Final = np.dtype(
    [
        (name, np.int64)
        for name in ("start", "end", "record_count", "base_offset", "base_timestamp", "max_timestamp", "attributes")
    ]
)
RECORD_BYTES_MIN: Final = 7

_HEADERS: Final = np.dtype(
    [(name, f">{code}") for name, code in zip(BatchHeader._fields, HEADER.format[1:], strict=True)]
)
assert _HEADERS.itemsize == HEADER_BYTES
_FRONT: Final = Struct(">qiibI")  # Base offset, length, leader epoch, magic, CRC.
_CRC_START: Final = _FRONT.size
_MAGIC_AT: Final = 16  # In every format that there ever was.
_OPENED_BYTES_MAX: Final = 2**31 - 1  # Arrow counts the bytes of a binary column in 32 bits.
_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """Payloads, uncompressed and checked, and where the batches are among them.

    `next_offset` comes behind the last batch that was opened or skipped; None if there was none. `unopened` are whole
    batches that would have taken more memory than allowed: opening them next goes on, and so does fetching from
    `next_offset`.
    """

    data: npt.NDArray[np.uint8]
    batches: npt.NDArray[np.void]
    next_offset: int | None
    unopened: memoryview

    @property
    def record_count(self) -> int:
        return int(self.batches["record_count"].sum())


class AbortedTransactions:
    """Which batches belong to aborted transactions, by Kafka's own algorithm.

    Made of the list in one fetch answer: a broker lists all that touch the answer's records, also those that began
    before them. Batches are to be shown in the order of the log, each once.
    """

    def __init__(self, listed: Iterable[Mapping[str, Any]] | None) -> None:
        by_offset = sorted((entry["first_offset"], entry["producer_id"]) for entry in listed or ())
        self._coming = deque(by_offset)
        self._aborting: set[int] = set()

    def __bool__(self) -> bool:
        """Whether anything at all is left to be found."""
        return bool(self._coming or self._aborting)

    def include(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether this batch is part of an aborted transaction. Its end, a control batch, is not."""
        if header.producer_id == NO_PRODUCER_ID:
            return False
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._aborting.add(self._coming.popleft()[1])
        if header.is_control:
            if _is_abort(batch):
                self._aborting.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._aborting


def _is_abort(control_batch: Buffer) -> bool:
    records = decode_records(control_batch)
    key = records[0].key if records else None  # Compaction may have emptied it.
    if key is None:
        return False
    if len(key) < _CONTROL_KEY.size:
        raise CorruptBatch(f"a control record with a key of {len(key)} bytes")
    return bool(_CONTROL_KEY.unpack_from(key)[1] == _ABORT)


def open_batches(
    data: Buffer,
    *,
    aborted: AbortedTransactions | None,
    decompressed_bytes_max: int,
    batch_bytes_max: int | None = None,
) -> Opened:
    """The whole batches among `data`, opened. Without `aborted`, records of aborted transactions are opened too.

    All together may take `decompressed_bytes_max`, except that a first one of up to `batch_bytes_max` is always opened.
    """
    view = memoryview(data).cast("B")
    fetched = np.frombuffer(view, np.uint8)
    positions = _checked_positions(view)
    headers = fetched[positions[:, None] + np.arange(HEADER_BYTES)].view(_HEADERS)[:, 0]
    _check_headers(headers)

    table = np.empty(len(positions), BATCH)
    table["start"] = positions + HEADER_BYTES
    table["end"] = positions + LENGTH_END + headers["batch_length"]
    for name in ("record_count", "base_offset", "base_timestamp", "max_timestamp", "attributes"):
        table[name] = headers[name]
    keep = (table["record_count"] > 0) & (table["attributes"] & CONTROL == 0)
    joined = bytearray() if (table["attributes"][keep] & CODEC_MASK).any() else None

    opened = len(positions)
    if aborted or joined is not None:
        batch_bytes_max = min(batch_bytes_max or decompressed_bytes_max, _OPENED_BYTES_MAX)
        opened = _open_each(
            view, positions, table, keep, aborted, joined, decompressed_bytes_max, batch_bytes_max=batch_bytes_max
        )
    batches = table[:opened][keep[:opened]]
    for batch in batches[batches["record_count"] * RECORD_BYTES_MIN > batches["end"] - batches["start"]]:
        raise CorruptBatch(
            f"the batch at offset {batch['base_offset']} is too short for its {batch['record_count']} records"
        )
    last = headers[opened - 1] if opened else None
    return Opened(
        data=fetched if joined is None else np.frombuffer(joined, np.uint8),
        batches=batches,
        next_offset=None if last is None else int(last["base_offset"]) + int(last["last_offset_delta"]) + 1,
        unopened=view[int(positions[opened]) :] if opened < len(positions) else view[:0],
    )


def _checked_positions(view: memoryview) -> npt.NDArray[np.int64]:
    """Where the whole batches begin, each of the right format and CRC."""
    positions = []
    position = 0
    while position + _CRC_START <= len(view):
        base_offset, length, _, magic, crc = _FRONT.unpack_from(view, position)
        if magic != MAGIC:
            raise CorruptBatch(_wrong_format(base_offset, magic))
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(f"the batch at offset {base_offset} says it has {length} bytes, too few for its header")
        end = position + LENGTH_END + length
        if end > len(view):
            break
        if crc32c(view[position + _CRC_START : end]) != crc:
            raise CorruptBatch(f"the CRC of the batch at offset {base_offset} does not match")
        positions.append(position)
        position = end
    return np.array(positions, np.int64)


def _wrong_format(base_offset: int, magic: int) -> str:
    if magic in (0, 1):
        return (
            f"the message at offset {base_offset} is of the old format {magic}, from before Kafka 0.11, "
            "which is not read here; have the topic written anew"
        )
    return f"the batch at offset {base_offset} is of an unknown format: magic {magic}, not {MAGIC}"


def _check_headers(headers: npt.NDArray[np.void]) -> None:
    for name in ("record_count", "last_offset_delta"):
        for header in headers[headers[name] < 0]:
            raise CorruptBatch(f"the batch at offset {header['base_offset']} has a {name} of {header[name]}")


def _open_each(
    view: memoryview,
    positions: npt.NDArray[np.int64],
    table: npt.NDArray[np.void],
    keep: npt.NDArray[np.bool_],
    aborted: AbortedTransactions | None,
    joined: bytearray | None,
    joined_bytes_max: int,
    *,
    batch_bytes_max: int,
) -> int:
    """Strike aborted batches from `keep`, and join the others, decompressed, if asked to; `table` then says where.

    How many batches were gone through: those behind would have taken too much memory.

    Each is decompressed into the same scratch and copied from there, though it could be put in its place at once: fresh
    memory costs several times what a copy does, and this way only the largest batch ever touches any.
    """
    scratch = make_room(batch_bytes_max if joined is not None else 0)
    starts, ends, codecs = (
        column.tolist() for column in (table["start"], table["end"], table["attributes"] & CODEC_MASK)
    )
    opened = 0
    for index, position in enumerate(positions.tolist()):
        start, end = starts[index], ends[index]
        try:
            if aborted and aborted.include(parse_header(view, position), view[position:end]):
                keep[index] = False
            if joined is not None and keep[index]:
                size = decompress_into(parse_codec(codecs[index]), view[start:end], scratch)
                if joined and size > joined_bytes_max - len(joined):
                    break
                starts[index] = len(joined)
                joined += scratch[:size]
                ends[index] = len(joined)
        except CorruptBatch as error:
            raise CorruptBatch(f"the batch at offset {table['base_offset'][index]}: {error}") from None
        opened += 1
    table["start"], table["end"] = starts, ends
    return opened
