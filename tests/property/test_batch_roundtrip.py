"""A batch gives back the records that it was made of, whatever the codec, the owner and the offsets."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import CorruptBatch
from headrace.protocol.batch import parse_whole_batch, whole_batches
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.record_values import records

few = settings(max_examples=60, deadline=None, derandomize=True)
some_records = st.lists(records(), min_size=1, max_size=8)
codecs = st.sampled_from(Codec)
offsets = st.integers(0, 1 << 62)


@few
@given(
    written=some_records,
    codec=codecs,
    base_offset=offsets,
    append_time_ms=st.none() | st.integers(0, 1 << 45),
)
def test_consecutive_offsets(written: list[Record], codec: Codec, base_offset: int, append_time_ms: int | None) -> None:
    batch = encode_batch(written, base_offset=base_offset, codec=codec, append_time_ms=append_time_ms)
    expected = [record._replace(offset=base_offset + index) for index, record in enumerate(written)]
    header = parse_whole_batch(batch)
    if append_time_ms is not None:
        expected = [record._replace(timestamp_ms=append_time_ms) for record in expected]
    assert decode_records(batch) == expected
    assert header.last_offset == expected[-1].offset
    assert header.max_timestamp == max(record.timestamp_ms for record in expected)
    assert header.record_count == len(written)


@few
@given(written=some_records, codec=codecs, base_offset=offsets, data=st.data())
def test_offsets_with_gaps(written: list[Record], codec: Codec, base_offset: int, data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 1 << 20), min_size=len(written), max_size=len(written)))
    placed = [
        record._replace(offset=base_offset + delta - 1) for record, delta in zip(written, accumulate(gaps), strict=True)
    ]
    spare = data.draw(st.integers(0, 100))
    last_offset_delta = placed[-1].offset - base_offset + spare
    batch = encode_batch(
        placed, base_offset=base_offset, codec=codec, keep_offsets=True, last_offset_delta=last_offset_delta
    )
    assert decode_records(batch) == placed
    assert parse_whole_batch(batch).last_offset == placed[-1].offset + spare


@few
@given(batches=st.lists(st.tuples(some_records, codecs), max_size=3), cut_bytes=st.integers(0, 200))
def test_whole_batches_out_of_fetched_bytes(batches: list[tuple[list[Record], Codec]], cut_bytes: int) -> None:
    encoded = [encode_batch(written, codec=codec) for written, codec in batches]
    data = b"".join(encoded)
    data = data[: max(0, len(data) - cut_bytes)]
    whole = [data[position : position + header.size_bytes] for position, header in whole_batches(data)]
    ends = list(accumulate(map(len, encoded)))
    assert whole == encoded[: sum(end <= len(data) for end in ends)]


@few
@given(written=some_records, codec=codecs, data=st.data())
def test_a_changed_byte_is_noticed(written: list[Record], codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(written, codec=codec))
    at = data.draw(st.integers(16, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBatch):
        decode_records(batch)
