"""Records of which every byte follows from one number, so that millions are judged exactly and at once.

A topic or a table of them is *held* as the number at each offset of each partition: eight bytes for a record of two
hundred. Reading one checks every row against its number: key, value, time and partition. What is held of a partition
has no gap and nothing twice, or it is not held at all. Two that are held alike are the same multiset of records.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace import columnar

VALUE_BYTES: Final = 200
PARTITIONS: Final = 4
PAGES: Final = 20
BEGIN_MS: Final = 1_763_208_000_000  # An hour begins.
STEP_MS: Final = 3  # Between the times of two numbers, so that a million are of most of an hour.

Numbers = npt.NDArray[np.int64]
Held = Mapping[int, Numbers]

_NEIGHBOURS: Final = 64  # So many numbers in a row are of one partition.
_LANES: Final = VALUE_BYTES // 8
_CHANCE: Final = np.random.default_rng(200)
# A value is as many words of eight bytes: the number itself, then others that no two numbers have in common.
_FACTORS: Final = np.r_[np.uint64(1), _CHANCE.integers(0, 2**64, _LANES - 1, np.uint64) | np.uint64(1)]
_TERMS: Final = np.r_[np.uint64(0), _CHANCE.integers(0, 2**64, _LANES - 1, np.uint64)]
_KEYS: Final = pa.array([b"page-%02d" % page for page in range(PAGES)], pa.binary())
_COLUMNS: Final = ["partition", "offset", "timestamp", "key", "value"]
_CHUNK_ROWS: Final = 200_000


class Broken(Exception):
    """A promise that does not hold."""


# --- Making them --------------------------------------------------------------------------------------------------


def times_ms(numbers: Numbers) -> Numbers:
    return BEGIN_MS + numbers * STEP_MS


def pages(numbers: Numbers) -> Numbers:
    """By number, and as many of each."""
    return numbers % PAGES


def made_of(numbers: Numbers) -> pa.Table:
    values = pa.Array.from_buffers(pa.binary(VALUE_BYTES), len(numbers), [None, pa.py_buffer(_words(numbers))])
    return pa.table(
        {
            "partition": pa.array(_partitions(numbers), pa.int32()),
            "timestamp": pa.array(times_ms(numbers)).view(pa.timestamp("ms", "UTC")),
            "key": _KEYS.take(pa.array(pages(numbers))),
            "value": values.cast(pa.binary()),
        }
    )


def write(bootstrap: str, topic: str, numbers: range) -> None:
    """All of them acknowledged, and each once."""
    with columnar.Writer(bootstrap, topic, partition="partition") as writer:
        for first in range(numbers.start, numbers.stop, _CHUNK_ROWS):
            for batch in made_of(np.arange(first, min(first + _CHUNK_ROWS, numbers.stop))).to_batches():
                writer.write(batch)
        writer.flush()


def _partitions(numbers: Numbers) -> Numbers:
    return numbers // _NEIGHBOURS % PARTITIONS


def _words(numbers: Numbers) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = numbers.astype(np.uint64)[:, None] * _FACTORS + _TERMS
    return words


# --- Judging them -------------------------------------------------------------------------------------------------


def numbers_of(rows: pa.Table) -> Numbers:
    """What rows were made of, in their order; `Broken` where one is anything else than what its number makes."""
    if not rows.num_rows:
        return np.empty(0, np.int64)
    keys, values = (rows[name].cast(pa.binary()) for name in ("key", "value"))  # Delta's own files have views.
    if values.null_count or not pc.all(pc.equal(pc.binary_length(values), VALUE_BYTES)).as_py():
        raise Broken("a value has another length")
    fixed = values.cast(pa.binary(VALUE_BYTES)).combine_chunks()
    found = np.frombuffer(fixed.buffers()[1], np.uint64, len(fixed) * _LANES, fixed.offset * VALUE_BYTES)
    words = found.reshape(-1, _LANES)
    numbers = words[:, 0].astype(np.int64)
    times_us = rows["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    same = {
        "value": (words == _words(numbers)).all(axis=1),
        "timestamp": np.asarray(times_us) == times_ms(numbers) * 1000,
        "partition": np.asarray(rows["partition"]) == _partitions(numbers),
        "key": np.asarray(pc.equal(keys, _KEYS.take(pa.array(pages(numbers)))).fill_null(False)),
    }
    for column, are_same in same.items():
        if not are_same.all():
            wrong = int(np.argmin(are_same))
            raise Broken(f"{column} is not that of number {numbers[wrong]}: {rows.slice(wrong, 1).to_pylist()}")
    return numbers


def hold(rows: Iterable[tuple[Numbers, Numbers, Numbers]]) -> dict[int, Numbers]:
    """By partition, of partitions, offsets and numbers; `Broken` where offsets from 0 on are not there once each."""
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    if not columns:
        return {}
    partitions, offsets, numbers = columns
    held = {}
    for partition in np.unique(partitions).tolist():
        mine = partitions == partition
        held[partition] = _in_order(partition, offsets[mine], numbers[mine])
    return held


def _in_order(partition: int, offsets: Numbers, numbers: Numbers) -> Numbers:
    counts = np.bincount(offsets, minlength=len(offsets))
    if not (counts == 1).all():
        wrong = int(np.argmax(counts != 1))
        raise Broken(f"offset {wrong} of partition {partition} is there {counts[wrong]} times")
    ordered = np.empty_like(numbers)
    ordered[offsets] = numbers
    return ordered


def hold_topic(bootstrap: str, topic: str) -> dict[int, Numbers]:
    return TopicReader(bootstrap, topic).hold()


def _table_of(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _columns(rows: pa.Table) -> tuple[Numbers, Numbers, Numbers]:
    return np.asarray(rows["partition"]).astype(np.int64), np.asarray(rows["offset"]), numbers_of(rows)


class TopicReader:
    """A topic looked at again and again: only what came since is read."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._rows: list[tuple[Numbers, Numbers, Numbers]] = []
        self._ends: dict[int, int] = {}

    def hold(self) -> dict[int, Numbers]:
        start = self._ends or "earliest"
        for batch in columnar.read(self._bootstrap, self._topic, start=start, columns=_COLUMNS):
            self._rows.append(_columns(_table_of(batch)))
        held = hold(self._rows)
        self._ends = {partition: len(numbers) for partition, numbers in held.items()}
        return held


class TableReader:
    """A table looked at again and again: what was seen once has to stay. Files are immutable, and read once."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._files: dict[str, tuple[Numbers, Numbers, Numbers]] = {}
        self._held: dict[int, Numbers] = {}

    def hold(self) -> dict[int, Numbers]:
        if not DeltaTable.is_deltatable(str(self._lake)):
            return {}
        alive = DeltaTable(self._lake).file_uris()
        self._files = {
            path: self._files[path] if path in self._files else _columns(pq.read_table(path, columns=_COLUMNS))
            for path in alive
        }
        held = hold(self._files.values())
        for partition, before in self._held.items():
            if not np.array_equal(held.get(partition, before[:0])[: len(before)], before):
                raise Broken(f"of partition {partition} something is gone that was in the table")
        self._held = held
        return held


def rows_held(held: Held) -> int:
    return sum(map(len, held.values()))


def check_same(table: Held, topic: Held) -> None:
    for partition in sorted({*table, *topic}):
        ours, theirs = table.get(partition, np.empty(0)), topic.get(partition, np.empty(0))
        if len(ours) != len(theirs):
            raise Broken(f"partition {partition} has {len(theirs)} records, and the table {len(ours)} of them")
        if not np.array_equal(ours, theirs):
            raise Broken(f"partition {partition} differs at offset {int(np.argmax(ours != theirs))}")


def check_sent(topic: Held, sent: int, *, and_last: int | None = None) -> None:
    """That a topic holds the numbers from 0 on that were acknowledged, each once, and perhaps a last one."""
    wanted = np.arange(sent) if and_last is None else np.r_[np.arange(sent), and_last]
    found = np.sort(_all_numbers(topic))
    if not np.array_equal(found, wanted):
        raise Broken(f"{len(wanted)} records were acknowledged, and the topic holds {len(found)}, or others")


def _all_numbers(topic: Held) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *topic.values()])
