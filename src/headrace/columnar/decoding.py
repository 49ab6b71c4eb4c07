"""From opened batches to Arrow columns.

The kernel says where the fields of every record are; here they become columns, those that were asked for and no others.
What is accepted does not depend on that: every record of every batch is checked whole. A malformed one is a
`CorruptBatch` in the words of the plain decoder, `protocol.records`, which is then asked to read the same bytes.
"""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.columnar.kernel import KERNEL, Bytes, Int64s, Kernel, Located, Malformed
from headrace.columnar.opening import Opened
from headrace.columnar.schema import COLUMNS, HEADER, schema_of
from headrace.errors import CorruptBatch, ProtocolError
from headrace.protocol.batch import LOG_APPEND_TIME, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader
from headrace.protocol.records import read_records

_Number = TypeVar("_Number", bound=np.generic)
_INT64: Final = range(-(2**63), 2**63)


def decode(
    opened: Opened,
    *,
    topic: str,
    partition: int,
    columns: Sequence[str],
    first_offset: int,
    end_offset: int | None,
    kernel: Kernel = KERNEL,
) -> pa.RecordBatch:
    """The records from `first_offset` up to and without `end_offset`, in these columns."""
    schema = schema_of(columns)
    try:
        located = kernel.locate(opened.data, opened.batches, headers="headers" in columns)
    except Malformed:
        refuse(opened)
    rows = _rows_within(located.offsets, first_offset, end_offset)
    count = len(located.offsets) if rows is None else len(rows)

    def timestamp_types() -> pa.Array:
        types = opened.batches["attributes"] & LOG_APPEND_TIME != 0
        repeated = np.repeat(types.astype(np.int32), opened.batches["record_count"])
        return _numbers(_pick(repeated, rows), COLUMNS["timestamp_type"])

    def spans(name: str) -> pa.Array:
        chosen = located.keys if name == "key" else located.values
        return kernel.gather(opened.data, chosen if rows is None else chosen.take(rows))

    make: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: _repeated(topic, count),
        "partition": lambda: _numbers(np.full(count, partition, np.int32), COLUMNS["partition"]),
        "offset": lambda: _numbers(_pick(located.offsets, rows), COLUMNS["offset"]),
        "timestamp": lambda: _timestamps(_pick(located.timestamps, rows)),
        "timestamp_type": timestamp_types,
        "key": lambda: spans("key"),
        "value": lambda: spans("value"),
        "headers": lambda: _headers(opened.data, located, rows, kernel),
    }
    assert make.keys() == COLUMNS.keys()
    return pa.RecordBatch.from_arrays([make[name]() for name in columns], schema=schema)


def _rows_within(offsets: Int64s, first_offset: int, end_offset: int | None) -> Int64s | None:
    """The rows to keep; None for all, which is nearly always."""
    within = offsets >= first_offset
    if end_offset is not None:
        within &= offsets < end_offset
    return None if within.all() else np.flatnonzero(within)


def _pick(array: npt.NDArray[_Number], rows: Int64s | None) -> npt.NDArray[_Number]:
    return array if rows is None else array[rows]


def _timestamps(timestamps: Int64s) -> pa.Array:
    present = timestamps != NO_TIMESTAMP
    return _numbers(timestamps, COLUMNS["timestamp"], present=None if present.all() else present)


def _numbers(
    numbers: npt.NDArray[_Number], kind: pa.DataType, *, present: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """As they are in memory. `pa.array` and `pa.scalar` import pandas, which delays the first rows by a second."""
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def _repeated(text: str, count: int) -> pa.StringArray:
    encoded = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(encoded * count)])


def _headers(data: Bytes, located: Located, rows: Int64s | None, kernel: Kernel) -> pa.ListArray:
    names, values, counts = located.header_names, located.header_values, located.header_counts
    assert names is not None
    assert values is not None
    if rows is not None:
        kept = np.zeros(len(counts), np.bool_)
        kept[rows] = True
        slots = np.flatnonzero(np.repeat(kept, counts))
        names, values, counts = names.take(slots), values.take(slots), counts[rows]
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    pairs = pa.StructArray.from_arrays(
        [_text(kernel.gather(data, names)), kernel.gather(data, values)], fields=list(HEADER)
    )
    return pa.Array.from_buffers(COLUMNS["headers"], len(counts), [None, pa.py_buffer(ends)], children=[pairs])


def _text(names: pa.BinaryArray) -> pa.StringArray:
    """Header names are UTF-8 by custom only. What is not reads as it does in Java: U+FFFD in place of the bad bytes."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def refuse(opened: Opened) -> NoReturn:
    """Say what is wrong with batches in which the kernel found something."""
    for batch in opened.batches:
        header = BatchHeader(
            base_offset=int(batch["base_offset"]),
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=int(batch["attributes"]),
            last_offset_delta=0,
            base_timestamp=int(batch["base_timestamp"]),
            max_timestamp=int(batch["max_timestamp"]),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=NO_SEQUENCE,
            record_count=int(batch["record_count"]),
        )
        try:
            records = read_records(opened.data[int(batch["start"]) : int(batch["end"])].tobytes(), header)
        except (ProtocolError, CorruptBatch) as error:
            raise CorruptBatch(f"the batch at offset {header.base_offset}: {error}") from None
        for record in records:
            if record.offset not in _INT64 or record.timestamp_ms not in _INT64:
                raise CorruptBatch(
                    f"the batch at offset {header.base_offset}: a record of offset {record.offset} and timestamp "
                    f"{record.timestamp_ms}, which do not fit 64 bits"
                )
    raise AssertionError("the kernel refused what the plain decoder accepts")
