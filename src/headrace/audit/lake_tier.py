"""The lake's tier: what a table holds of a topic, counted from the stamps in its column of headers.

A Delta table, of which the live files count, or a directory of Parquet files. It needs the columns topic, partition,
offset and headers, as `headrace load` writes them. Beside a Delta table, dead letters (`_dead_letters`) have arrived
as well, and the ledger (`_ledger`) says how far a load has come even where the last rows were deleted, what was gone
before it, and how many rows were loaded that somebody has deleted since.

Stamps are counted of every life of a topic, since what was sent to an earlier one has arrived as well. How far the lake
is in the log is told by this life alone. Needs pyarrow and, for Delta, deltalake.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.audit.columns import HEADERS, count_headers
from headrace.audit.ledger import COUNTED, LIFE, REQUIRED, TIMED, Life, LoadedTopic, read_entries
from headrace.audit.once import Once
from headrace.audit.runs import minus
from headrace.audit.seen import Counts
from headrace.audit.tally import Counted
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_DEAD_LETTERS: Final = "_dead_letters"
_LEDGER: Final = "_ledger"
_COLUMNS: Final = ("topic", "partition", "offset", "headers")
_TIME: Final = "timestamp"

# Given a path, a topic and what loads have told of it: what its stamps say, with extents and rows noted beside.
CountRows = Callable[[str, str, LoadedTopic, Counted], Counts]


class NotAuditable(HeadraceError):
    """A path at which nothing lies that an audit could count."""


def count_lake(
    path: str,
    topic: str,
    *,
    life: Life | None = None,
    options: Mapping[str, str] | None = None,
    count_rows: CountRows | None = None,
) -> Counted:
    """What the table holds of the topic. `count_rows` counts its rows somewhere else than here."""
    # First, since a ledger may be behind its table and is never ahead of it: a load that goes on meanwhile must not
    # seem to have been where its rows are not.
    loaded = _read_ledger(f"{path}/{_LEDGER}", topic, life, options)
    table = _open_delta(path, options)
    rows = _open_directory(path) if table is None else table.to_pyarrow_dataset()
    missing = [name for name in _COLUMNS if name not in rows.schema.names]
    if missing:
        raise NotAuditable(f"{path} has no column {missing[0]!r}: an audit needs {', '.join(_COLUMNS)}")
    counted = Counted()
    if count_rows is None:
        counts = _count(rows, topic, loaded, counted)
    else:
        counts = count_rows(path, topic, loaded, counted)
    _add_dead_letters(counts, f"{path}/{_DEAD_LETTERS}", topic, options)
    _add_ledger(loaded, counted)
    counted.spans = counts.spans
    counted.unstamped, counted.malformed = counts.unstamped, counts.malformed
    return counted


def columns_to_count(names: Sequence[str]) -> list[str]:
    """Of a table that has these columns, what `count_batch` wants."""
    return ["partition", "offset", "headers", *(name for name in (*LIFE, _TIME) if name in names)]


def count_batch(batch: pa.RecordBatch, loaded: LoadedTopic, counts: Counts, counted: Counted) -> None:
    """Rows of some `columns_to_count`: their stamps; of this life how far they go, and how many the ledger knows of."""
    if not batch.num_rows:
        return
    count_headers(counts, batch.column("headers").cast(HEADERS))
    places = pa.Table.from_batches([batch]).drop_columns(["headers"])
    for name, own in zip(LIFE, loaded.life or (), strict=False):
        if name in places.column_names:
            places = places.filter(pc.field(name) == own)
    if not places.num_rows:
        return
    for row in places.group_by("partition").aggregate([("offset", "max")]).to_pylist():
        # From the first on: were the first rows not there, they would be missing.
        counted.extend(row["partition"], 0, row["offset_max"] + 1)
    _note_first_rows(places, loaded, counted)
    partitions = places["partition"].to_numpy()
    ends = np.zeros(1 + max(int(partitions.max()), *loaded.ends, 0), np.int64)
    ends[list(loaded.ends)] = list(loaded.ends.values())
    for partition, count in enumerate(np.bincount(partitions[places["offset"].to_numpy() < ends[partitions]])):
        if count:
            counted.rows[partition] = counted.rows.get(partition, 0) + int(count)


def _note_first_rows(places: pa.Table, loaded: LoadedTopic, counted: Counted) -> None:
    """The first row of each partition of which loads did not have the first offsets."""
    begun_late = [partition for partition, first in loaded.begins.items() if first]
    if not begun_late or _TIME not in places.column_names or not pa.types.is_timestamp(places[_TIME].type):
        return
    rows = places.filter(pc.is_in(places["partition"], pa.array(begun_late, places["partition"].type)))
    rows = rows.filter(pc.is_valid(rows[_TIME]))
    times_ms = rows[_TIME].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    rows = rows.select(["partition", "offset"]).append_column("time_ms", times_ms).sort_by("offset")
    firsts = rows.group_by("partition", use_threads=False).aggregate([("offset", "first"), ("time_ms", "first")])
    for row in firsts.to_pylist():
        counted.note_row(row["partition"], row["offset_first"], row["time_ms_first"])


def _open_delta(path: str, options: Mapping[str, str] | None) -> "DeltaTable | None":
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if "://" not in path and not (Path(path) / "_delta_log").is_dir():
        return None  # Delta would make the directory.
    try:
        return DeltaTable(path, storage_options=dict(options or {}))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise NotAuditable(f"{path}: {str(error).splitlines()[0]}") from error  # Behind it is a stack of Rust's.


def _open_directory(path: str) -> ds.Dataset:
    if not Path(path).is_dir() or not any(Path(path).rglob("*.parquet")):
        raise NotAuditable(f"{path} is neither a Delta table nor a directory of Parquet files")
    return ds.dataset(path, format="parquet", partitioning="hive")


def _count(rows: ds.Dataset, topic: str, loaded: LoadedTopic, counted: Counted) -> Counts:
    counts = Counts()
    columns = columns_to_count(rows.schema.names)
    for batch in rows.to_batches(columns=columns, filter=pc.field("topic") == topic):
        count_batch(batch, loaded, counts, counted)
    return counts


def _add_dead_letters(counts: Counts, path: str, topic: str, options: Mapping[str, str] | None) -> None:
    """They arrived, if not as rows; those that became rows later are not counted again.

    Nor is one that is there twice, as it may be until a load settles what another one left: a message that was sent
    twice is at two offsets. They do not say how far a load has come: they are committed before its rows are.
    """
    if (table := _open_delta(path, options)) is None:
        return
    rows = table.to_pyarrow_dataset()
    places = [*(name for name in LIFE if name in rows.schema.names), "partition", "offset"]
    dead, once = Counts(), Once()
    for batch in rows.to_batches(columns=[*places, "headers"], filter=pc.field("topic") == topic):
        letters = pa.Table.from_batches([batch])
        for headers in letters["headers"].filter(once.keep(letters.select(places))).chunks:
            count_headers(dead, headers.cast(HEADERS))
    for span, seen in dead.spans.items():
        known = counts.span(span, host=seen.host)
        known.add_runs(minus(seen.runs, known.runs), again=seen.again)
        known.time_ms_max = max(known.time_ms_max, seen.time_ms_max)


def _read_ledger(path: str, topic: str, life: Life | None, options: Mapping[str, str] | None) -> LoadedTopic:
    if (table := _open_delta(path, options)) is None:
        return LoadedTopic(life)
    rows = table.to_pyarrow_dataset()
    columns = [*REQUIRED, *(name for name in (*LIFE, *COUNTED, *TIMED) if name in rows.schema.names)]
    return read_entries(rows.to_table(columns=columns, filter=pc.field("topic") == topic).to_pylist(), life)


def _add_ledger(loaded: LoadedTopic, counted: Counted) -> None:
    """How far loads have come, whatever became of the rows; and where and when the first of them began.

    What a load did not have any more is older than the first row, and than the load itself, whatever became of rows.
    """
    for partition, end in loaded.ends.items():
        counted.extend(partition, 0, end)
        counted.extents[partition] = loaded.begins[partition], counted.extents[partition][1]
        _, row_ms = counted.first_rows.get(partition, (0, None))
        if not loaded.begins[partition]:
            continue
        known_ms = [each for each in (row_ms, loaded.begun_ms.get(partition)) if each is not None]
        if known_ms:
            counted.began_ms[partition] = min(known_ms)
    counted.gone = loaded.gone(counted.rows)
