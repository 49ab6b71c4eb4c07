"""The two requests that simulated clients send by the thousand, written and read by hand.

Old versions without tagged fields, because they are the quickest to make. Everything else goes through the tables in
`protocol.messages`, as does every version of these two in other tests.
"""

from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch
from headrace.protocol.batch import HEADER, HEADER_BYTES, BatchHeader

PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11

# API key and version, correlation id, no client id.
_HEAD: Final = Struct(">hhih")
# No transactional id, acks, time-out, one topic; one partition, its index, the size of its records.
_PRODUCE: Final = Struct(">hhii")
_PRODUCE_PARTITION: Final = Struct(">iii")
# Error, base offset, append time, start offset.
_PRODUCED: Final = Struct(">hqqq")
# Replica, wait, least and most bytes, isolation level, no session, one topic.
_FETCH: Final = Struct(">iiiibiii")
# One partition: index, leader epoch, offset, start offset, most bytes; nothing forgotten, no rack.
_FETCH_PARTITION: Final = Struct(">iiiqqiih")
# Index, error, watermark, last stable offset, start offset; then aborted transactions, preferred replica, size.
_FETCHED: Final = Struct(">ihqqq")
_TRANSACTIONS: Final = Struct(">i")
_RECORDS: Final = Struct(">ii")


def encode_produce(*, acks: int, topic: bytes, partition: int, records: bytes) -> bytearray:
    """A frame without its length."""
    return bytearray(
        b"".join(
            (
                _HEAD.pack(0, PRODUCE_VERSION, 0, -1),
                _PRODUCE.pack(-1, acks, 30_000, 1),
                len(topic).to_bytes(2, "big"),
                topic,
                _PRODUCE_PARTITION.pack(1, partition, len(records)),
                records,
            )
        )
    )


def parse_produced(answer: bytes) -> tuple[int, int]:
    """Error and base offset, from a frame with its length."""
    name_bytes = int.from_bytes(answer[12:14], "big")
    error, base_offset, _, _ = _PRODUCED.unpack_from(answer, 14 + name_bytes + 8)
    return error, base_offset


def encode_fetch(
    *, topic: bytes, partition: int, offset: int, wait_ms: int, bytes_min: int, bytes_max: int
) -> bytearray:
    return bytearray(
        b"".join(
            (
                _HEAD.pack(1, FETCH_VERSION, 0, -1),
                _FETCH.pack(-1, wait_ms, bytes_min, bytes_max, 0, 0, -1, 1),
                len(topic).to_bytes(2, "big"),
                topic,
                _FETCH_PARTITION.pack(1, partition, -1, offset, -1, bytes_max, 0, 0),
            )
        )
    )


class Fetched(NamedTuple):
    error: int
    high_watermark: int
    start_offset: int
    records: bytes


def parse_fetched(answer: bytes) -> Fetched:
    assert int.from_bytes(answer[12:14], "big") == 0
    assert int.from_bytes(answer[18:22], "big") == 1
    position = 24 + int.from_bytes(answer[22:24], "big") + 4
    _, error, high_watermark, _, start_offset = _FETCHED.unpack_from(answer, position)
    position += _FETCHED.size
    (transactions,) = _TRANSACTIONS.unpack_from(answer, position)
    assert transactions <= 0
    _, size = _RECORDS.unpack_from(answer, position + 4)
    start = position + 4 + _RECORDS.size
    records = answer[start : start + max(size, 0)]
    assert len(records) == max(size, 0)
    return Fetched(error, high_watermark, start_offset, records)


def split_batches(records: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Headers, and the bytes that no broker may change, of the batches that are there whole.

    The last may be cut, as brokers do. CorruptBatch where a length cannot be one.
    """
    batches = []
    position = 0
    while len(records) - position >= HEADER_BYTES:
        header = BatchHeader._make(HEADER.unpack_from(records, position))
        if header.batch_length < HEADER_BYTES - 12:
            raise CorruptBatch(f"batch length {header.batch_length}")
        end = position + header.size_bytes
        if end > len(records):
            break
        batches.append((header, records[position + 16 : end]))
        position = end
    return batches
