"""A topic as a dataset of Arrow's, which is what DuckDB scans: it says which columns it needs, and which rows.

So only those columns are decoded, and only partitions and offsets are fetched where rows can be that pass its filter.
A query may scan a topic more than once; each scan sees the same offsets, those that were there at the first.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.cli.tables.narrowing import columns_of, narrow
from headrace.columnar.positions import Positions
from headrace.columnar.reading import Scan
from headrace.columnar.schema import COLUMNS, schema_of
from headrace.ids import TopicName, TopicPartition
from headrace.wire.cluster import Cluster
from headrace.wire.offsets import list_offsets
from headrace.wire.settings import ClientSettings


class Fetched(NamedTuple):
    """What one scan has read."""

    partitions: int
    offsets: int
    bytes_fetched: int


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """Not made as Arrow's own are: DuckDB asks for `schema` and `scanner`, and for nothing else."""

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        *,
        start: Positions,
        end: Positions,
        partitions: Sequence[int],
    ) -> None:
        self.topic = topic
        self.scans: list[Fetched] = []
        self.failure: Exception | None = None
        self._settings = settings
        self._wanted = {topic: partitions} if partitions else topic
        self._start = start
        self._end = end

    @property
    def schema(self) -> pa.Schema:
        return schema_of(tuple(COLUMNS))

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> "_Scanner":  # noqa: A002
        return _Scanner(self, tuple(COLUMNS if columns is None else columns), filter)

    def read(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read(columns, where)
        except Exception as error:
            self.failure = error  # DuckDB tells of it in words of its own.
            raise

    @cached_property
    def _ranges(self) -> dict[int, tuple[int, int]]:
        """The offsets that are meant, of each partition: settled when they are first needed."""
        scan = Scan(self._settings, self._wanted, start=self._start, end=self._end, columns=["offset"])
        scan.close()
        return {place.partition: (first, end or first) for place, first, end in scan.ranges}

    def _read(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        ranges = self._ranges if where is None else self._narrowed(where)
        ranges = {number: (first, end) for number, (first, end) in ranges.items() if first < end}
        if not ranges:
            self.scans.append(Fetched(0, 0, 0))
            return
        more = () if where is None else [name for name in columns_of(where) if name not in columns]
        scan = Scan(
            self._settings,
            {self.topic: list(ranges)},
            start={number: first for number, (first, _) in ranges.items()},
            end={number: end for number, (_, end) in ranges.items()},
            columns=(*columns, *more),
        )
        with closing(scan):
            try:
                for batch in scan:
                    yield batch if where is None else batch.filter(where).select(list(columns))
            finally:
                offsets = sum(end - first for first, end in ranges.values())
                self.scans.append(Fetched(len(ranges), offsets, scan.bytes_fetched))

    def _narrowed(self, where: pc.Expression) -> dict[int, tuple[int, int]]:
        least = min(first for first, _ in self._ranges.values())
        most = max(end for _, end in self._ranges.values())
        found = narrow(where, partitions=list(self._ranges), first=least, end=most)
        ranges = {
            number: (max(first, found.first), min(end, found.end))
            for number, (first, end) in self._ranges.items()
            if number in found.partitions
        }
        return ranges if found.time_ms is None else self._not_before(found.time_ms, ranges)

    def _not_before(self, time_ms: int, ranges: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Brokers know the first record that is not older: all before it are, so none is missed.

        There is no such question for the last one: times need not rise along a log.
        """
        places = {TopicPartition(TopicName(self.topic), number): time_ms for number in ranges}
        with Cluster(self._settings) as cluster:
            found = list_offsets(cluster, places, read_committed=True)
        at = {place.partition: one.offset for place, one in found.items()}
        return {
            number: (end if at[number] < 0 else max(first, at[number]), end) for number, (first, end) in ranges.items()
        }


class _Scanner:
    def __init__(self, dataset: TopicDataset, columns: Sequence[str], where: pc.Expression | None) -> None:
        self._dataset = dataset
        self._columns = columns
        self._where = where

    def to_reader(self) -> pa.RecordBatchReader:
        rows = self._dataset.read(self._columns, self._where)
        return pa.RecordBatchReader.from_batches(schema_of(self._columns), rows)
