"""Where the results of a stream go: a table that carries the number of the batch, or a topic.

A table is written by the driver, one Delta commit for each batch, and the commit carries the number of the batch. A
batch that is repeated after a crash finds its number there and is not written again. So a batch's result must fit into
the driver's memory: windows do, raw events belong to `headrace load`.

A table belongs to the stream that made it, which is to say to its checkpoint: one that began anew would count its
batches from nought again, and is refused.

A topic is written by the tasks, at least once: what tells a repeat is a stamp in each record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.errors import ConfigError, HeadraceError

EVERY: Final = "1 second"
_TRIES_MAX: Final = 5
_ONCE: Final = "once"
# The number of the last batch, as a transaction of the table; whose batches they are, as a property of it.
_BATCHES: Final = "headrace-stream"
_OWNER: Final = "headrace.checkpoint"

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Mode = Literal["append", "update"]
Transform = Callable[[DataFrame], DataFrame]


class LandingError(HeadraceError):
    """A stream's results do not fit the table, or the table belongs to somebody else."""


def to_table(
    results: DataFrame,
    path: str | Path,
    *,
    name: str,
    checkpoint: str | Path,
    keys: Sequence[str] = (),
    transform: Transform | None = None,
    every: str = EVERY,
) -> StreamingQuery:
    """Start writing a stream's results to a Delta table, which is made if there is none.

    Without `keys` rows are appended: windows come when they are complete. With `keys` rows replace those of the same
    keys: windows come at once, and are put right as events come in. Sessions, and events that nothing followed, come
    when they are complete either way, as Spark has them in no other. `transform` makes of each batch what is
    written; what it reads, it reads anew each time. `every` is how often, or "once" for what is there now.
    """
    table = _Table(str(path), name=name, keys=tuple(keys), transform=transform)
    writer = results.writeStream.queryName(name).option("checkpointLocation", str(checkpoint)).foreachBatch(table.land)
    modes: tuple[Mode, ...] = ("update", "append") if keys else ("append",)
    return _start(writer, modes, every=every, advice="with keys, rows may be put right later" if not keys else "")


def to_topic(
    records: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    name: str,
    checkpoint: str | Path,
    mode: Mode = "append",
    every: str = EVERY,
    options: Mapping[str, str] = _NONE,
) -> StreamingQuery:
    """Start writing a stream's columns key, value, headers and partition, as far as there are, to a topic.

    At least once, and every record carries a stamp (`headrace.pipeline.stamping`) by which
    `streams.without_resends` knows a repeat. `options` are others of the sink: `kafka.*` for the client.
    """
    told = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "stamps": "true", **options}
    writer = records.writeStream.queryName(name).option("checkpointLocation", str(checkpoint))
    if mode == "append":
        writer = writer.format("headrace").options(**told)
    else:  # Which Spark does not let a sink in Python have. Its tasks are the same, and have the same stamps.
        writer = writer.foreachBatch(
            lambda batch, number: batch.write.format("headrace").options(**told).mode("append").save()
        )
    other = "update" if mode == "append" else "append"
    return _start(writer, (mode,), every=every, advice=f"try mode={other!r}")


def _start(writer: DataStreamWriter, modes: Sequence[Mode], *, every: str, advice: str) -> StreamingQuery:
    """In the first of the modes that Spark has for such a plan. It says so before anything is begun."""
    writer = writer.trigger(availableNow=True) if every == _ONCE else writer.trigger(processingTime=every)
    refusals: list[AnalysisException] = []
    for mode in modes:
        try:
            return writer.outputMode(mode).start()
        except AnalysisException as error:
            refusals.append(error)
    told = str(refusals[0]).partition("\n")[0]
    raise ConfigError(f"{told} ({advice})" if advice else told) from refusals[0]


def landed(path: str | Path) -> int | None:
    """The number of the last batch that is in a table."""
    return DeltaTable(str(path)).transaction_version(_BATCHES)


@dataclass(frozen=True, slots=True)
class _Table:
    path: str
    name: str
    keys: tuple[str, ...]
    transform: Transform | None

    def land(self, batch: DataFrame, number: int) -> None:
        """Called by Spark for each batch in order, and again for one that it does not know to be done."""
        stream_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert stream_id is not None, "this is called by a stream"
        table = self._open(stream_id)
        if table is not None and _last(table) >= number:
            # Windows and joins have their state in Spark's keeping, and it fails a batch that nobody made it compute.
            batch.write.format("noop").mode("overwrite").save()
            return
        rows = (self.transform(batch) if self.transform else batch).toArrow()
        if table is None:
            table = self._create(rows.schema, stream_id)
        self._check(rows.schema, pa.schema(table.schema().to_arrow()))
        for _ in range(_TRIES_MAX):
            try:
                self._commit(table, rows, number)
                return
            except CommitFailedError:
                # Somebody tidied up meanwhile. A twin of this stream would show by its number.
                table.update_incremental()
                if _last(table) >= number:
                    raise LandingError(f"{self.path}: batch {number} of {self.name!r} was written by another") from None
        raise LandingError(f"{self.path}: batch {number} lost against others {_TRIES_MAX} times")

    def _open(self, stream_id: str) -> DeltaTable | None:
        try:
            table = DeltaTable(self.path)
        except TableNotFoundError:
            return None
        owner = table.metadata().configuration.get(_OWNER)
        if owner is None:
            raise LandingError(f"{self.path} was not made by a stream: choose another place for {self.name!r}")
        if owner != stream_id:
            raise LandingError(
                f"{self.path} holds the results of another checkpoint ({owner}): go on with it, or choose another place"
            )
        return table

    def _create(self, schema: pa.Schema, stream_id: str) -> DeltaTable:
        missing = [key for key in self.keys if key not in schema.names]
        if missing:
            raise ConfigError(f"no column {', '.join(missing)} to tell rows apart; there are {', '.join(schema.names)}")
        configuration = {_OWNER: stream_id, "headrace.stream": self.name}
        return DeltaTable.create(
            self.path, schema, mode="error", configuration=configuration, raise_if_key_not_exists=False
        )

    def _check(self, ours: pa.Schema, theirs: pa.Schema) -> None:
        """Delta would cast without a word."""
        told = {one.name: str(one.type) for one in ours}
        wanted = {one.name: str(one.type) for one in theirs}
        if told != wanted:
            raise LandingError(f"{self.path}: the columns of {self.name!r} are {told}, the table's {wanted}")

    def _commit(self, table: DeltaTable, rows: pa.Table, number: int) -> None:
        properties = CommitProperties(
            custom_metadata={"headrace.stream": self.name, "headrace.batch": str(number)},
            max_commit_retries=0,
            app_transactions=[Transaction(_BATCHES, number)],
        )
        if not self.keys:
            write_deltalake(table, rows, mode="append", commit_properties=properties)
            return
        # SQL's equality knows no nulls, and here a null is a key like any other.
        same = " AND ".join(
            f"(s.`{key}` = t.`{key}` OR (s.`{key}` IS NULL AND t.`{key}` IS NULL))" for key in self.keys
        )
        merge = table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=properties)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _last(table: DeltaTable) -> int:
    found = table.transaction_version(_BATCHES)
    return -1 if found is None else found
