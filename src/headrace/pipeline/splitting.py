"""Ranges of offsets cut into tasks, as the official connector cuts them.

By default a partition is a task. `max_records` bounds what a task reads; `min_tasks` makes more of them where there are
too few: the large ones are cut, in proportion. The pieces of a partition follow each other and leave nothing out.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple

from headrace.ids import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition, from the first up to and without the end."""

    place: TopicPartition
    first: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; none where the end lies before the beginning."""
        return max(0, self.end - self.first)


def split(
    ranges: Sequence[OffsetRange], *, min_tasks: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """What tasks read, together exactly `ranges`; empty ones are left out."""
    pieces = [piece for whole in ranges if whole.size for piece in _at_most(whole, max_records)]
    if min_tasks is None or len(pieces) >= min_tasks:
        return pieces
    total = sum(piece.size for piece in pieces)
    shares = [_share(piece, total, min_tasks) for piece in pieces]
    # Those too small to be cut are tasks already; the others share the rest. Shares are rounded, so that there may be
    # a few tasks more or less than asked for.
    total = sum(piece.size for piece, share in zip(pieces, shares, strict=True) if share > 1)
    left = max(1, min_tasks - shares.count(1))
    return [
        part
        for piece, share in zip(pieces, shares, strict=True)
        for part in _cut(piece, 1 if share == 1 else _share(piece, total, left))
    ]


def limit(ranges: Sequence[OffsetRange], offsets: int | None) -> list[OffsetRange]:
    """The beginnings of the ranges, together about so many offsets: each in proportion, but none without any."""
    total = sum(each.size for each in ranges)
    if offsets is None or total <= offsets:
        return list(ranges)
    return [each._replace(end=each.first + _part(each, offsets, total)) if each.size else each for each in ranges]


def _part(each: OffsetRange, offsets: int, total: int) -> int:
    share = offsets * (each.size / total)
    return min(each.size, ceil(share) if share < 1 else floor(share))


def _at_most(whole: OffsetRange, records: int | None) -> list[OffsetRange]:
    return _cut(whole, 1 if records is None else ceil(whole.size / records))


def _share(piece: OffsetRange, total: int, tasks: int) -> int:
    return max(1, floor(piece.size / total * tasks + 0.5))


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """So many parts, none empty, of sizes that differ by one at most."""
    parts = min(parts, whole.size)
    edges = [whole.first + whole.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(whole.place, first, end) for first, end in pairwise(edges)]
