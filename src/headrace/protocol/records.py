"""The records inside a batch of format 2: opening a batch, and making one.

The broker does not come here to serve: it keeps batches opaque and knows `protocol.batch` alone. Clients,
tools and compaction do. Everything wrong with a batch, its header, its compression or a record in it, is a
`CorruptBatch`.

A record is written as a varint of its size, then attributes (unused), the differences of its timestamp and
offset from the batch's, key, value and headers, all lengths as signed varints where anything negative is
null.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch, ProtocolError
from headrace.ports import Buffer
from headrace.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    parse_whole_batch,
)
from headrace.protocol.checksum import crc32c
from headrace.protocol.compression import Codec, compress, decompress, parse_codec
from headrace.protocol.primitives import check_count, read_varint, read_varlong, write_varint, write_varlong

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
_RECORD_BYTES_MIN: Final = 7  # One byte each: size, attributes, two differences, two lengths, header count.
_HEADER_BYTES_MIN: Final = 2
_CRC_AT: Final = 17
_CRC_START: Final = 21  # What it covers, to the end.

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One message. Offset and timestamp are absolute; the batch's encoding of them shows nowhere."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = 0


def decode_records(batch: Buffer, *, output_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Every record of one whole batch, its CRC checked; bytes after the batch are not looked at."""
    header = parse_whole_batch(batch)
    if header.record_count < 0:
        raise CorruptBatch(f"batch of {header.record_count} records")
    if header.record_count == 0:
        return []  # What compaction leaves of a batch to remember its producer.
    content = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    codec = parse_codec(header.attributes & CODEC_MASK)
    data = decompress(codec, content, output_bytes_max=output_bytes_max)
    try:
        return read_records(data, header)
    except ProtocolError as error:
        raise CorruptBatch(f"in the batch at offset {header.base_offset}: {error}") from None


def read_records(data: bytes, header: BatchHeader) -> list[Record]:
    """Every record of a batch's payload, decompressed already; ProtocolError or CorruptBatch says what is wrong."""
    append_time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    check_count(header.record_count, data, 0, item_bytes_min=_RECORD_BYTES_MIN)
    records = []
    position = 0
    for _ in range(header.record_count):
        size, start = read_varint(data, position)
        position = start + size
        if size < 0 or position > len(data):
            raise CorruptBatch(f"record of {size} bytes, {len(data) - start} left")
        # Cut at the end of the record, so that nothing in it can reach into the next.
        records.append(_read_record(data[start:position], header, append_time_ms))
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes after the last of {header.record_count} records")
    return records


def _read_record(data: bytes, header: BatchHeader, append_time_ms: int | None) -> Record:
    timestamp_delta, position = read_varlong(data, 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_nullable(data, position)
    value, position = _read_nullable(data, position)
    header_count, position = read_varint(data, position)
    if header_count < 0:
        raise CorruptBatch(f"record with {header_count} headers")
    check_count(header_count, data, position, item_bytes_min=_HEADER_BYTES_MIN)
    headers = []
    for _ in range(header_count):
        name, position = _read_nullable(data, position)
        if name is None:
            raise CorruptBatch("record header without a name")
        content, position = _read_nullable(data, position)
        # Names are UTF-8 by custom only. What is not survives being read and written again.
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes unused at the end of a record")
    return Record(
        key=key,
        value=value,
        headers=tuple(headers),
        timestamp_ms=header.base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms,
        offset=header.base_offset + offset_delta,
    )


def _read_nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, start = read_varint(data, position)
    if size < 0:
        return None, start
    end = start + size
    if end > len(data):
        raise CorruptBatch(f"{size} bytes announced in a record, {len(data) - start} left")
    return data[start:end], end


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    append_time_ms: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    keep_offsets: bool = False,
    last_offset_delta: int | None = None,
) -> bytes:
    """A whole batch.

    Offsets run on from `base_offset` without gaps, whatever the records say, unless `keep_offsets` asks for
    their own. `append_time_ms` stamps the batch with LogAppendTime. `last_offset_delta` is for a batch that
    lost its last records, or all of them, to compaction.
    """
    base_timestamp = records[0].timestamp_ms if records else NO_TIMESTAMP
    content = bytearray()
    offset_delta = -1
    for record in records:
        offset_delta = record.offset - base_offset if keep_offsets else offset_delta + 1
        body = _encode_record(record, offset_delta=offset_delta, base_timestamp=base_timestamp)
        write_varint(content, len(body))
        content += body
    if last_offset_delta is None:
        last_offset_delta = offset_delta
    assert last_offset_delta >= max(0, offset_delta), "a batch spans at least its records, and one offset"

    if append_time_ms is not None:
        max_timestamp = append_time_ms
    else:
        max_timestamp = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
    if not records:
        codec = Codec.NONE
    payload = compress(codec, content)
    attributes = (
        codec
        | (LOG_APPEND_TIME if append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - LENGTH_END + len(payload),
            leader_epoch,
            MAGIC,
            0,  # The CRC, once everything that it covers is there.
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch += payload
    batch[_CRC_AT:_CRC_START] = crc32c(memoryview(batch)[_CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


def _encode_record(record: Record, *, offset_delta: int, base_timestamp: int) -> bytearray:
    out = bytearray(1)  # Attributes, unused.
    write_varlong(out, record.timestamp_ms - base_timestamp)
    write_varint(out, offset_delta)
    _write_nullable(out, record.key)
    _write_nullable(out, record.value)
    write_varint(out, len(record.headers))
    for name, content in record.headers:
        _write_nullable(out, name.encode("utf-8", "surrogateescape"))
        _write_nullable(out, content)
    return out


def _write_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value
