"""What a filter says about where rows can be, so that only those places are read.

A filter is an expression of Arrow's, and Arrow itself is asked whether it can hold where something is known: of the
fragments of a dataset that are promised to have `partition == 3`, it names those in which a row could pass. From this
question alone bounds are found, by halving. So they are as sound as Arrow's own, and where it cannot tell, nothing is
narrowed. The filter still has to be applied to what is read.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from headrace.columnar.schema import COLUMNS, schema_of

_TIME_MS_MAX: Final = 1 << 43  # In the year 2248.
_EVERYTHING: Final = schema_of(tuple(COLUMNS))


class Narrowed(NamedTuple):
    """Rows that may pass are in these partitions, from the first of these offsets up to the other, and not older."""

    partitions: Sequence[int]
    first: int
    end: int
    time_ms: int | None


def narrow(where: pc.Expression, *, partitions: Sequence[int], first: int, end: int) -> Narrowed:
    """Of these partitions and offsets, those where a row may pass."""
    offset, timestamp = pc.field("offset"), pc.field("timestamp")
    kept = _possible(where, [pc.field("partition") == number for number in partitions])
    numbers = [number for number, is_possible in zip(partitions, kept, strict=True) if is_possible]
    # The largest below which nothing passes, and the smallest from which on nothing does.
    low = _last_true(first, end, lambda bound: not _may_pass(where, offset < bound))
    high = first + end - _last_true(first, end, lambda bound: not _may_pass(where, offset >= first + end - bound))
    time_ms: int | None = None
    if not _may_pass(where, pc.is_null(timestamp)):  # A record without a time is at no time.
        time_ms = _last_true(0, _TIME_MS_MAX, lambda bound: not _may_pass(where, timestamp < _moment(bound))) or None
    return Narrowed(numbers, low, max(low, high), time_ms)


def columns_of(where: pc.Expression) -> list[str]:
    """The columns that a filter looks at: those without which it means nothing."""
    nothing = pa.RecordBatch.from_pylist([], _EVERYTHING)

    def is_needed(name: str) -> bool:
        try:
            nothing.drop_columns([name]).filter(where)
        except pa.ArrowInvalid:
            return True
        return False

    return [name for name in COLUMNS if is_needed(name)]


def _last_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The last number up to `high` for which it holds; it does for `low`, and for none after one for which it fails."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _may_pass(where: pc.Expression, known: pc.Expression) -> bool:
    return _possible(where, [known])[0]


def _possible(where: pc.Expression, known: Iterable[pc.Expression]) -> list[bool]:
    """Of places where something is known each, whether a row that passes can be there. No file is looked at."""
    promises = list(known)
    if not promises:
        return []
    paths = [str(number) for number in range(len(promises))]
    dataset = ds.FileSystemDataset.from_paths(
        paths,
        schema=_EVERYTHING,
        format=ds.IpcFileFormat(),
        filesystem=LocalFileSystem(),
        partitions=promises,
    )
    there = {fragment.path for fragment in dataset.get_fragments(where)}
    return [path in there for path in paths]


def _moment(milliseconds: int) -> pa.Scalar:
    return pa.scalar(milliseconds, COLUMNS["timestamp"])
