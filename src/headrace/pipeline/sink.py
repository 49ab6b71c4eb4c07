"""`format("headrace")` for writing: the rows of a frame as records, with the official connector's columns and options.

Columns: `value` (binary or string), and if present `key`, `topic`, `partition` and `headers`. The topic is a column or
the option; the option wins. At least once: a task that is tried again writes its rows again, as with the official one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.columnar import Writer
from headrace.errors import ConfigError
from headrace.pipeline.options import SinkOptions, parse_sink_options

_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    records: int


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """ConfigError where the frame is not what records can be made of."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise ConfigError(f"the frame has no column 'value'; it has {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("where to? Set the option topic, or give the frame a column 'topic'")
    for name, kind in types.items():
        if name not in _TYPES:
            raise ConfigError(f"column {name!r} is none of {', '.join(_TYPES)}")
        if kind not in _TYPES[name]:
            raise ConfigError(f"column {name!r} is {kind}, not {' or '.join(_TYPES[name])}")


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> TaskWritten:
    """In an executor: the rows of one task, each acknowledged before this returns."""
    writers: dict[str, Writer] = {}
    try:
        for batch in batches:
            for topic, rows in _by_topic(batch, options):
                if topic not in writers:
                    writers[topic] = _writer(topic, batch, options)
                writers[topic].write(rows)
        return TaskWritten(sum(writer.flush().records for writer in writers.values()))
    finally:
        for writer in writers.values():
            writer.close()


def _writer(topic: str, batch: pa.RecordBatch, options: SinkOptions) -> Writer:
    client = dict(options.client)
    acks = client.pop("acks", "all")
    compression = client.pop("compression.type", "none")
    idempotent = client.pop("enable.idempotence", str(acks in ("all", "-1")).lower()) == "true"
    client.pop("batch.size", None)
    return Writer(
        client.pop("bootstrap.servers"),
        topic,
        key="key" if "key" in batch.schema.names else None,
        value="value",
        headers="headers" if "headers" in batch.schema.names and options.has_headers else None,
        timestamp=None,
        partition="partition" if "partition" in batch.schema.names else None,
        compression=compression,  # type: ignore[arg-type]
        acks=acks,  # type: ignore[arg-type]
        idempotent=idempotent,
        config=client,
    )


def _by_topic(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[tuple[str, pa.RecordBatch]]:
    if options.topic is not None:
        yield options.topic, batch
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigError(f"{topics.null_count} rows have no topic, and the option topic is not set")
    for topic in pc.unique(topics).to_pylist():
        yield topic, batch.filter(pc.equal(topics, topic))


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten; use mode('append')")
        self._options = parse_sink_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_rows(iterator, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_sink_options(options)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_rows(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every row is acknowledged already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was written stays, and is written again when the batch is tried again."""
