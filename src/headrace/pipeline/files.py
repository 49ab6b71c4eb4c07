"""Rows on their way into Parquet files, each file of one hour of event time.

Files have names that nobody ever had before, so that a task that is tried again, or runs twice, cannot write over what
another wrote; what is not named by a commit is seen by nobody. Memory is bounded: where rows of too many hours are
waiting, the fullest hour becomes a file early.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from headrace.pipeline.columns import PARTITION_BY

WAITING_BYTES_MAX: Final = 128 << 20

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_US: Final = 3_600_000_000
_NO_HOUR: Final = np.iinfo(np.int64).min
_NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"  # By Hive's custom, which everybody follows.


# Names and values of the directories that a file lies in.
Values = tuple[tuple[str, str | None], ...]


class WrittenFile(NamedTuple):
    """A file as whoever wrote it tells of it. Whoever commits it looks for itself."""

    path: str
    rows: int
    size_bytes: int
    partition_values: Mapping[str, str | None]


def write_file(files: pyarrow.fs.FileSystem, rows: pa.Table, values: Mapping[str, str | None]) -> WrittenFile:
    """One file under a new name, in the directory of these partition values."""
    directory = "".join(f"{name}={_NULL_DIRECTORY if value is None else value}/" for name, value in values.items())
    path = f"{directory}{uuid.uuid4()}.zstd.parquet"
    with files.open_output_stream(path) as out:
        pq.write_table(rows, out, compression="zstd")
        size_bytes = out.tell()
    return WrittenFile(path, rows.num_rows, size_bytes, dict(values))


class RowFiles:
    """Rows in, files out: `groups` says which rows go together, and into which directory."""

    def __init__(
        self,
        files: pyarrow.fs.FileSystem,
        schema: pa.Schema,
        *,
        groups: Callable[[pa.Table], Iterator[tuple[Values, pa.Table]]],
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        self.rows = 0
        self._files = files
        self._schema = schema
        self._groups = groups
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting: dict[Values, list[pa.Table]] = {}
        self._waiting_bytes: dict[Values, int] = {}
        self._written: list[WrittenFile] = []

    def add(self, rows: pa.Table) -> None:
        assert rows.schema.equals(self._schema), rows.schema
        self.rows += rows.num_rows
        for values, part in self._groups(rows):
            self._waiting.setdefault(values, []).append(part)
            self._waiting_bytes[values] = self._waiting_bytes.get(values, 0) + part.nbytes
        while sum(self._waiting_bytes.values()) > self._waiting_bytes_max:
            self._write(max(self._waiting_bytes, key=self._waiting_bytes.__getitem__))

    def finish(self) -> list[WrittenFile]:
        """Write what is waiting; all files."""
        for values in list(self._waiting):
            self._write(values)
        return self._written

    def _write(self, values: Values) -> None:
        rows = pa.concat_tables(self._waiting.pop(values))
        del self._waiting_bytes[values]
        self._written.append(write_file(self._files, rows, dict(values)))


def all_together(rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
    """Of a table without directories."""
    if rows.num_rows:
        yield (), rows


def by_hour(rows: pa.Table) -> Iterator[tuple[Values, pa.Table]]:
    """Rows of each hour, in the order that they came in; those without a time are of an hour of their own."""
    if not rows.num_rows:
        return
    times = rows.column("timestamp").cast(pa.int64()).combine_chunks()
    hours = np.asarray(times.fill_null(0)) // _HOUR_US  # Rounded down, also before 1970.
    if times.null_count:
        hours = np.where(np.asarray(times.is_null()), _NO_HOUR, hours)
    if (hours == hours[0]).all():
        yield partition_values(int(hours[0])), rows
        return
    order = np.argsort(hours, kind="stable")
    edges = np.flatnonzero(np.diff(hours[order])) + 1
    for indices in np.split(order, edges):
        yield partition_values(int(hours[indices[0]])), rows.take(pa.array(indices))


def partition_values(hour: int) -> Values:
    """The directories of an hour since 1970, as Delta writes values: text, or null."""
    if hour == _NO_HOUR:
        return tuple((name, None) for name in PARTITION_BY)
    moment = _EPOCH + timedelta(hours=hour)
    return tuple(zip(PARTITION_BY, (moment.date().isoformat(), str(moment.hour)), strict=True))
