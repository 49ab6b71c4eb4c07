import numpy as np
import pyarrow as pa
import pytest

from headrace.columnar.encoding import encode_batches, stamp
from headrace.columnar.kernel import Kernel
from headrace.columnar.record_columns import RecordColumns, as_columns
from headrace.errors import ConfigError
from headrace.protocol.batch import parse_whole_batch
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.columnar_values import both_kernels


def columns(values: list[bytes | None], timestamps: list[int] | None = None) -> RecordColumns:
    times = np.zeros(len(values), np.int64) if timestamps is None else np.array(timestamps, np.int64)
    return as_columns(key=None, value=pa.array(values, pa.binary()), headers=None, timestamps=times)


@both_kernels
def test_columns_that_are_not_there_are_null(kernel: Kernel) -> None:
    nothing = as_columns(key=None, value=None, headers=None, timestamps=np.array([5, 6]))
    [batch] = encode_batches(nothing, None, batch_bytes=1_000, codec=Codec.NONE, kernel=kernel)
    assert bytes(batch.data) == encode_batch(
        [Record(key=None, value=None, timestamp_ms=5), Record(key=None, value=None, timestamp_ms=6)]
    )


@both_kernels
def test_no_rows_are_no_batches(kernel: Kernel) -> None:
    assert encode_batches(columns([]), None, batch_bytes=1_000, codec=Codec.NONE, kernel=kernel) == []
    some = columns([b"a"])
    assert encode_batches(some, np.array([], np.int64), batch_bytes=1_000, codec=Codec.NONE, kernel=kernel) == []


@both_kernels
def test_a_large_record_is_alone_between_full_batches(kernel: Kernel) -> None:
    sizes = [10, 10, 5_000, 10, 10]
    batches = encode_batches(
        columns([bytes(size) for size in sizes]), None, batch_bytes=1_000, codec=Codec.NONE, kernel=kernel
    )
    assert [(batch.first_row, batch.record_count) for batch in batches] == [(0, 2), (2, 1), (3, 2)]
    assert [len(record.value or b"") for batch in batches for record in decode_records(batch.data)] == sizes


@both_kernels
@pytest.mark.parametrize(
    ("batch_rows", "counts"), [(1, [1] * 7), (3, [3, 3, 1]), (5, [4, 3]), (100, [4, 3]), (None, [4, 3])]
)
def test_a_batch_can_be_limited_in_rows_too(kernel: Kernel, batch_rows: int | None, counts: list[int]) -> None:
    batches = encode_batches(
        columns([bytes(200)] * 7), None, batch_bytes=1_000, batch_rows=batch_rows, codec=Codec.NONE, kernel=kernel
    )
    assert [batch.record_count for batch in batches] == counts
    assert sum(len(decode_records(batch.data)) for batch in batches) == 7


@both_kernels
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4])
def test_a_level_changes_the_size_and_nothing_else(kernel: Kernel, codec: Codec) -> None:
    text = columns([b"%d sheep, %d goats" % (row * row, row) for row in range(3_000)])
    batches = [
        encode_batches(text, None, batch_bytes=1 << 20, codec=codec, level=level, kernel=kernel)[0] for level in (1, 9)
    ]
    assert len(batches[0].data) != len(batches[1].data)
    assert decode_records(batches[0].data) == decode_records(batches[1].data)


@both_kernels
def test_timestamps_that_go_back(kernel: Kernel) -> None:
    times = [1 << 44, 5, -1, (1 << 63) - 1]
    [batch] = encode_batches(
        columns([b""] * 4, times), np.arange(3), batch_bytes=1_000, codec=Codec.NONE, kernel=kernel
    )
    assert [record.timestamp_ms for record in decode_records(batch.data)] == times[:3]
    header = parse_whole_batch(batch.data)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset_delta) == (1 << 44, 1 << 44, 2)
    with pytest.raises(ConfigError, match="ms apart"):
        encode_batches(columns([b""] * 4, times), None, batch_bytes=1_000, codec=Codec.NONE, kernel=kernel)


@both_kernels
def test_a_stamp_changes_neighbours_in_nothing(kernel: Kernel) -> None:
    first, second = encode_batches(
        columns([b"a" * 100, b"b" * 100]), None, batch_bytes=200, codec=Codec.NONE, kernel=kernel
    )
    before = bytes(second.data)
    stamp(first, producer_id=1 << 40, producer_epoch=9, base_sequence=(1 << 31) - 1)
    header = parse_whole_batch(first.data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 9, (1 << 31) - 1)
    assert bytes(second.data) == before


@both_kernels
@pytest.mark.parametrize("count", [64, 65, 8_193, 20_000])
def test_every_width_of_an_offset(kernel: Kernel, count: int) -> None:
    [batch] = encode_batches(columns([b""] * count), None, batch_bytes=1 << 20, codec=Codec.NONE, kernel=kernel)
    assert bytes(batch.data) == encode_batch([Record(key=None, value=b"", timestamp_ms=0)] * count)
