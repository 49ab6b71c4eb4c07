"""Writing records in numpy, and in Arrow's own compute functions: one field of all of them at a time.

`columnar.kernel` says what the functions promise.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.columnar.kernel import Int64s, WritePlan, Written
from headrace.columnar.record_columns import HeaderColumn, RecordColumns
from headrace.protocol.batch import HEADER_BYTES


def measure(columns: RecordColumns, rows: Int64s) -> Int64s:
    sizes = np.ones(len(rows), np.int64)  # Attributes.
    for column in (columns.keys, columns.values):
        sizes += 1 if column is None else _string_bytes(column.sizes()[rows])
    headers = columns.headers
    if headers is None:
        return sizes + 1
    ends = np.zeros(len(headers.names) + 1, np.int64)
    np.cumsum(_string_bytes(headers.names.sizes()) + _string_bytes(headers.values.sizes()), out=ends[1:])
    firsts, counts = headers.firsts[rows], headers.counts[rows]
    sizes += _widths(_zigzag(counts)) + ends[firsts + counts] - ends[firsts]
    return sizes


def _string_bytes(sizes: Int64s) -> Int64s:
    return _widths(_zigzag(sizes)) + np.maximum(sizes, 0)


def _zigzag(values: Int64s) -> npt.NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _widths(zigzag: npt.NDArray[np.uint64]) -> Int64s:
    """The bytes of each as a varint."""
    widths = np.ones(len(zigzag), np.int64)
    largest = int(zigzag.max(initial=0))
    for bits in range(7, 64, 7):
        if largest >> bits == 0:
            break
        widths += zigzag >= np.uint64(1 << bits)
    return widths


def write(columns: RecordColumns, rows: Int64s, plan: WritePlan) -> Written:
    """Each record is a row of strings, varints and bytes in turn, and Arrow joins them in C++."""
    firsts = plan.firsts
    counts = np.diff(firsts, append=len(rows))
    timestamps = columns.timestamps[rows]
    timestamp_deltas = _zigzag(timestamps - np.repeat(timestamps[firsts], counts))
    offset_deltas = _zigzag(np.arange(len(rows)) - np.repeat(firsts, counts))
    sizes = plan.contents + _widths(timestamp_deltas) + _widths(offset_deltas)

    zeros = np.zeros(len(rows), np.uint64)
    parts: list[pa.Array] = []
    varints = [_zigzag(sizes), zeros, timestamp_deltas, offset_deltas]
    for column in (columns.keys, columns.values):
        if column is None:
            varints.append(zeros + np.uint64(1))
        else:
            varints.append(_zigzag(column.sizes()[rows]))
            parts += (_varint_strings(varints), column.to_arrow().take(pa.array(rows)))
            varints = []
    if columns.headers is None:
        varints.append(zeros)
        parts.append(_varint_strings(varints))
    else:
        varints.append(_zigzag(columns.headers.counts[rows]))
        parts += (_varint_strings(varints), _header_strings(columns.headers, rows))
    return _apart(_join(parts), plan)


def _join(parts: list[pa.Array]) -> pa.LargeBinaryArray:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()), null_handling="replace")


def _varint_strings(columns: list[npt.NDArray[np.uint64]]) -> pa.LargeBinaryArray:
    """For each row, the varints of these columns one behind the other."""
    widths = [_widths(column) for column in columns]
    widest = [int(width.max(initial=1)) for width in widths]
    count = len(columns[0])
    grid = np.empty((count, sum(widest)), np.uint8)
    used = np.empty((count, sum(widest)), np.bool_)
    at = 0
    for column, width, width_max in zip(columns, widths, widest, strict=True):
        for index in range(width_max):
            bits = (column >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
            grid[:, at] = bits | (width > index + 1) * np.uint8(0x80)
            used[:, at] = width > index
            at += 1
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.sum(widths, axis=0), out=ends[1:])
    data = grid.reshape(-1) if ends[-1] == grid.size else grid[used]
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _header_strings(headers: HeaderColumn, rows: Int64s) -> pa.LargeBinaryArray:
    """All headers of a row as one string: they lie side by side already."""
    parts: list[pa.Array] = []
    for column in (headers.names, headers.values):
        parts += (_varint_strings([_zigzag(column.sizes())]), column.to_arrow())
    _, ends, data = _join(parts).buffers()
    edges = np.frombuffer(ends, np.int64)[np.append(headers.firsts, headers.counts.sum())]
    rows_of_headers = pa.Array.from_buffers(pa.large_binary(), len(headers), [None, pa.py_buffer(edges), data])
    return rows_of_headers.take(pa.array(rows))


def _apart(records: pa.LargeBinaryArray, plan: WritePlan) -> Written:
    """The batches moved apart, to leave room for a header before each."""
    _, offsets, content = records.buffers()
    begins = np.append(np.frombuffer(offsets, np.int64)[plan.firsts], len(content))
    edges = begins + HEADER_BYTES * np.arange(len(begins))
    joined, data = np.frombuffer(content, np.uint8), np.empty(int(edges[-1]), np.uint8)
    for index in range(len(begins) - 1):
        data[edges[index] + HEADER_BYTES : edges[index + 1]] = joined[begins[index] : begins[index + 1]]
    return Written(data=data, edges=edges)
