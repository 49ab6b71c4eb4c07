import contextlib
import random

import pytest
from crc32c import crc32c

from headrace.errors import CorruptBatch
from headrace.protocol.batch import HEADER, HEADER_BYTES, parse_whole_batch
from headrace.protocol.compression import Codec, compress
from headrace.protocol.primitives import write_varint
from headrace.protocol.records import Record, decode_records, encode_batch

FEW = [
    Record(b"key", b"value", (("name", b"content"), ("none", None)), timestamp_ms=1_000),
    Record(None, None, (), timestamp_ms=900),
    Record(b"", b"", (("", b""),), timestamp_ms=5_000),
]

every_codec = pytest.mark.parametrize("codec", list(Codec))


def batch_of(content: bytes, *, record_count: int, codec: Codec = Codec.NONE) -> bytes:
    """A batch with a right CRC around any content, however wrong."""
    whole = encode_batch([Record(None, None, timestamp_ms=0)], codec=codec)
    header = parse_whole_batch(whole)._replace(
        batch_length=HEADER_BYTES - 12 + len(content), record_count=record_count, crc=0
    )
    return with_crc(HEADER.pack(*header) + content)


def with_crc(batch: bytes) -> bytes:
    return batch[:17] + crc32c(batch[21:]).to_bytes(4, "big") + batch[21:]


def record_bytes(body: str) -> bytes:
    out = bytearray()
    write_varint(out, len(bytes.fromhex(body)))
    return bytes(out) + bytes.fromhex(body)


def test_the_bytes_of_a_batch() -> None:
    """Spelled out from the format's description."""
    batch = encode_batch(
        [Record(b"k", b"v", (("h", None),), timestamp_ms=10), Record(None, b"", timestamp_ms=8)],
        base_offset=100,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        transactional=True,
    )
    first = "000000026b027602026801"
    second = "000302010000"
    content = record_bytes(first) + record_bytes(second)
    assert batch[:17].hex() == "0000000000000064" + (49 + len(content)).to_bytes(4, "big").hex() + "0000000302"
    assert batch[21:61].hex() == ("001000000001000000000000000a000000000000000a000000000000000700010000000500000002")
    assert batch[61:] == content


@every_codec
def test_round_trip(codec: Codec) -> None:
    batch = encode_batch(FEW, base_offset=40, codec=codec)
    assert decode_records(batch) == [record._replace(offset=40 + i) for i, record in enumerate(FEW)]
    header = parse_whole_batch(batch)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (40, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 5_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.leader_epoch, header.attributes) == (-1, codec)


@every_codec
def test_log_append_time_stamps_every_record(codec: Codec) -> None:
    batch = encode_batch(FEW, codec=codec, append_time_ms=77)
    assert {record.timestamp_ms for record in decode_records(batch)} == {77}
    assert parse_whole_batch(batch).max_timestamp == 77


def test_records_may_keep_their_own_offsets() -> None:
    kept = [FEW[0]._replace(offset=12), FEW[1]._replace(offset=17)]
    batch = encode_batch(kept, base_offset=10, keep_offsets=True, last_offset_delta=9)
    assert decode_records(batch) == kept
    assert parse_whole_batch(batch).last_offset == 19


def test_a_batch_that_compaction_emptied() -> None:
    batch = encode_batch([], base_offset=10, last_offset_delta=9, codec=Codec.LZ4, producer_id=5)
    assert decode_records(batch) == []
    header = parse_whole_batch(batch)
    assert (header.size_bytes, header.last_offset, header.producer_id) == (61, 19, 5)
    assert header.attributes == Codec.NONE


def test_a_batch_spans_its_records() -> None:
    with pytest.raises(AssertionError):
        encode_batch([])
    with pytest.raises(AssertionError):
        encode_batch(FEW, last_offset_delta=1)


def test_header_names_that_are_not_utf8_survive() -> None:
    content = record_bytes("00000001010202ff0278")
    batch = batch_of(content, record_count=1)
    (record,) = decode_records(batch)
    (name, value), *_ = record.headers
    assert (name.encode("utf-8", "surrogateescape"), value) == (b"\xff", b"x")
    assert encode_batch([record])[HEADER_BYTES:] == content


def test_whole_and_with_trailing_bytes() -> None:
    batch = encode_batch(FEW)
    assert decode_records(batch + b"the next batch") == decode_records(memoryview(batch)) == decode_records(batch)


@every_codec
def test_cut_anywhere(codec: Codec) -> None:
    batch = encode_batch(FEW, codec=codec)
    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            decode_records(batch[:size])


@every_codec
def test_content_cut_anywhere_behind_a_right_crc(codec: Codec) -> None:
    content = encode_batch(FEW, codec=codec)[HEADER_BYTES:]
    for size in range(len(content)):
        with pytest.raises(CorruptBatch):
            decode_records(batch_of(content[:size], record_count=len(FEW), codec=codec))


@every_codec
def test_any_flipped_bit_breaks_the_crc(codec: Codec) -> None:
    batch = encode_batch(FEW, codec=codec)
    for at in range(16, len(batch)):  # From the magic on; what stands before it is outside the CRC.
        broken = bytearray(batch)
        broken[at] ^= 0x10
        with pytest.raises(CorruptBatch):
            decode_records(broken)


ONE = "000000010100"  # A record with nothing in it.


@pytest.mark.parametrize(
    ("content", "record_count", "complaint"),
    [
        (record_bytes(ONE), -1, "batch of -1 records"),
        (record_bytes(ONE), 2, "an array of 2 items"),
        (record_bytes(ONE) * 2, 1, "7 bytes after the last of 1 records"),
        (record_bytes(ONE), 0x7FFF_FFFF, "an array of 2147483647 items"),
        (b"\x01" + bytes(6), 1, "record of -1 bytes"),
        (b"\x7e" + bytes(6), 1, "record of 63 bytes, 6 left"),
        (b"\x80" * 7, 1, "varint at byte 0 is longer than 5 bytes"),
        (record_bytes(ONE + "00"), 1, "1 bytes unused at the end of a record"),
        (record_bytes("000000010400"), 1, "2 bytes announced in a record, 1 left"),
        (record_bytes("000000010101"), 1, "record with -1 headers"),
        (record_bytes("00000001017e"), 1, "an array of 63 items"),
        (record_bytes("0000000101020101"), 1, "record header without a name"),
        (bytes(7), 1, "varint at byte 1 is cut off"),
    ],
)
def test_broken_records_are_named(content: bytes, record_count: int, complaint: str) -> None:
    with pytest.raises(CorruptBatch, match=complaint):
        decode_records(batch_of(content, record_count=record_count))


def test_an_unknown_codec_is_refused() -> None:
    header = parse_whole_batch(encode_batch(FEW))._replace(attributes=5)
    with pytest.raises(CorruptBatch, match="no compression codec 5"):
        decode_records(with_crc(HEADER.pack(*header) + encode_batch(FEW)[HEADER_BYTES:]))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_bomb_is_refused(codec: Codec) -> None:
    bomb = batch_of(compress(codec, bytes(4 << 20)), record_count=1, codec=codec)
    with pytest.raises(CorruptBatch, match="do not decompress within"):
        decode_records(bomb, output_bytes_max=1 << 20)


@every_codec
def test_mutations_behind_a_right_crc_are_read_or_refused(codec: Codec) -> None:
    chance = random.Random(codec)
    batch = encode_batch(FEW * 5, codec=codec)
    for _ in range(300):
        mutated = bytearray(batch)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(21, len(mutated))] = chance.randrange(256)
        with contextlib.suppress(CorruptBatch):
            decode_records(with_crc(bytes(mutated)), output_bytes_max=1 << 20)
