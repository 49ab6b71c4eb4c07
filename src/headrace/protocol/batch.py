"""The record batch header, format 2, and what a broker may do to it without opening the batch.

The broker keeps batches opaque: it checks length, magic, CRC and counts, then writes the base offset and the
leader epoch in place. Both lie outside the CRC. What is inside a batch is `protocol.records`' business.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.protocol.checksum import crc32c

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
assert HEADER_BYTES == 61

# The batch length counts from after itself.
LENGTH_END: Final = 12
_LENGTH: Final = Struct(">qi")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_LEADER_EPOCH_AT: Final = 12
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_CRC_START: Final = 21  # The CRC covers everything from the attributes on.
_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35

MAGIC: Final = 2
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
# The base timestamp is the time at which the tombstones in the batch may go (KIP-534).
DELETE_HORIZON: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class BatchHeader(NamedTuple):
    """The 61 bytes, field by field, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def size_bytes(self) -> int:
        return LENGTH_END + self.batch_length

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def record_timestamp_max(self) -> int:
        """The largest timestamp of its records, which is what an index is about. One that compaction has emptied keeps
        its own, for the sake of its producer, and holds none."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop the tombstones in the batch; None where it was not decided yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def sequence_after(sequence: int, steps: int) -> int:
    """Sequences wrap from 2^31-1 to 0."""
    return (sequence + steps) & 0x7FFFFFFF


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked beyond its presence."""
    if len(data) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(data) - position} bytes cannot hold a batch header of {HEADER_BYTES}")
    return BatchHeader._make(HEADER.unpack_from(data, position))


def crc_matches(batch: Buffer) -> bool:
    """Whether a whole batch, header included, carries the CRC of its content."""
    view = memoryview(batch)
    return bool(crc32c(view[_CRC_START:]) == _CRC.unpack_from(view, _CRC_AT)[0])


def parse_whole_batch(data: Buffer, position: int = 0) -> BatchHeader:
    """The header of a complete batch at `position` with a right CRC, or CorruptBatch saying what is wrong."""
    header = parse_header(data, position)
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(f"batch length {header.batch_length} is shorter than a header")
    end = position + header.size_bytes
    if end > len(data):
        raise CorruptBatch(f"batch of {header.size_bytes} bytes, {len(data) - position} present")
    if header.last_offset_delta < 0:
        raise CorruptBatch(f"last offset delta {header.last_offset_delta}")
    if not crc_matches(memoryview(data)[position:end]):
        raise CorruptBatch("CRC does not match")
    return header


def whole_batches(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers of the batches that `data` holds whole; a cut last batch is left out.

    This is how a client reads fetched bytes: the broker may cut the last batch anywhere.
    """
    position = 0
    while position + HEADER_BYTES <= len(data):
        _, length = _LENGTH.unpack_from(data, position)
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatch(f"batch length {length} at {position}")
        if position + LENGTH_END + length > len(data):
            return
        yield position, parse_whole_batch(data, position)
        position += LENGTH_END + length


def make_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """A whole batch of this header and payload; length and CRC are made to fit, whatever the header says."""
    length = HEADER_BYTES - LENGTH_END + len(payload)
    batch = bytearray(HEADER.pack(*header._replace(batch_length=length, crc=0)))
    batch += payload
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_START:]))
    return bytes(batch)


def write_placement(batch: memoryview, *, base_offset: int, leader_epoch: int) -> None:
    """Give a batch its place in the log. Outside the CRC, so nothing is computed anew."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)


def write_append_time(batch: memoryview, *, attributes: int, now_ms: int) -> None:
    """Turn a batch to LogAppendTime: two fields, and the CRC over them."""
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(batch, _CRC_AT, crc32c(batch[_CRC_START:]))
