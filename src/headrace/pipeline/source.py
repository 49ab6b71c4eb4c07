"""`format("headrace")` for reading: a Spark data source in Python, with the official connector's schema and semantics.

The driver settles offsets; each task reads one range of one partition with `headrace.columnar` and hands Spark the
Arrow batches. A streaming query's offsets are written as the official connector writes them: `{"topic": {"0": 23}}`.

Filters are not taken from Spark: in 4.3 a frame that is used twice would then be wrong.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.columnar import OffsetsGone, Scan
from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.arrow_rows import our_columns, spark_batch
from headrace.pipeline.options import SourceOptions, parse_source_options, wants_headers
from headrace.pipeline.planning import DataLoss, Offsets, Planner
from headrace.pipeline.splitting import OffsetRange, split
from headrace.pipeline.triggers import Triggers
from headrace.wire.cluster import Cluster
from headrace.wire.errors import UnknownPartition, UnknownTopic
from headrace.wire.offsets import LATEST, list_offsets
from headrace.wire.settings import ClientSettings

SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

JsonOffsets = dict[str, dict[str, int]]


def schema_of(options: Mapping[str, str]) -> StructType:
    headers = [StructField("headers", HEADERS)] if wants_headers(options) else []
    return StructType([*SCHEMA.fields, *headers])


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task reads, and all that it has to know for it."""

    range: OffsetRange
    client: ClientSettings
    columns: tuple[str, ...]
    is_read_committed: bool
    fails_on_data_loss: bool


def read_task(task: Task) -> Iterator[pa.RecordBatch]:
    """In an executor. What went away since the task was planned is a `DataLoss`, unless it may."""
    place, first, end = task.range
    try:
        for batch in _scan(task):
            yield spark_batch(batch, task.columns)
    except (OffsetsGone, UnknownTopic, UnknownPartition) as gone:
        if task.fails_on_data_loss:
            text = f"{place}: of offsets {first} to {end - 1} something is gone since this task was planned"
            raise DataLoss(f"{text}. failOnDataLoss=false reads what is there") from gone


def _scan(task: Task) -> Scan:
    try:
        return _scan_to(task, task.range.end)
    except OffsetsGone:
        if task.fails_on_data_loss:
            raise
    # A scan reads no less than it is asked for. Some of that may be there all the same.
    place, _, end = task.range
    with Cluster(task.client) as cluster:
        latest = list_offsets(cluster, {place: LATEST}, read_committed=task.is_read_committed)
    return _scan_to(task, min(end, latest[place].offset))


def _scan_to(task: Task, end: int) -> Scan:
    place, first, _ = task.range
    return Scan(
        task.client,
        {place.topic: [place.partition]},
        start=first,
        end=end,
        columns=our_columns(task.columns),
        isolation="read_committed" if task.is_read_committed else "read_uncommitted",
        missing="error" if task.fails_on_data_loss else "skip",
    )


class _Tasks:
    """What the two readers share."""

    def __init__(self, options: SourceOptions, given: Mapping[str, str], schema: StructType) -> None:
        if schema != schema_of(given):
            raise ConfigError(f"the schema is fixed: {schema_of(given).simpleString()}. Select and cast afterwards")
        self._options = options
        self._columns = tuple(schema.fieldNames())

    def _tasks(self, ranges: Sequence[OffsetRange]) -> list[Task]:
        options = self._options
        client = replace(options.client, bootstrap_answered=True)
        return [
            Task(piece, client, self._columns, options.is_read_committed, options.fails_on_data_loss)
            for piece in split(ranges, min_tasks=options.min_partitions, max_records=options.max_records_per_partition)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where a batch query has no tasks Spark makes one of its own, to read nothing.
        return read_task(partition) if isinstance(partition, Task) else iter(())


class BatchReader(_Tasks, DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(parse_source_options(options, is_streaming=False), options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        with Planner(self._options) as planner:
            return self._tasks(planner.batch_ranges())


class StreamReader(_Tasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process beside the driver, as long as the query runs."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(parse_source_options(options, is_streaming=True), options, schema)
        self._triggers = Triggers(
            least=self._options.min_offsets_per_trigger,
            most=self._options.max_offsets_per_trigger,
            delay_ms=self._options.max_trigger_delay_ms,
        )
        self._planner_: Planner | None = None
        self._start: Offsets | None = None
        self._reads_what_is_available = False
        self._latest: Offsets | None = None  # As last asked; of a query that reads what is available, as first asked.

    @property
    def _planner(self) -> Planner:
        if self._planner_ is None:
            self._planner_ = Planner(self._options)
        return self._planner_

    def __getstate__(self) -> dict[str, Any]:
        """Without its connections: tasks have their own."""
        return self.__dict__ | {"_planner_": None}

    def initialOffset(self) -> JsonOffsets:
        if self._start is None:  # Spark asks more than once, and relies on one answer.
            self._start = self._planner.stream_start()
        return to_json(self._start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the two limits, since Spark takes no more than one; `latestOffset` keeps to both."""
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if least is not None:
            return ReadMinRows(least)
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._reads_what_is_available = True

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        begun = from_json(start)
        if self._latest is None or not self._reads_what_is_available:
            self._latest = self._planner.latest_since(begun)
        waiting = self._planner.stream_waiting(begun, self._latest)
        if isinstance(limit, ReadAllAvailable):  # Spark's word for a query that is to take all, whatever it was told.
            return _ends(waiting)
        taken = self._triggers.take(waiting, now_ms=1000 * time.monotonic(), waits=not self._reads_what_is_available)
        return start if taken is None else _ends(taken)

    def reportLatestOffset(self) -> JsonOffsets | None:
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        return self._tasks(self._planner.stream_ranges(from_json(start), from_json(end)))

    def stop(self) -> None:
        if self._planner_ is not None:
            self._planner_.close()


def _ends(ranges: Sequence[OffsetRange]) -> JsonOffsets:
    return to_json({each.place: each.end for each in ranges})


def to_json(offsets: Offsets) -> JsonOffsets:
    found: JsonOffsets = {}
    for place, offset in sorted(offsets.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def from_json(offsets: JsonOffsets) -> Offsets:
    return {
        TopicPartition(TopicName(topic), int(number)): offset
        for topic, numbers in offsets.items()
        for number, offset in numbers.items()
    }
