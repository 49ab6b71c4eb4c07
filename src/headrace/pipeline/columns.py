"""The columns of the tables that a load writes, in one place.

`event_date` and `event_hour` are those of the record's timestamp, in UTC. They are the directories that files lie in
and no columns of the files, as Delta has it; both are null where a record has no timestamp.
"""

from typing import Final

import pyarrow as pa

from headrace.columnar.schema import HEADER

PARTITION_BY: Final = ("event_date", "event_hour")
EVENT: Final = pa.schema([pa.field("event_date", pa.date32()), pa.field("event_hour", pa.int32())])

# What every row tells of the record that it was made of.
SOURCE: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),  # Delta knows no milliseconds.
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("headers", pa.list_(HEADER)),
        pa.field("cluster_id", pa.string()),
        pa.field("topic_id", pa.string()),
    ]
)
RAW: Final = SOURCE.insert(SOURCE.get_field_index("headers"), pa.field("value", pa.binary()))

# What did not become a row, with its reason. The timestamp is a plain number: it may be what is wrong.
DEAD_LETTERS: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER)),
        pa.field("cluster_id", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("reason", pa.string()),
    ]
)

LEDGER: Final = pa.schema(
    [
        pa.field("version", pa.int64()),  # Of the table, made by this commit.
        pa.field("load_id", pa.string()),
        pa.field("kind", pa.string()),  # load, replay or retry.
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("cluster_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("dead_letters", pa.int64()),
        pa.field("missing", pa.int64()),  # Offsets from the first on that were deleted before they could be read.
    ]
)


def table_schema(rows: pa.Schema) -> pa.Schema:
    """The columns of a table whose files have these."""
    return pa.schema([*rows, *EVENT])
