import subprocess
import sys

import pyarrow as pa
import pytest

from headrace.columnar.decoding import decode
from headrace.columnar.kernel import Kernel
from headrace.columnar.opening import open_batches
from headrace.columnar.schema import COLUMNS, schema_of
from headrace.errors import ConfigError, CorruptBatch
from headrace.protocol.batch import DELETE_HORIZON, make_batch, parse_header
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch
from tests.columnar_values import both_kernels, decoded_rows, plain_rows

EVERYTHING = Record(
    key=b"key",
    value=b"value",
    headers=(("trace", b"abc"), ("empty", b""), ("null", None)),
    timestamp_ms=1_700_000_000_000,
)


@both_kernels
def test_every_column_of_one_record(kernel: Kernel) -> None:
    [row] = decoded_rows(encode_batch([EVERYTHING], base_offset=40), kernel)
    assert row == {
        "topic": "clicks",
        "partition": 3,
        "offset": 40,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": 0,
        "key": b"key",
        "value": b"value",
        "headers": [
            {"key": "trace", "value": b"abc"},
            {"key": "empty", "value": b""},
            {"key": "null", "value": None},
        ],
    }


@both_kernels
def test_nothing_is_a_batch_of_the_same_columns(kernel: Kernel) -> None:
    opened = open_batches(b"", aborted=None, decompressed_bytes_max=1)
    table = decode(
        opened, topic="t", partition=0, columns=list(COLUMNS), first_offset=0, end_offset=None, kernel=kernel
    )
    assert table.schema == schema_of(list(COLUMNS))
    assert table.num_rows == 0


@both_kernels
def test_types_are_the_schemas(kernel: Kernel) -> None:
    opened = open_batches(encode_batch([EVERYTHING]), aborted=None, decompressed_bytes_max=1)
    table = decode(
        opened, topic="t", partition=0, columns=list(COLUMNS), first_offset=0, end_offset=None, kernel=kernel
    )
    assert table.schema == schema_of(list(COLUMNS))
    assert [column.type for column in table.columns] == list(COLUMNS.values())
    assert table.to_pylist()[0]["timestamp"].isoformat() == "2023-11-14T22:13:20+00:00"


@both_kernels
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 8_191, 8_192, 8_193, 1_048_575, 1_048_577])
def test_every_width_of_a_size(kernel: Kernel, size: int) -> None:
    written = [
        Record(key=bytes(size), value=None, timestamp_ms=0),
        Record(key=None, value=bytes(size), timestamp_ms=size),
        Record(key=b"", value=b"", headers=(("h", bytes(size)),), timestamp_ms=1 << 40),
    ]
    batch = encode_batch(written)
    assert decoded_rows(batch, kernel) == plain_rows([batch])


@both_kernels
@pytest.mark.parametrize("count", [15, 16, 17, 100, 9_000])
@pytest.mark.parametrize("sizes", [(20,), (5, 300), (200, 200, 200, 200, 200, 200, 200, 200, 200, 9_000)])
def test_long_batches_of_equal_and_of_different_sizes(kernel: Kernel, count: int, sizes: tuple[int, ...]) -> None:
    written = [
        Record(key=None, value=bytes([index % 251]) * sizes[index // 7 % len(sizes)], timestamp_ms=index // 3)
        for index in range(count if max(sizes) < 1_000 else min(count, 1_000))
    ]
    batch = encode_batch(written)
    assert decoded_rows(batch, kernel) == plain_rows([batch])


@both_kernels
def test_many_batches_of_all_lengths(kernel: Kernel) -> None:
    """In step, behind one another, and one record too large to be walked in step."""
    batches, offset = [], 0
    for index in range(70):
        written = [
            Record(key=b"%d" % row, value=bytes(9_000 if index == 35 and row == 20 else row % 90))
            for row in range(index + 1)
        ]
        batches.append(encode_batch(written, base_offset=offset))
        offset += len(written)
    assert decoded_rows(b"".join(batches), kernel) == plain_rows(batches)


@both_kernels
def test_records_with_many_headers_beside_those_with_none(kernel: Kernel) -> None:
    written = [
        Record(key=None, value=b"v", headers=tuple((f"name{at}", b"x" * at) for at in range(count)))
        for count in [0, 1, 2, 300] + [0, 3] * 20
    ]
    batch = encode_batch(written)
    assert decoded_rows(batch, kernel) == plain_rows([batch])
    assert decoded_rows(batch, kernel, first_offset=2, end_offset=5) == plain_rows([batch])[2:5]


@both_kernels
def test_the_time_of_appending_is_every_records(kernel: Kernel) -> None:
    batch = encode_batch([EVERYTHING, EVERYTHING._replace(timestamp_ms=5)], append_time_ms=99)
    rows = decoded_rows(batch, kernel, columns=("timestamp", "timestamp_type"))
    assert rows == [{"timestamp": 99, "timestamp_type": 1}] * 2


@both_kernels
def test_times_of_a_batch_with_a_delete_horizon(kernel: Kernel) -> None:
    """Its base timestamp is the horizon, and the records' times count from there all the same."""
    batch = encode_batch([Record(key=b"k", value=None, timestamp_ms=500)])
    header = parse_header(batch)
    moved = make_batch(header._replace(attributes=DELETE_HORIZON, base_timestamp=450), batch[61:])
    assert decoded_rows(moved, kernel, columns=("timestamp",)) == [{"timestamp": 450}]


@both_kernels
def test_header_names_that_are_no_text_read_as_in_java(kernel: Kernel) -> None:
    odd = b"caf\xe9".decode("utf-8", "surrogateescape")
    batch = encode_batch([Record(key=None, value=None, headers=((odd, b"1"), ("café", b"2")))])
    [row] = decoded_rows(batch, kernel, columns=("headers",))
    assert row["headers"] == [{"key": "caf\ufffd", "value": b"1"}, {"key": "café", "value": b"2"}]


@both_kernels
@pytest.mark.parametrize("columns", [["offset"], ["headers", "value"], list(COLUMNS)])
def test_what_is_malformed_is_refused_whatever_was_asked_for(kernel: Kernel, columns: list[str]) -> None:
    good = encode_batch([EVERYTHING] * 3)
    nameless = bytearray(encode_batch([EVERYTHING], base_offset=30, codec=Codec.NONE))
    nameless[nameless.index(b"trace") - 1] = 1  # A size of -1, behind which nothing else can be right.
    broken = make_batch(parse_header(bytes(nameless)), bytes(nameless[61:]))
    opened = open_batches(good + broken, aborted=None, decompressed_bytes_max=1)
    with pytest.raises(CorruptBatch, match="the batch at offset 30: record header without a name"):
        decode(opened, topic="t", partition=0, columns=columns, first_offset=0, end_offset=1, kernel=kernel)


@both_kernels
@pytest.mark.parametrize("base", [{"base_timestamp": 2**63 - 1}, {"base_offset": 2**63 - 1}])
def test_sums_that_leave_64_bits(kernel: Kernel, base: dict[str, int]) -> None:
    batch = encode_batch([Record(key=None, value=None, timestamp_ms=0), Record(key=None, value=None, timestamp_ms=1)])
    moved = make_batch(parse_header(batch)._replace(**base), batch[61:])
    with pytest.raises(CorruptBatch, match="do not fit 64 bits"):
        decoded_rows(moved, kernel)


def test_an_unknown_column() -> None:
    opened = open_batches(b"", aborted=None, decompressed_bytes_max=1)
    with pytest.raises(ConfigError, match="no column 'lag'"):
        decode(opened, topic="t", partition=0, columns=["lag"], first_offset=0, end_offset=None)


@both_kernels
def test_columns_outlive_the_fetched_bytes(kernel: Kernel) -> None:
    fetched = bytearray(encode_batch([EVERYTHING]))
    opened = open_batches(fetched, aborted=None, decompressed_bytes_max=1)
    table = decode(
        opened, topic="t", partition=0, columns=["key", "headers"], first_offset=0, end_offset=None, kernel=kernel
    )
    fetched[:] = bytes(len(fetched))
    assert isinstance(table, pa.RecordBatch)
    assert table.to_pylist()[0]["key"] == b"key"
    assert table.to_pylist()[0]["headers"][0] == {"key": "trace", "value": b"abc"}


DECODE_ALONE = """
import sys
from headrace.columnar.decoding import decode
from headrace.columnar.opening import open_batches
from headrace.columnar.schema import COLUMNS
from headrace.protocol.records import Record, encode_batch

records = [Record(b"key", b"value", headers=(("name", b"value"),), timestamp_ms=time) for time in (-1, 1)]
opened = open_batches(encode_batch(records), aborted=None, decompressed_bytes_max=1)
rows = decode(opened, topic="t", partition=0, columns=list(COLUMNS), first_offset=0, end_offset=None)
assert rows.num_rows == 2
sys.exit("pandas" in sys.modules)
"""


def test_pandas_is_not_imported_for_the_first_rows() -> None:
    """Whoever follows a topic would wait a second for it."""
    assert subprocess.run([sys.executable, "-c", DECODE_ALONE], check=False, timeout=60).returncode == 0
