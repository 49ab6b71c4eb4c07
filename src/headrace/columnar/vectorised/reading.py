"""Reading records in numpy: one field of all of them at a time.

What is written in one or two bytes, nearly everything, is read by a table. Nothing is checked field by field: positions
only ever grow, so a record whose fields end exactly where the record ends has had all of them within it, and whatever
runs out of the data meets numpy's own bounds. `columnar.kernel` says what the functions promise.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.columnar.kernel import Bytes, Int32s, Int64s, Located, Malformed, Spans
from headrace.columnar.vectorised.walking import SHORT_VARINTS, pairs_of, record_positions
from headrace.errors import ProtocolError
from headrace.protocol.batch import LOG_APPEND_TIME
from headrace.protocol.primitives import read_varint

Integers = npt.NDArray[Any]

_HEADER_BYTES_MIN: Final = 2
# Below so many records with headers left, Python reads one faster than numpy one of each.
_HEADERS_IN_STEP_MIN: Final = 12
_VARINT_BYTES_MAX: Final = 5
_VARLONG_BYTES_MAX: Final = 10


def locate(data: Bytes, batches: npt.NDArray[np.void], *, headers: bool) -> Located:
    try:
        return _locate(data, batches, headers)
    except (IndexError, ProtocolError):
        raise Malformed from None


def _locate(data: Bytes, batches: npt.NDArray[np.void], headers: bool) -> Located:
    pairs = pairs_of(data)
    counts = batches["record_count"]
    positions = record_positions(data, batches)
    sizes, at = _read_varints(data, pairs, positions)
    ends = at + sizes
    _check(sizes.min(initial=0) >= 0)
    behind = np.empty_like(positions)
    behind[:-1] = positions[1:]
    behind[np.cumsum(counts) - 1] = batches["end"]
    _check(np.array_equal(ends, behind))

    timestamp_deltas, at = _read_varints(data, pairs, at + 1, bytes_max=_VARLONG_BYTES_MAX)
    offset_deltas, at = _read_varints(data, pairs, at)
    keys, at = _read_spans(data, pairs, at)
    values, at = _read_spans(data, pairs, at)
    header_counts, at = _read_last_varints(data, at)
    names = contents = None
    if header_counts.any():
        names, contents = _locate_headers(data, at, header_counts)
    elif headers:
        names = contents = Spans(np.empty(0, np.int32), np.empty(0, np.int32))
    _check(np.array_equal(at, ends))

    append_time = batches["attributes"] & LOG_APPEND_TIME != 0
    if append_time.any():
        timestamp_deltas = np.where(np.repeat(append_time, counts), 0, timestamp_deltas)
    times = np.where(append_time, batches["max_timestamp"], batches["base_timestamp"])
    return Located(
        offsets=_add(np.repeat(batches["base_offset"], counts), offset_deltas),
        timestamps=_add(np.repeat(times, counts), timestamp_deltas),
        keys=keys,
        values=values,
        header_counts=header_counts.astype(np.int32),
        header_names=names if headers else None,
        header_values=contents if headers else None,
    )


def _check(right: object) -> None:
    if not right:
        raise Malformed


def _add(bases: Int64s, deltas: Integers) -> Int64s:
    sums = bases + deltas
    _check(not ((bases ^ sums) & (deltas ^ sums) < 0).any())  # Neither may leave 64 bits.
    return sums


def _read_varints(
    data: Bytes, pairs: npt.NDArray[np.uint16], positions: Int64s, *, bytes_max: int = _VARINT_BYTES_MAX
) -> tuple[Integers, Int64s]:
    """The signed varint at each position, and where it ends. Not for the last byte of the data, which has no pair."""
    short = SHORT_VARINTS.take(pairs[positions])  # Of what lies side by side, taking is faster than indexing.
    widths, values = short & 3, short >> 2
    if not widths.all():
        longer = np.flatnonzero(widths == 0)
        values = values.astype(np.int64)
        values[longer], widths[longer] = _read_long_varints(data, positions[longer], bytes_max)
    return values, positions + widths


def _read_last_varints(data: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """The same for what may be the last byte of a record, and of the data."""
    first = data[positions]
    if first.max(initial=0) < 0x80:
        zigzag = first.astype(np.int64)
        return (zigzag >> 1) ^ -(zigzag & 1), positions + 1
    values, widths = _read_long_varints(data, positions, _VARINT_BYTES_MAX)
    return values, positions + widths


def _read_long_varints(data: Bytes, positions: Int64s, bytes_max: int) -> tuple[Int64s, Int32s]:
    """Byte by byte, those that go on."""
    zigzag = np.zeros(len(positions), np.uint64)
    widths = np.zeros(len(positions), np.int32)
    going = np.arange(len(positions))
    for index in range(bytes_max):
        byte = data[positions[going] + index]
        zigzag[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        widths[going] = index + 1
        if index == _VARLONG_BYTES_MAX - 1:
            _check(byte.max(initial=0) <= 1)  # The 64th bit.
        going = going[byte >= 0x80]
        if not len(going):
            break
    _check(not len(going))
    if bytes_max == _VARINT_BYTES_MAX:
        _check(zigzag.max(initial=0) < 1 << 32)
    return (zigzag >> np.uint64(1)).astype(np.int64) ^ -(zigzag & np.uint64(1)).astype(np.int64), widths


def _read_spans(data: Bytes, pairs: npt.NDArray[np.uint16], positions: Int64s) -> tuple[Spans, Int64s]:
    """The byte string behind the size at each position, and where it ends. Any negative size is a null."""
    sizes, starts = _read_varints(data, pairs, positions)
    return _spans(starts, sizes), starts + np.maximum(sizes, 0)


def _spans(starts: Int64s, sizes: Integers) -> Spans:
    return Spans(starts.astype(np.int32), np.maximum(sizes, -1).astype(np.int32))


def _locate_headers(data: Bytes, at: Int64s, counts: Int64s) -> tuple[Spans, Spans]:
    """The headers of all records, and `at`, where each record's begin, moved to where they end."""
    _check(counts.min() >= 0 and counts.sum() * _HEADER_BYTES_MIN <= len(data))
    spans = np.empty((4, int(counts.sum())), np.int64)
    rows = np.flatnonzero(counts)
    here, left, slots = at[rows], counts[rows], (np.cumsum(counts) - counts)[rows]
    while len(rows) >= _HEADERS_IN_STEP_MIN:
        name_sizes, name_starts = _read_last_varints(data, here)
        _check(name_sizes.min() >= 0)
        sizes, starts = _read_last_varints(data, name_starts + name_sizes)
        spans[:, slots] = name_starts, name_sizes, starts, sizes
        here = starts + np.maximum(sizes, 0)
        at[rows] = here
        more = left > 1
        rows, here, left, slots = rows[more], here[more], left[more] - 1, slots[more] + 1
    if len(rows):
        view = data.data
        for row, position, count, slot in zip(rows.tolist(), here.tolist(), left.tolist(), slots.tolist(), strict=True):
            at[row] = _locate_headers_of_one(view, position, spans[:, slot : slot + count])
    return _spans(spans[0], spans[1]), _spans(spans[2], spans[3])


def _locate_headers_of_one(data: memoryview, position: int, spans: Int64s) -> int:
    found = []
    for _ in range(spans.shape[1]):
        name_size, name_start = read_varint(data, position)
        _check(name_size >= 0)
        size, start = read_varint(data, name_start + name_size)
        found.append((name_start, name_size, start, size))
        position = start + max(0, size)
    spans[:] = np.array(found, np.int64).T
    return position


def gather(data: Bytes, spans: Spans) -> pa.BinaryArray:
    """What lies between the byte strings is taken for byte strings too: one column over all of the data, of which Arrow
    takes every other one, and copies in C++."""
    count = len(spans.starts)
    nulls = spans.sizes < 0
    if nulls.all():
        return pa.nulls(count, pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = spans.starts
    edges[1::2] = spans.starts + np.maximum(spans.sizes, 0)
    everything = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    taken = everything.take(pa.array(np.arange(0, 2 * count, 2)))
    if not nulls.any():
        return taken
    valid = np.packbits(~nulls, bitorder="little")
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(valid), *taken.buffers()[1:]])
