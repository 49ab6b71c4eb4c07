"""Numbered records counted by window and page, and what tables of such counts have to be while a stream fills them.

A stream of `counting_stream.py` fills two. RUNNING has every window at once, put right as records come: with each batch
it is exactly what the topic holds up to the offsets that Spark wrote down for that batch. CLOSED has a window once it
is complete: all windows up to some moment, each as the topic has it, and no other. The number of a batch is in one
commit of a table, and they follow each other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from tests.proofs.numbered import BEGIN_MS, PAGES, STEP_MS, Broken, Held, Numbers, pages, times_ms

RUNNING: Final = "running"
CLOSED: Final = "closed"

WIDTH_S: Final = 10
LATE_S: Final = 60
# So many numbers behind a last one, no window of those before it is open any more.
CLOSING_NUMBERS: Final = 1000 * (2 * WIDTH_S + LATE_S) // STEP_MS

_WIDTH_US: Final = WIDTH_S * 1_000_000
_PAGES: Final = {f"page-{page:02d}": page for page in range(PAGES)}
_EDGES: Final = ("window_start", "window_end")
_BATCH: Final = "headrace.batch"

# By window, counted from the first, and page.
Counts = Mapping[tuple[int, int], int]


def count(numbers: Numbers) -> Counts:
    windows = (times_ms(numbers) - BEGIN_MS) // (1000 * WIDTH_S)
    found, counts = np.unique(windows * PAGES + pages(numbers), return_counts=True)
    return {divmod(place, PAGES): many for place, many in zip(found.tolist(), counts.tolist(), strict=True)}


def count_topic(topic: Held, ends: Mapping[int, int] | None = None) -> Counts:
    """What a topic holds, or what it holds up to these offsets."""
    for partition, end in (ends or {}).items():
        if end > len(topic.get(partition, ())):
            raise Broken(f"offset {end - 1} of partition {partition} was counted, and is not in the topic")
    kept = [numbers if ends is None else numbers[: ends.get(partition, 0)] for partition, numbers in topic.items()]
    return count(np.concatenate([np.empty(0, np.int64), *kept]))


def counts_in(rows: pa.Table) -> Counts:
    """What a table holds; `Broken` where a row is no window of a page, or is there twice."""
    starts, ends = (rows[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()) for name in _EDGES)
    counts: dict[tuple[int, int], int] = {}
    columns = (starts.to_pylist(), ends.to_pylist(), rows["page"].to_pylist(), rows["count"].to_pylist())
    for start_us, end_us, page, many in zip(*columns, strict=True):
        window, beside_us = divmod(start_us - 1000 * BEGIN_MS, _WIDTH_US)
        if beside_us or end_us - start_us != _WIDTH_US or page not in _PAGES:
            raise Broken(f"{page!r} from {start_us} to {end_us} us is no window of a page")
        place = (window, _PAGES[page])
        if place in counts:
            raise Broken(f"window {window} of {page} is in the table twice")
        counts[place] = many
    return counts


def check_running(table: Counts, topic: Counts) -> None:
    """`topic` up to the offsets of the batch that is in the table."""
    for place in sorted({*table, *topic}):
        if table.get(place) != topic.get(place):
            raise Broken(f"{_named(place)} has {topic.get(place, 0)} records, and the table {table.get(place)}")


def check_closed(table: Counts, topic: Counts) -> None:
    """Every window up to the last that is there, whole."""
    last = max((window for window, _ in table), default=-1)
    check_running(table, {place: many for place, many in topic.items() if place[0] <= last})


def check_batches(numbers: Sequence[int]) -> None:
    """Those of the commits, in order."""
    if list(numbers) != list(range(len(numbers))):
        raise Broken(f"batches do not follow each other: {list(numbers)}")


def _named(place: tuple[int, int]) -> str:
    window, page = place
    return f"window {window} of page-{page:02d}"


class Look(NamedTuple):
    """What was in a table at one moment."""

    batch: int
    counts: Counts


class WindowReader:
    """A table of windows looked at again and again."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._batch = -1

    def look(self) -> Look:
        """`Broken` where a batch is missing, there twice, or gone since the last look."""
        if not DeltaTable.is_deltatable(str(self._table)):
            return Look(-1, {})
        table = DeltaTable(self._table)
        batches = batches_of(table.history())
        check_batches(batches)
        if len(batches) <= self._batch:
            raise Broken(f"batch {self._batch} is gone from {self._table.name}")
        self._batch = len(batches) - 1
        return Look(self._batch, counts_in(table.to_pyarrow_table()))


def batches_of(history: Iterable[Mapping[str, object]]) -> list[int]:
    """The batch of each commit that has one, the first first; a table's history is told the other way round."""
    return [int(str(commit[_BATCH])) for commit in history if _BATCH in commit][::-1]


# --- What Spark wrote down ----------------------------------------------------------------------------------------


def ends_of(checkpoint: Path, batch: int) -> dict[int, int]:
    """Up to where a batch reads each partition of its only topic, and all before it; before the first nowhere."""
    if batch < 0:
        return {}
    # Behind a version and matters of Spark's own.
    _, _, source = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    (ends,) = json.loads(source).values()
    return {int(partition): end for partition, end in ends.items()}


def last_done(checkpoint: Path) -> int:
    """The last batch that Spark knows to be done."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)
