"""The lake's tier: what a table holds of a topic, counted from the stamps in its column of headers.

A Delta table, of which the live files count, or a directory of Parquet files. It needs the columns topic, partition,
offset and headers, as `headrace load` writes them. Beside a Delta table, dead letters (`_dead_letters`) have arrived
as well, and the ledger (`_ledger`) says how far a load has come even where the last rows were deleted, and what was
gone before it. Needs pyarrow and, for Delta, deltalake.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.audit.columns import HEADERS, count_headers
from headrace.audit.runs import minus
from headrace.audit.seen import Counts
from headrace.audit.tally import Counted
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_DEAD_LETTERS: Final = "_dead_letters"
_LEDGER: Final = "_ledger"
_COLUMNS: Final = ("topic", "partition", "offset", "headers")

# Given a path and a topic: what its stamps say, with the extents noted beside.
CountRows = Callable[[str, str, Counted], Counts]


class NotAuditable(HeadraceError):
    """A path at which nothing lies that an audit could count."""


def count_lake(
    path: str, topic: str, *, options: Mapping[str, str] | None = None, count_rows: CountRows | None = None
) -> Counted:
    """What the table holds of the topic. `count_rows` counts its rows somewhere else than here."""
    # First, since a ledger may be behind its table and is never ahead of it: a load that goes on meanwhile must not
    # seem to have been where its rows are not.
    ledger = _read_ledger(f"{path}/{_LEDGER}", topic, options)
    table = _open_delta(path, options)
    rows = _open_directory(path) if table is None else table.to_pyarrow_dataset()
    missing = [name for name in _COLUMNS if name not in rows.schema.names]
    if missing:
        raise NotAuditable(f"{path} has no column {missing[0]!r}: an audit needs {', '.join(_COLUMNS)}")
    counted = Counted()
    counts = _count(rows, topic, counted) if count_rows is None else count_rows(path, topic, counted)
    _add_dead_letters(counts, f"{path}/{_DEAD_LETTERS}", topic, options)
    _add_ledger(ledger, counted)
    counted.spans = counts.spans
    counted.unstamped, counted.malformed = counts.unstamped, counts.malformed
    return counted


def count_batch(batch: pa.RecordBatch, counts: Counts, counted: Counted) -> None:
    """Rows of partition, offset and headers: their stamps, and up to which offsets they go."""
    if not batch.num_rows:
        return
    count_headers(counts, batch.column("headers").cast(HEADERS))
    places = pa.Table.from_batches([batch]).group_by("partition")
    for row in places.aggregate([("offset", "max")]).to_pylist():
        # From the first on: were the first rows not there, they would be missing.
        counted.extend(row["partition"], 0, row["offset_max"] + 1)


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


def _count(rows: ds.Dataset, topic: str, counted: Counted) -> Counts:
    counts = Counts()
    for batch in rows.to_batches(columns=["partition", "offset", "headers"], filter=pc.field("topic") == topic):
        count_batch(batch, counts, counted)
    return counts


def _add_dead_letters(counts: Counts, path: str, topic: str, options: Mapping[str, str] | None) -> None:
    """They arrived, if not as rows; those that became rows later are not counted again.

    They do not say how far a load has come: they are committed before its rows are.
    """
    if (table := _open_delta(path, options)) is None:
        return
    dead = _count(table.to_pyarrow_dataset(), topic, Counted())
    for span, seen in dead.spans.items():
        known = counts.span(span, host=seen.host)
        known.add_runs(minus(seen.runs, known.runs), again=seen.again)
        known.time_ms_max = max(known.time_ms_max, seen.time_ms_max)


def _read_ledger(path: str, topic: str, options: Mapping[str, str] | None) -> list[dict[str, Any]]:
    if (table := _open_delta(path, options)) is None:
        return []
    columns = ["partition", "first", "end", "missing"]
    entries: list[dict[str, Any]] = (
        table.to_pyarrow_dataset().to_table(columns=columns, filter=pc.field("topic") == topic).to_pylist()
    )
    return entries


def _add_ledger(entries: Sequence[Mapping[str, Any]], counted: Counted) -> None:
    """How far loads have come, whatever became of the rows; and where the first of them began.

    `missing` offsets from its first on were deleted before they could be read.
    """
    begins: dict[int, int] = {}
    for entry in sorted(entries, key=lambda entry: (entry["first"], -entry["missing"])):
        begins.setdefault(entry["partition"], entry["first"] + entry["missing"])
        counted.extend(entry["partition"], 0, entry["end"])
    for partition, begin in begins.items():
        counted.extents[partition] = begin, counted.extents[partition][1]
