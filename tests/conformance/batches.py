"""Record batches made by hand, good ones and each kind of bad one.

Everything on the outside of a batch is a parameter, because the outside is what a broker checks. Written from
the format's description and not from Headrace's code.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cramjam
import crc32c

NO_PRODUCER = -1
# 2023-11-14: fixed, so that both brokers are sent the same bytes.
BASE_TIMESTAMP_MS = 1_700_000_000_000

_HEADER_AFTER_CRC = struct.Struct(">hiqqqhii")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_delta_ms: int = 0
    offset_delta: int | None = None


def zigzag(value: int) -> bytes:
    """A signed varint."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def _encode_record(record: Record, index: int) -> bytes:
    offset_delta = index if record.offset_delta is None else record.offset_delta
    body = b"\0" + zigzag(record.timestamp_delta_ms) + zigzag(offset_delta) + _sized(record.key)
    body += _sized(record.value) + zigzag(len(record.headers))
    for name, value in record.headers:
        body += _sized(name.encode()) + _sized(value)
    return zigzag(len(body)) + body


def _compress(codec: int, data: bytes) -> bytes:
    match codec:
        case 1:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(data) + compressor.flush()
        case 2:
            # The framing of snappy-java, which is what Kafka's clients write.
            block = bytes(cramjam.snappy.compress_raw(data))
            return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
        case 3:
            return _lz4_frame(data)
        case 4:
            return bytes(cramjam.zstd.compress(data))
        case _:
            return data


def _lz4_frame(data: bytes) -> bytes:
    """Blocks of 64 KiB that do not depend on each other: Kafka reads no other frames, and cramjam writes them."""
    blocks = b""
    for position in range(0, len(data), 65536):
        block = bytes(cramjam.lz4.compress_block(data[position : position + 65536], store_size=False))
        blocks += struct.pack("<I", len(block)) + block
    return b"\x04\x22\x4d\x18\x60\x40\x82" + blocks + bytes(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch of magic 2. `None` means: what a well-made batch would say."""

    records: Sequence[Record] = field(default=(Record(key=b"k", value=b"v"),))
    codec: str = "none"
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    attributes: int = 0
    base_timestamp_ms: int = BASE_TIMESTAMP_MS
    max_timestamp_ms: int | None = None
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int | None = None
    count: int | None = None
    crc_flip: int = 0
    size_delta: int = 0
    payload: bytes | None = None

    def encode(self) -> bytes:
        payload = self.payload
        if payload is None:
            plain = b"".join(_encode_record(record, index) for index, record in enumerate(self.records))
            payload = _compress(CODECS[self.codec], plain)
        times_ms = [self.base_timestamp_ms + record.timestamp_delta_ms for record in self.records]
        count = len(self.records)
        checked = (
            _HEADER_AFTER_CRC.pack(
                self.attributes | CODECS[self.codec],
                count - 1 if self.last_offset_delta is None else self.last_offset_delta,
                self.base_timestamp_ms,
                max(times_ms, default=-1) if self.max_timestamp_ms is None else self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                count if self.count is None else self.count,
            )
            + payload
        )
        crc = crc32c.crc32c(checked) ^ self.crc_flip
        size = 4 + 1 + 4 + len(checked) + self.size_delta
        return struct.pack(">qiibI", self.base_offset, size, self.leader_epoch, self.magic, crc) + checked


def batch(size: int, /, *, value_bytes: int = 10, **outside: Any) -> bytes:
    """A batch of so many small records, with anything on its outside changed."""
    records = [
        Record(key=b"key-%d" % index, value=b"%0*d" % (value_bytes, index), timestamp_delta_ms=index)
        for index in range(size)
    ]
    return Batch(records=records, **outside).encode()


def old_message(*, magic: int, value: bytes = b"old", offset: int = 0) -> bytes:
    """One message of the formats before batches, magic 0 or 1."""
    body = struct.pack(">bb", magic, 0)
    if magic == 1:
        body += struct.pack(">q", BASE_TIMESTAMP_MS)
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def split_batches(data: bytes) -> list[dict[str, object]]:
    """The batches of a fetch answer as fields to compare; a batch that was cut short is shown as its size."""
    found: list[dict[str, object]] = []
    position = 0
    while position < len(data):
        if len(data) - position < 61:
            found.append({"cut_short_bytes": len(data) - position})
            break
        base_offset, size, leader_epoch, magic, crc = struct.unpack_from(">qiibI", data, position)
        (attributes, last_offset_delta, base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch,
         base_sequence, count) = _HEADER_AFTER_CRC.unpack_from(data, position + 21)  # fmt: skip
        end = position + 12 + size
        if end > len(data):
            found.append({"cut_short_bytes": len(data) - position, "base_offset": base_offset})
            break
        found.append(
            {
                "base_offset": base_offset,
                "size": size,
                "leader_epoch": leader_epoch,
                "magic": magic,
                "crc": crc,
                "crc_is_right": crc == crc32c.crc32c(data[position + 21 : end]),
                "attributes": attributes,
                "last_offset_delta": last_offset_delta,
                "base_timestamp_ms": base_timestamp_ms,
                "max_timestamp_ms": max_timestamp_ms,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "base_sequence": base_sequence,
                "count": count,
                "payload": data[position + 61 : end],
            }
        )
        position = end
    return found
