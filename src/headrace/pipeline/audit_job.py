"""The lake's tier of the audit, counted by Spark's tasks: each counts the rows that it reads, the driver adds up.

What a task sends of each span is a bit for each sequence that it may have seen, in blocks, and not a row per message: a
task has the messages of a few partitions, and of those any.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from headrace.audit.columns import add_flags
from headrace.audit.lake_tier import CountRows, columns_to_count, count_batch
from headrace.audit.ledger import LoadedTopic
from headrace.audit.seen import Counts
from headrace.audit.stamps import SpanId
from headrace.audit.tally import Counted
from headrace.pipeline.lake import frame

# A row is of a span's block, of a partition's extent, or of messages that have no stamp; the other columns are null.
_COLUMNS: Final = {
    "producer": pa.string(),
    "incarnation": pa.int64(),
    "span": pa.int64(),
    "host": pa.string(),
    "time_ms_max": pa.int64(),
    "block": pa.int64(),
    "flags": pa.binary(),
    "again": pa.int64(),
    "partition": pa.int32(),
    "first": pa.int64(),
    "next": pa.int64(),
    "rows": pa.int64(),
    "first_row": pa.int64(),
    "first_row_ms": pa.int64(),
    "unstamped": pa.int64(),
    "malformed": pa.int64(),
}
_SPARK_NAMES: Final = {pa.string(): "string", pa.int64(): "long", pa.int32(): "int", pa.binary(): "binary"}
_SCHEMA: Final = ", ".join(f"{name} {_SPARK_NAMES[kind]}" for name, kind in _COLUMNS.items())


def count_with(spark: SparkSession, options: Mapping[str, str] | None = None) -> CountRows:
    """For `headrace.audit.auditing.audit`. `options` open the table, where it lies in an object store."""

    def count_rows(path: str, topic: str, loaded: LoadedTopic, counted: Counted) -> Counts:
        columns = columns_to_count(frame(spark, path, options=options).columns)
        rows = frame(spark, path, options=options, columns=["topic", *columns]).where(col("topic") == topic)
        counts = Counts()
        for part in rows.select(*columns).mapInArrow(partial(count_part, loaded=loaded), _SCHEMA).collect():
            _add(part.asDict(), counts, counted)
        return counts

    return count_rows


def count_part(batches: Iterable[pa.RecordBatch], *, loaded: LoadedTopic) -> Iterator[pa.RecordBatch]:
    """One task's rows, counted."""
    counts, counted = Counts(), Counted()
    for batch in batches:
        count_batch(batch, loaded, counts, counted)
    told: list[dict[str, Any]] = [
        {
            "producer": span.producer,
            "incarnation": span.incarnation,
            "span": span.number,
            "host": seen.host,
            "time_ms_max": seen.time_ms_max,
            "block": number,
            "flags": np.packbits(np.frombuffer(flags, np.uint8)).tobytes(),
            "again": again,
        }
        for span, seen in counts.spans.items()
        for number, flags, again in seen.blocks()
    ]
    for place, (first, end) in counted.extents.items():
        row, row_ms = counted.first_rows.get(place, (None, None))
        extent = {"partition": place, "first": first, "next": end, "rows": counted.rows.get(place, 0)}
        told.append({**extent, "first_row": row, "first_row_ms": row_ms})
    told.append({"unstamped": counts.unstamped, "malformed": counts.malformed})
    yield pa.RecordBatch.from_pylist(told, pa.schema(list(_COLUMNS.items())))


def _add(part: dict[str, Any], counts: Counts, counted: Counted) -> None:
    if part["producer"] is not None:
        seen = counts.span(SpanId(part["producer"], part["incarnation"], part["span"]), host=part["host"])
        seen.time_ms_max = max(seen.time_ms_max, part["time_ms_max"])
        flags = np.unpackbits(np.frombuffer(part["flags"], np.uint8))
        add_flags(seen, part["block"], flags, again=part["again"])
    elif part["partition"] is not None:
        counted.extend(part["partition"], part["first"], part["next"])
        counted.rows[part["partition"]] = counted.rows.get(part["partition"], 0) + part["rows"]
        if part["first_row"] is not None:
            counted.note_row(part["partition"], part["first_row"], part["first_row_ms"])
    else:
        counts.unstamped += part["unstamped"]
        counts.malformed += part["malformed"]
