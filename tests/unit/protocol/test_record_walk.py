"""Bounds and keys of records, beside what `protocol.records` reads."""

import pytest

from headrace.errors import CorruptBatch
from headrace.protocol.batch import HEADER_BYTES, parse_header
from headrace.protocol.compression import Codec
from headrace.protocol.record_walk import (
    NO_KEY,
    is_tombstone,
    open_payload,
    read_time_delta,
    walk_records,
    write_moved_record,
)
from headrace.protocol.records import Record, decode_records, encode_batch

STAMP = 1_700_000_000_000
RECORDS = [
    Record(b"a", b"1", timestamp_ms=STAMP),
    Record(b"long" * 500, b"v" * 9000, (("h", b"x"), ("n", None)), STAMP + 70_000),
    Record(None, b"keyless", timestamp_ms=STAMP - 5),
    Record(b"gone", None, timestamp_ms=STAMP + 1),
    Record(b"", b"", timestamp_ms=STAMP),
    *[Record(b"%d" % number, b"x", timestamp_ms=STAMP) for number in range(100)],
]


@pytest.mark.parametrize("codec", Codec)
def test_it_finds_what_the_reader_of_records_finds(codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec)
    header = parse_header(batch)
    payload = open_payload(batch, header, output_bytes_max=1 << 20)
    walked = list(walk_records(payload, header.record_count))
    assert [payload[at:end] if at != NO_KEY else None for _, _, _, at, end in walked] == [r.key for r in RECORDS]
    assert [delta for _, _, delta, _, _ in walked] == list(range(len(RECORDS)))
    assert [is_tombstone(payload, end) for *_, end in walked] == [record.value is None for record in RECORDS]
    assert [STAMP + read_time_delta(payload, bounds)[0] for bounds in walked] == [r.timestamp_ms for r in RECORDS]
    assert b"".join(payload[start:end] for start, end, *_ in walked) == payload


@pytest.mark.parametrize("by_ms", [0, 1, -1, 86_400_000, -STAMP])
def test_a_moved_record_keeps_its_time(by_ms: int) -> None:
    batch = encode_batch(RECORDS)
    header = parse_header(batch)
    payload = batch[HEADER_BYTES:]
    out = bytearray()
    for bounds in walk_records(payload, header.record_count):
        write_moved_record(out, payload, bounds, by_ms=by_ms)
    again = [STAMP + by_ms + read_time_delta(bytes(out), b)[0] for b in walk_records(bytes(out), len(RECORDS))]
    assert again == [record.timestamp_ms for record in RECORDS]


def test_every_cut_of_a_payload_is_refused() -> None:
    batch = encode_batch(RECORDS[:1] + RECORDS[2:8])
    count, payload = 7, batch[HEADER_BYTES:]
    assert len(list(walk_records(payload, count))) == count
    for size in range(len(payload)):
        with pytest.raises(CorruptBatch):
            list(walk_records(payload[:size], count))


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"\x0e\0\0\0\1\0\0\0", 2),  # One record, two announced.
        (b"\x0e\0\0\0\1\0\0\0", 0),  # One record, none announced.
        (b"\x0d\0\0\0\1\0\0\0", 1),  # A negative size.
        (b"\x0e\0\0\1\1\0\0\0", 1),  # A negative offset delta.
        (b"\x0e\0\0\0\x08\0\0\0", 1),  # A key as long as the rest.
        (b"\x80" * 30, 1),  # A size that has no end.
        (b"\x3e\0\0" + b"\x80" * 29, 1),  # An offset that has none.
        (b"\x3e\0\0\0" + b"\x80" * 28, 1),  # A key's size that has none.
    ],
)
def test_nonsense_is_refused(payload: bytes, count: int) -> None:
    with pytest.raises(CorruptBatch):
        list(walk_records(payload, count))


def test_whatever_byte_is_wrong_it_ends_as_a_corrupt_batch_or_not_at_all() -> None:
    payload = encode_batch(RECORDS[2:6])[HEADER_BYTES:]
    for position in range(len(payload)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            damaged = payload[:position] + bytes([value]) + payload[position + 1 :]
            try:
                for bounds in walk_records(damaged, 4):
                    write_moved_record(bytearray(), damaged, bounds, by_ms=1 << 62)
            except CorruptBatch:
                pass


def test_a_time_out_of_this_world_is_refused_and_not_wrapped() -> None:
    payload = encode_batch([Record(b"k", b"v", timestamp_ms=0), Record(b"k", b"v", timestamp_ms=-(2**63))])[61:]
    bounds = list(walk_records(payload, 2))
    write_moved_record(bytearray(), payload, bounds[1], by_ms=0)
    with pytest.raises(CorruptBatch):
        write_moved_record(bytearray(), payload, bounds[1], by_ms=1)


def test_the_reader_of_records_agrees_on_moved_ones() -> None:
    from headrace.protocol.batch import DELETE_HORIZON, make_batch

    batch = encode_batch(RECORDS, base_offset=7)
    header = parse_header(batch)
    payload = batch[HEADER_BYTES:]
    out = bytearray()
    for bounds in walk_records(payload, header.record_count):
        write_moved_record(out, payload, bounds, by_ms=1000)
    moved = make_batch(
        header._replace(base_timestamp=header.base_timestamp + 1000, attributes=DELETE_HORIZON), bytes(out)
    )
    assert decode_records(moved) == decode_records(batch)
    assert parse_header(moved).delete_horizon_ms == STAMP + 1000
    assert header.delete_horizon_ms is None
