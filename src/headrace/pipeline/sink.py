"""`format("headrace")` for writing: the rows of a frame as records, with the official connector's columns and options.

Columns: `value` (binary or string), and if present `key`, `topic`, `partition` and `headers`; others are left out. The
topic is a column or the option; the option wins. At least once: a task that is tried again writes its rows again, as
with the official one. In a stream the option `stamps` puts into each record what tells such a repeat (`stamping.py`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.columnar import Writer
from headrace.columnar.partitioning import NO_PARTITION, partition_by_key
from headrace.errors import ConfigError
from headrace.pipeline.options import SinkOptions, parse_sink_options
from headrace.pipeline.stamping import Task, with_stamps
from headrace.wire.cluster import Cluster

_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """ConfigError where records cannot be made of the frame's columns."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise ConfigError(f"the frame has no column 'value'; it has {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("where to? Set the option topic, or give the frame a column 'topic'")
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed and not (name == "topic" and options.topic is not None):
            raise ConfigError(f"column {name!r} is {types[name]}, not {' or '.join(allowed)}")


class TaskWriter:
    """The rows of one task, in an executor: a writer for each topic that they name."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._writers: dict[str, Writer] = {}
        self._counts: dict[str, int] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """All rows, each acknowledged before this returns (but with acks=0, where nobody answers)."""
        if self._options.has_stamps:
            batches = with_stamps(batches, _task())
        try:
            for batch in batches:
                for topic, rows in self._by_topic(batch):
                    self._writer(topic, rows.schema).write(self._with_partitions(topic, rows))
            for writer in self._writers.values():
                writer.flush()
            return WriterCommitMessage()  # Spark wants one; there is nothing left to do.
        finally:
            for writer in self._writers.values():
                writer.close()

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._options.topic is not None:
            yield self._options.topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise ConfigError(f"{topics.null_count} rows have no topic, and the option topic is not set")
        for topic in pc.unique(topics).to_pylist():
            yield topic, batch.filter(pc.equal(topics, topic))

    def _writer(self, topic: str, schema: pa.Schema) -> Writer:
        if topic not in self._writers:
            producer = self._options.producer
            has = set(schema.names)
            self._writers[topic] = Writer(
                self._options.client,
                topic,
                key="key" if "key" in has else None,
                value="value",
                headers="headers" if "headers" in has else None,
                timestamp=None,
                partition="partition" if "partition" in has else None,
                compression=producer.compression,
                compression_level=producer.compression_level,
                acks=producer.acks,
                idempotent=producer.is_idempotent,
                batch_bytes=producer.batch_bytes,
                memory_bytes=producer.memory_bytes,
            )
        return self._writers[topic]

    # --- Partitions ----------------------------------------------------------------------------------------------

    def _with_partitions(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows whose partition is null go where they would without the column."""
        index = rows.schema.get_field_index("partition")
        if index < 0 or not rows.column(index).null_count:
            return rows
        count = self._partition_count(topic)
        chosen = np.arange(len(rows)) * count // len(rows)  # Without a key: evenly, neighbours together.
        if "key" in rows.schema.names:
            by_key = partition_by_key(rows.column("key"), count)
            chosen = np.where(by_key == NO_PARTITION, chosen, by_key)
        filled = pc.fill_null(rows.column(index), pa.array(chosen, pa.int32()))
        return rows.set_column(index, "partition", filled)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            with Cluster(self._options.client) as cluster:
                self._counts[topic] = len(cluster.partitions(topic))
        return self._counts[topic]


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten; use mode('append')")
        self._options = parse_sink_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskWriter(self._options).write(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_sink_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskWriter(self._options).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every row is acknowledged already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was written stays, and is written again when the batch is tried again."""


def _task() -> Task:
    """Which task of which batch this is, as Spark tells those that run it. A repeat is told the same."""
    context = TaskContext.get()
    assert context is not None, "this is called in a task"
    query, batch = map(context.getLocalProperty, ("sql.streaming.queryId", "streaming.sql.batchId"))
    if query is None or batch is None:
        raise ConfigError("stamps name the batch of a stream, and this is none: leave the option out")
    return Task(query=query, batch=int(batch), partition=context.partitionId())
