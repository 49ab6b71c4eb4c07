"""Both kernels, and what a plain decoder makes of the same bytes."""

import pyarrow as pa
import pytest

from headrace.columnar import vectorised
from headrace.columnar.decoding import decode
from headrace.columnar.kernel import Kernel, choose, is_compiled
from headrace.columnar.opening import open_batches
from headrace.columnar.schema import COLUMNS
from headrace.protocol.batch import LOG_APPEND_TIME, parse_header
from headrace.protocol.records import Record, decode_records
from tests.oracle.toolbox import REQUIRE_ALL

COMPILED = choose("c") if is_compiled() or REQUIRE_ALL else None

KERNELS = [
    pytest.param(vectorised, id="numpy"),
    pytest.param(
        COMPILED, id="c", marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
    ),
]
KERNELS_HERE: list[Kernel] = [vectorised] if COMPILED is None else [vectorised, COMPILED]
both_kernels = pytest.mark.parametrize("kernel", KERNELS)

Row = dict[str, object]


def plain_rows(batches: list[bytes], *, topic: str = "clicks", partition: int = 3) -> list[Row]:
    return [
        plain_row(record, attributes=parse_header(batch).attributes, topic=topic, partition=partition)
        for batch in batches
        for record in decode_records(batch)
    ]


def plain_row(record: Record, *, attributes: int, topic: str, partition: int) -> Row:
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp_ms == -1 else record.timestamp_ms,
        "timestamp_type": 1 if attributes & LOG_APPEND_TIME else 0,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers],
    }


def decoded_rows(
    data: bytes,
    kernel: Kernel,
    *,
    columns: tuple[str, ...] = tuple(COLUMNS),
    first_offset: int = -(2**63),
    end_offset: int | None = None,
) -> list[Row]:
    opened = open_batches(data, aborted=None, decompressed_bytes_max=1 << 26)
    table = decode(
        opened,
        topic="clicks",
        partition=3,
        columns=columns,
        first_offset=first_offset,
        end_offset=end_offset,
        kernel=kernel,
    )
    return rows_of(table)


def rows_of(table: pa.RecordBatch) -> list[Row]:
    """Timestamps as the numbers that they are: Python has no dates for all of them."""
    table.validate(full=True)
    if "timestamp" in table.schema.names:
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table.column(at).view(pa.int64()))
    rows: list[Row] = table.to_pylist()
    return rows
