"""Where the records of a batch begin and end, and their keys, without making records.

For compaction, which looks at every key of a log and keeps few of its records: those are copied as they are. What
`protocol.records` says about the format holds here; what does not follow it is a `CorruptBatch`.
"""

from collections.abc import Iterator
from typing import Final

from headrace.errors import CorruptBatch, ProtocolError
from headrace.ports import Buffer
from headrace.protocol.batch import CODEC_MASK, HEADER_BYTES, BatchHeader
from headrace.protocol.compression import decompress, parse_codec
from headrace.protocol.primitives import read_varlong, write_varint, write_varlong

NO_KEY: Final = -1

# Start and end of a record, its size included; its offset delta; start (or NO_KEY) and end of its key.
Bounds = tuple[int, int, int, int, int]


def open_payload(batch: Buffer, header: BatchHeader, *, output_bytes_max: int) -> bytes:
    """The records of a whole batch, decompressed."""
    content = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    return decompress(parse_codec(header.attributes & CODEC_MASK), content, output_bytes_max=output_bytes_max)


def walk_records(data: bytes, count: int) -> Iterator[Bounds]:
    """The bounds of each of `count` records. Small varints are read without a call: every record comes here."""
    position = 0
    try:
        for _ in range(count):
            start = position
            size = data[position]
            position += 1
            if size & 0x80:
                size, position = _read_rest(data, position, size)
            end = position + (size >> 1)
            if size & 1 or end > len(data):
                raise CorruptBatch(f"record of {_signed(size)} bytes, {len(data) - position} left")
            position += 1  # Attributes, unused.
            while data[position] & 0x80:  # Its time.
                position += 1
            position += 1
            delta = data[position]
            position += 1
            if delta & 0x80:
                delta, position = _read_rest(data, position, delta)
            size = data[position]
            position += 1
            if size & 0x80:
                size, position = _read_rest(data, position, size)
            key_end = position + (size >> 1)
            if size & 1:
                key_end, position = position, NO_KEY
            if key_end >= end or delta & 1:  # A value, if only null, comes behind the key.
                raise CorruptBatch(f"record {start}..{end} with a key up to {key_end}, offset delta {_signed(delta)}")
            yield start, end, delta >> 1, position, key_end
            position = end
    except IndexError:
        raise CorruptBatch(f"{count} records announced, and {len(data)} bytes do not hold them") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes after the last of {count} records")


def _read_rest(data: bytes, position: int, value: int) -> tuple[int, int]:
    """A varint whose first byte is `value`, still without its sign, and where it ends."""
    byte = data[position]
    if byte < 0x80:  # Most of them have two bytes.
        return value & 0x7F | byte << 7, position + 1
    value = value & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise CorruptBatch(f"a number at {position} that has no end")


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)


def is_tombstone(data: bytes, key_end: int) -> bool:
    """Whether the value behind a key is null: its size is negative, and odd as it is written."""
    return bool(data[key_end] & 1)


def read_time_delta(data: bytes, bounds: Bounds) -> tuple[int, int]:
    """How far a record's timestamp is from its batch's, and where the rest of the record begins."""
    position = bounds[0]
    while data[position] & 0x80:
        position += 1
    try:
        return read_varlong(data, position + 2)  # Behind the size and the attributes.
    except ProtocolError as error:
        raise CorruptBatch(str(error)) from None


def write_moved_record(out: bytearray, data: bytes, bounds: Bounds, *, by_ms: int) -> None:
    """Copy a record into a batch whose base timestamp is `by_ms` later, so that its own stays what it was."""
    delta_ms, rest = read_time_delta(data, bounds)
    moved_ms = delta_ms - by_ms
    if not -(1 << 63) <= moved_ms < 1 << 63:
        raise CorruptBatch(f"a record {delta_ms} ms from its batch's time")
    body = bytearray(1)
    write_varlong(body, moved_ms)
    write_varint(out, len(body) + bounds[1] - rest)
    out += body
    out += data[rest : bounds[1]]
