"""`format("headrace")` for reading: a Spark data source in Python, with the official connector's schema and semantics.

The driver settles offsets; each task reads one range of one partition with `headrace.columnar` and hands Spark the
Arrow batches. A streaming query's offsets are written as the official connector writes them: `{"topic": {"0": 23}}`.

Filters are not taken from Spark: in 4.3 a frame that is used twice would then be wrong.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
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

from headrace.columnar import Scan
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.options import LATEST, SourceOptions, parse_source_options
from headrace.pipeline.planning import DataLoss, Offsets, Planner, client_config, is_read_committed
from headrace.pipeline.splitting import OffsetRange, limit, split
from headrace.wire.settings import client_settings

HEADERS: Final = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
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
_OURS: Final = {"timestampType": "timestamp_type"}  # Where our name for a column is another.
_TIMESTAMP: Final = pa.timestamp("us", "UTC")

JsonOffsets = dict[str, dict[str, int]]


def schema_of(options: Mapping[str, str]) -> StructType:
    has_headers = str(options.get("includeHeaders", "false")).strip().lower() == "true"
    return StructType([*SCHEMA.fields, HEADERS]) if has_headers else SCHEMA


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task reads, and all that it has to know for it."""

    range: OffsetRange
    client: Mapping[str, str]
    columns: tuple[str, ...]
    fails_on_data_loss: bool


def read_task(task: Task) -> Iterator[pa.RecordBatch]:
    """In an executor."""
    place, first, end = task.range
    scan = Scan(
        client_settings(config=client_config(task.client)),
        {place.topic: [place.partition]},
        start=first,
        end=end,
        columns=[_OURS.get(name, name) for name in task.columns],
        isolation="read_committed" if is_read_committed(task.client) else "read_uncommitted",
        missing="error" if task.fails_on_data_loss else "skip",
    )
    for batch in scan:
        arrays = [
            array.cast(_TIMESTAMP) if name == "timestamp" else array
            for name, array in zip(task.columns, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(task.columns))


class _Tasks:
    """What the two readers share."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = tuple(schema.fieldNames())

    def _tasks(self, ranges: Sequence[OffsetRange]) -> list[Task]:
        options = self._options
        pieces = split(ranges, min_tasks=options.min_partitions, max_records=options.max_records_per_partition)
        return [Task(piece, options.client, self._columns, options.fails_on_data_loss) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        return read_task(partition)


class BatchReader(_Tasks, DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(parse_source_options(options, is_streaming=False), schema)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with Planner(options) as planner:
            places = planner.partitions()
            start = planner.check_start(planner.resolve(options.start, places, is_start=True), planner.earliest(places))
            end = planner.resolve(options.end, places, is_start=False)
        return self._tasks([OffsetRange(place, start[place], end[place]) for place in places])


class StreamReader(_Tasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(parse_source_options(options, is_streaming=True), schema)
        self._planner_: Planner | None = None
        self._ceiling: Offsets | None = None  # Of a query that ends with what was there when it began.
        self._latest: Offsets = {}
        self._waiting_since_s: float | None = None

    @property
    def _planner(self) -> Planner:
        if self._planner_ is None:
            self._planner_ = Planner(self._options)
        return self._planner_

    def __getstate__(self) -> dict[str, Any]:
        """Without its connections: tasks have their own."""
        return self.__dict__ | {"_planner_": None}

    def initialOffset(self) -> JsonOffsets:
        places = self._planner.partitions()
        start = self._planner.resolve(self._options.start, places, is_start=True)
        if self._options.start != LATEST:
            start = self._planner.check_start(start, self._planner.earliest(places))
        return to_json(start)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._ceiling = self._planner.latest(self._planner.partitions())

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        begun = self._with_new_partitions(from_json(start))
        latest = self._ceiling if self._ceiling is not None else self._planner.latest(begun)
        self._latest = latest
        # A partition is never read backwards, whatever a leader says that has yet to catch up.
        ranges = [OffsetRange(place, first, max(first, latest.get(place, first))) for place, first in begun.items()]
        if not isinstance(limit, ReadAllAvailable):
            ranges = self._limited(ranges)
        return to_json({each.place: each.end for each in ranges})

    def _limited(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        options = self._options
        waiting = sum(each.size for each in ranges)
        if options.min_offsets_per_trigger is not None and waiting < options.min_offsets_per_trigger:
            now_s = time.monotonic()
            self._waiting_since_s = self._waiting_since_s or now_s
            if 1000 * (now_s - self._waiting_since_s) < options.max_trigger_delay_ms:
                return [each._replace(end=each.first) for each in ranges]
        self._waiting_since_s = None
        return limit(ranges, options.max_offsets_per_trigger)

    def reportLatestOffset(self) -> JsonOffsets | None:
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        begun, until = from_json(start), from_json(end)
        added = [place for place in until if place not in begun]
        if added:
            begun |= self._planner.earliest(added)
        begun = self._planner.check_start({place: begun[place] for place in until}, self._planner.earliest(until))
        return self._tasks([OffsetRange(place, begun[place], max(begun[place], until[place])) for place in until])

    def stop(self) -> None:
        if self._planner_ is not None:
            self._planner_.close()

    def _with_new_partitions(self, start: Offsets) -> Offsets:
        """Partitions that came since are read from their beginning."""
        places = self._planner.partitions()
        gone = [place for place in start if place not in places]
        if gone and self._options.fails_on_data_loss:
            raise DataLoss(f"{gone[0]} is not there any more. failOnDataLoss=false goes on without it")
        added = [place for place in places if place not in start]
        begun = {place: start[place] for place in places if place in start}
        return begun | (self._planner.earliest(added) if added else {})


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
