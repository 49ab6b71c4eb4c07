"""Ranges of offsets cut into tasks, as the official connector cuts them.

By default a partition is a task. `max_records` bounds what a task reads; `min_tasks` makes more of them where there are
too few, the large ones cut most. A range keeps its order: the pieces of a partition follow each other.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from headrace.ids import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition, from the first up to and without the end."""

    place: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


def split(
    ranges: Sequence[OffsetRange], *, min_tasks: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """What tasks read, together exactly `ranges`; empty ones are left out."""
    pieces = [piece for whole in ranges for piece in _at_most(whole, max_records)]
    if min_tasks is None or len(pieces) >= min_tasks:
        return pieces
    total = sum(piece.size for piece in pieces)
    # The shares are rounded, so that there may be a few tasks more or less than asked for.
    return [part for piece in pieces for part in _cut(piece, max(1, round(piece.size / total * min_tasks)))]


def _at_most(whole: OffsetRange, records: int | None) -> list[OffsetRange]:
    if whole.size <= 0:
        return []
    return _cut(whole, 1 if records is None else -(-whole.size // records))


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """So many parts, none empty, of sizes that differ by one at most."""
    parts = min(parts, whole.size)
    edges = [whole.first + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.place, first, end) for first, end in pairwise(edges)]


def limit(ranges: Sequence[OffsetRange], offsets: int | None) -> list[OffsetRange]:
    """The beginnings of the ranges, together no more than so many offsets: each in proportion, but at least one."""
    total = sum(each.size for each in ranges)
    if offsets is None or total <= offsets:
        return list(ranges)
    limited = []
    for each in ranges:
        share = offsets * each.size / total
        taken = each.size if each.size <= 0 else min(each.size, max(1, int(share)) if share < 1 else int(share))
        limited.append(each._replace(end=each.first + taken))
    return limited
