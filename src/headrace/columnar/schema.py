"""The columns that records have as Arrow, in one table.

Names and types are those of Spark's own Kafka source where it has them, so that a program finds what it knows. The
bytes of a column are copied out of the fetched ones: `binary`, never `binary_view`, which pyarrow does not sort,
filter or take.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.errors import ConfigError

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

COLUMNS: Final[dict[str, pa.DataType]] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),  # Null where the record has none.
    "timestamp_type": pa.int32(),  # 0 CreateTime, 1 LogAppendTime.
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(HEADER),  # Empty where there are none, never null.
}


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """These columns, in this order."""
    for name in columns:
        if name not in COLUMNS:
            raise ConfigError(f"there is no column {name!r}; there are {', '.join(COLUMNS)}")
    if not columns:
        raise ConfigError(f"no columns are asked for; there are {', '.join(COLUMNS)}")
    if len(set(columns)) != len(columns):
        raise ConfigError(f"a column is asked for twice: {', '.join(columns)}")
    return pa.schema([pa.field(name, COLUMNS[name]) for name in columns])
