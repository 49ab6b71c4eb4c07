"""From columns to record batches of format 2, as `protocol.records.encode_batch` would make them of the same rows.

Rows are cut into batches by size: a batch is filled up to `batch_bytes` before compression, by an estimate that may be
a few bytes per record too large and is never too small; a record that is larger gets a batch of its own. The kernel
writes the records of all batches into one buffer, with room for the headers that are then filled in here.
"""

from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.columnar.compressing import compress_columns
from headrace.columnar.kernel import KERNEL, Int64s, Kernel, WritePlan
from headrace.columnar.record_columns import RecordColumns
from headrace.errors import ConfigError
from headrace.protocol.batch import HEADER, HEADER_BYTES, LENGTH_END, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE
from headrace.protocol.checksum import crc32c
from headrace.protocol.compression import Codec

_HEADER_ROOM: Final = bytes(HEADER_BYTES)
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_CRC_START: Final = 21
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
_BATCH_BYTES_MAX: Final = 2**31 - 1


class EncodedBatch(NamedTuple):
    """A whole batch without a producer, and which rows it holds: `record_count` of those given, from `first_row` on.

    `data` may be written to, and may be a view into a buffer that it shares with its neighbours.
    """

    data: memoryview
    record_count: int
    first_row: int


def encode_batches(
    columns: RecordColumns,
    rows: npt.NDArray[np.int64] | None,
    *,
    batch_bytes: int,
    batch_rows: int | None = None,
    codec: Codec,
    level: int | None = None,
    stamped_later: bool = False,
    kernel: Kernel = KERNEL,
) -> list[EncodedBatch]:
    """Batches of these rows of `columns`, in this order; None for all of them. `batch_rows` is the most in a batch.

    Whoever will `stamp` them anyway says so, and their CRC is not computed before.
    """
    rows = np.arange(len(columns)) if rows is None else np.ascontiguousarray(rows, np.int64)
    if not len(rows):
        return []
    timestamps = columns.timestamps[rows]
    contents = kernel.measure(columns, rows)
    sizes_max = _record_sizes_max(contents, timestamps, batch_bytes=batch_bytes)
    firsts, size_bytes_max = _cut(sizes_max, batch_bytes=batch_bytes, batch_rows=batch_rows or len(rows))
    plan = WritePlan(firsts=firsts, contents=contents, size_bytes_max=size_bytes_max)
    written = kernel.write(columns, rows, plan)

    view, edges = written.data.data, written.edges.tolist()
    counts = np.diff(firsts, append=len(rows)).tolist()
    base_timestamps = timestamps[firsts].tolist()
    max_timestamps = np.maximum.reduceat(timestamps, firsts).tolist()
    batches = []
    for index, first in enumerate(firsts.tolist()):
        batch = view[edges[index] : edges[index + 1]]
        if codec is not Codec.NONE:
            compressed = compress_columns(codec, batch[HEADER_BYTES:], level=level)
            batch = memoryview(bytearray().join((_HEADER_ROOM, *compressed)))
        if len(batch) > _BATCH_BYTES_MAX:
            raise ConfigError(f"row {rows[first]} makes a batch of {len(batch)} bytes, more than Kafka can hold")
        HEADER.pack_into(
            batch,
            0,
            0,  # Base offset and leader epoch are the broker's to fill in.
            len(batch) - LENGTH_END,
            -1,
            MAGIC,
            0,  # The CRC comes with the producer.
            codec,
            counts[index] - 1,
            base_timestamps[index],
            max_timestamps[index],
            NO_PRODUCER_ID,
            -1,
            NO_SEQUENCE,
            counts[index],
        )
        encoded = EncodedBatch(data=batch, record_count=counts[index], first_row=first)
        if not stamped_later:
            stamp(encoded, producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=NO_SEQUENCE)
        batches.append(encoded)
    return batches


def stamp(batch: EncodedBatch, *, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Say who sends the batch, and compute the CRC anew."""
    _PRODUCER.pack_into(batch.data, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch.data, _CRC_AT, crc32c(batch.data[_CRC_START:]))


def _record_sizes_max(contents: Int64s, timestamps: Int64s, *, batch_bytes: int) -> Int64s:
    """How large each record can become, in whichever batch and at whichever place in it."""
    spread = int(timestamps.max()) - int(timestamps.min())
    if spread >= 1 << 63:
        raise ConfigError(f"timestamps {spread} ms apart do not go into one batch")
    offset_delta_max = min(len(contents), batch_bytes // int(contents.min()))
    sizes = contents + (_varint_bytes(spread) + _varint_bytes(offset_delta_max))
    width = _varint_bytes(int(sizes.max()))
    if _varint_bytes(int(sizes.min())) == width:
        return sizes + width
    return sizes + np.searchsorted([1 << 6, 1 << 13, 1 << 20, 1 << 27], sizes, side="right") + 1


def _varint_bytes(size: int) -> int:
    """The bytes of a signed varint of this size, or of minus this size."""
    return max(1, ((2 * size).bit_length() + 6) // 7)


def _cut(sizes_max: Int64s, *, batch_bytes: int, batch_rows: int) -> tuple[Int64s, int]:
    """The first row of each batch, and the bytes of all batches at most."""
    ends = np.cumsum(sizes_max)
    room = batch_bytes - HEADER_BYTES
    firsts = []
    first, begin = 0, 0
    while first < len(ends):
        firsts.append(first)
        first = min(first + batch_rows, max(first + 1, int(ends.searchsorted(begin + room, side="right"))))
        begin = int(ends[first - 1])
    return np.array(firsts, np.int64), begin + HEADER_BYTES * len(firsts)
