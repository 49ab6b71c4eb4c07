"""The kernel in C, where it was built. This module is a `columnar.kernel.Kernel`, and needs the extension to be there.

It allocates the arrays that `_kernel.c` fills in: the extension knows buffers, not numpy.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.columnar import _kernel
from headrace.columnar.kernel import Bytes, Int32s, Int64s, Located, Malformed, Spans, WritePlan, Written
from headrace.columnar.record_columns import ByteColumn, RecordColumns

Array = npt.NDArray[Any]

# The kernel asks for room for the longest numbers before it writes shorter ones.
_SPARE_BYTES: Final = 32


def locate(data: Bytes, batches: npt.NDArray[np.void], *, headers: bool) -> Located:
    count = int(batches["record_count"].sum())
    offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
    keys, values, header_counts = _empty_spans(count), _empty_spans(count), np.empty(count, np.int32)
    batches = np.ascontiguousarray(batches)
    header_total = _kernel.locate(
        data, batches, offsets, timestamps, keys.starts, keys.sizes, values.starts, values.sizes, header_counts
    )
    if header_total < 0:
        raise Malformed
    names = contents = None
    if headers:
        names, contents = _empty_spans(header_total), _empty_spans(header_total)
        if header_total:
            located = values.starts, values.sizes, header_counts
            _kernel.locate_headers(data, *located, names.starts, names.sizes, contents.starts, contents.sizes)
    return Located(offsets, timestamps, keys, values, header_counts, names, contents)


def _empty_spans(count: int) -> Spans:
    return Spans(np.empty(count, np.int32), np.empty(count, np.int32))


def gather(data: Bytes, spans: Spans) -> pa.BinaryArray:
    count = len(spans.starts)
    nulls = spans.sizes < 0
    null_count = int(np.count_nonzero(nulls))
    if null_count == count:
        return pa.nulls(count, pa.binary())
    total = int(spans.sizes.sum(dtype=np.int64)) + null_count  # A null is a size of -1.
    offsets, copied = np.empty(count + 1, np.int32), pa.allocate_buffer(total)
    _kernel.gather(data, spans.starts, spans.sizes, offsets, copied)
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if null_count else None
    return pa.Array.from_buffers(pa.binary(), count, [valid, pa.py_buffer(offsets), copied])


def measure(columns: RecordColumns, rows: Int64s) -> Int64s:
    sizes = np.empty(len(rows), np.int64)
    _kernel.measure(*_columns(columns), rows, sizes)
    return sizes


def write(columns: RecordColumns, rows: Int64s, plan: WritePlan) -> Written:
    # Arrow's pool hands out again what was given back; numpy's memory is new each time, and half the time was for that.
    data = np.frombuffer(pa.allocate_buffer(plan.size_bytes_max + _SPARE_BYTES), np.uint8)
    edges = np.empty(len(plan.firsts) + 1, np.int64)
    _kernel.write(*_columns(columns), columns.timestamps, rows, plan.contents, plan.firsts, data, edges)
    return Written(data=data, edges=edges)


def murmur2(keys: ByteColumn) -> Int32s:
    hashes = np.empty(len(keys), np.int32)
    _kernel.murmur2(*_column(keys), hashes)
    return hashes


def _columns(columns: RecordColumns) -> Iterator[Array | None]:
    headers = columns.headers
    yield from _column(columns.keys)
    yield from _column(columns.values)
    yield from _column(None if headers is None else headers.names)
    yield from _column(None if headers is None else headers.values)
    yield from (None, None) if headers is None else (headers.firsts, headers.counts)


def _column(column: ByteColumn | None) -> Sequence[Array | None]:
    return (None, None, None) if column is None else (column.offsets, column.data, column.valid)
