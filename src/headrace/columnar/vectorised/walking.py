"""Where the records of many batches begin: the one thing about them that cannot be seen all at once.

A record's place follows from the size of the one before it, so a batch is a chain to be walked link by link. Three ways
make that bearable without a compiler. Many batches are walked in step, one link of each at a time. A long batch walked
alone jumps over runs of records of equal size. The rest goes one by one in Python.

All of it reads sizes and nothing else. What it returns for a batch that breaks the format is of no meaning; who reads
the records there must see whether they join up.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.columnar.kernel import Bytes, Int64s
from headrace.protocol.primitives import read_varint

# Below so many batches, a numpy call for one link of each costs more than Python does for all of them.
_IN_STEP_MIN: Final = 32
# A run shorter than this cost more to find than it saved.
_RUN_MIN: Final = 12
_BURST_MIN: Final = 16
_BURST_MAX: Final = 1024


def pairs_of(data: Bytes) -> npt.NDArray[np.uint16]:
    """Every byte together with the one behind it: enough to know most varints by a look at a table."""
    return np.ndarray((max(0, len(data) - 1),), np.dtype("<u2"), data.data if len(data) else b"", strides=(1,))


def _short_varints() -> npt.NDArray[np.int32]:
    pair = np.arange(1 << 16, dtype=np.int32)
    first, second = pair & 0xFF, pair >> 8
    width = np.where(first < 0x80, 1, np.where(second < 0x80, 2, 0)).astype(np.int32)
    zigzag = np.where(width == 1, first, first & 0x7F | second << 7)
    value = (zigzag >> 1) ^ -(zigzag & 1)
    return np.where(width == 0, 0, value << 2 | width).astype(np.int32)


# For each pair of bytes, the signed varint of one or two bytes that it begins with: value << 2 | width, or 0 if longer.
SHORT_VARINTS: Final = _short_varints()
# How far it is to the next record, for the size that a record begins with; 0 where the pair does not say.
_STRIDES: Final = np.where(SHORT_VARINTS > 0, (SHORT_VARINTS >> 2) + (SHORT_VARINTS & 3), 0).astype(np.int64)


def record_positions(data: Bytes, batches: npt.NDArray[np.void]) -> Int64s:
    """Where each record begins, its size included, batch after batch. IndexError where a walk left the data."""
    counts = batches["record_count"]
    positions = np.empty(int(counts.sum()), np.int64)
    firsts = np.cumsum(counts) - counts
    alone = np.arange(len(batches))
    if len(batches) >= _IN_STEP_MIN:
        alone = _walk_in_step(data, batches, firsts, positions)
    for index in alone:
        batch, first = batches[index], int(firsts[index])
        rows = positions[first : first + int(batch["record_count"])]
        _walk_alone(data[int(batch["start"]) : int(batch["end"])], rows)
        rows += batch["start"]
    return positions


def _walk_in_step(data: Bytes, batches: npt.NDArray[np.void], firsts: Int64s, positions: Int64s) -> Int64s:
    """Fill in what can be had in step; the batches that are left, longer than others or not ending where they should.

    A record of 8 KiB or more, or a malformed one, stops the walk of its batch, and one that leads astray is found at
    its end: nothing is tested on the way.
    """
    pairs = pairs_of(data)
    order = np.argsort(-batches["record_count"], kind="stable")
    counts = batches["record_count"][order]
    steps = int(counts[_IN_STEP_MIN - 1])
    widths = np.searchsorted(-counts, -np.arange(steps), side="left")  # So many have more records than steps taken.
    at = batches["start"][order]
    slots = firsts[order]
    try:
        for width in widths.tolist():
            here = at[:width]
            positions[slots[:width]] = here
            here += _STRIDES.take(pairs[here])
            slots[:width] += 1
    except IndexError:
        return order
    left: Int64s = order[(counts > steps) | (at != batches["end"][order])]
    return left


def _walk_alone(batch: Bytes, positions: Int64s) -> None:
    data, pairs = batch.tobytes(), pairs_of(batch)
    count = len(positions)
    index = position = 0
    burst = _BURST_MIN
    while index < count:
        if count - index >= _BURST_MIN and position < len(pairs) and (stride := int(_STRIDES[pairs[position]])) > 0:
            run = _run_of_equals(pairs, position, stride, count - index)
            positions[index : index + run] = np.arange(position, position + run * stride, stride)
            index += run
            position += run * stride
            burst = _BURST_MIN if run >= _RUN_MIN else min(2 * burst, _BURST_MAX)
        end = min(count, index + burst)
        walked = []
        for _ in range(index, end):
            walked.append(position)
            size = data[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (high := data[position + 1]) < 0x80:
                position += 2 + ((size & 0x7F | high << 7) >> 1)
            else:
                size, position = read_varint(data, position)
                position += max(0, size)
        positions[index:end] = walked
        index = end


def _run_of_equals(pairs: npt.NDArray[np.uint16], position: int, stride: int, count_max: int) -> int:
    """How many records from here on have the size of the first. By induction: each is where the one before says."""
    sizes = pairs[position : position + count_max * stride : stride]
    if pairs[position] & 0x80:
        same = sizes == pairs[position]
    else:  # One byte of size; the other is the record's own.
        same = (sizes ^ pairs[position]) & 0xFF == 0
    return len(sizes) if same.all() else int(same.argmin())
