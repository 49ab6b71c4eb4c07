"""Records as Arrow in exactly the shape that Spark's schema asks for: names, time unit, zone, what may be null.

Spark compares the schema of what it is given and takes nothing that is only nearly right. Where the official connector
says a thing differently from `headrace.columnar` it is said its way here: a record without headers has null for them,
and one without a timestamp is of one millisecond before 1970.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TIMESTAMP: Final = pa.timestamp("us", "UTC")
_NO_TIMESTAMP_US: Final = -1000

# By Spark's names.
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
_OURS: Final = {"timestampType": "timestamp_type"}  # Where our name for a column is another.


def our_columns(names: Sequence[str]) -> list[str]:
    """What `headrace.columnar` calls these columns."""
    return [_OURS.get(name, name) for name in names]


def spark_batch(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """A batch of `our_columns(names)` as Spark takes it."""
    schema = pa.schema([pa.field(name, TYPES[name]) for name in names])
    columns = [_converted(name, column) for name, column in zip(names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _converted(name: str, column: pa.Array) -> pa.Array:
    if name == "timestamp":
        moments = column.cast(_TIMESTAMP)
        # Made only where it is needed: with the first scalar Arrow loads pandas, in every process of Spark's.
        return pc.fill_null(moments, pa.scalar(_NO_TIMESTAMP_US, _TIMESTAMP)) if moments.null_count else moments
    return _null_for_none(column) if name == "headers" else column


def _null_for_none(headers: pa.ListArray) -> pa.ListArray:
    """Null where a record has no headers."""
    offsets = headers.offsets.to_numpy()  # Arrow takes no mask beside offsets that are a slice of others.
    has_none = pa.array(np.diff(offsets) == 0)
    return pa.ListArray.from_arrays(pa.array(offsets), headers.values, type=TYPES["headers"], mask=has_none)
