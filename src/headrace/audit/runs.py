"""Sets of sequence numbers as runs: `((0, 100), (103, 110))` is 0 to 99 and 103 to 109.

Runs ascend, are not empty, and neither touch nor overlap, so that equal sets are equal values. What goes well is one
run; only trouble makes more.
"""

import heapq
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

Runs = tuple[tuple[int, int], ...]

NONE: Final[Runs] = ()


def run(first: int, end: int) -> Runs:
    """The numbers from the first up to, not with, the end."""
    return ((first, end),) if first < end else NONE


def runs_of(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Any pairs of first and end, put in order and joined."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((first, end))
    return tuple(joined)


def size(runs: Runs) -> int:
    return sum(end - first for first, end in runs)


def union(*sets: Runs) -> Runs:
    if len(some := [runs for runs in sets if runs]) < 2:
        return some[0] if some else NONE
    return runs_of(heapq.merge(*some))


def minus(runs: Runs, taken: Runs) -> Runs:
    left: list[tuple[int, int]] = []
    at = 0
    for first, end in runs:
        while at < len(taken) and taken[at][1] <= first:
            at += 1
        ahead = at
        while ahead < len(taken) and taken[ahead][0] < end:
            if first < taken[ahead][0]:
                left.append((first, taken[ahead][0]))
            first = taken[ahead][1]
            ahead += 1
        if first < end:
            left.append((first, end))
    return tuple(left)


def both(one: Runs, other: Runs) -> Runs:
    return minus(one, minus(one, other))


def coarsen(runs: Runs, *, count_max: int) -> Runs:
    """A set that includes this one and has no more runs than that: the smallest gaps are filled."""
    if len(runs) <= count_max:
        return runs
    gaps = [after[0] - before[1] for before, after in pairwise(runs)]
    kept = sorted(heapq.nlargest(count_max - 1, range(len(gaps)), key=gaps.__getitem__))
    firsts = [runs[0][0], *(runs[index + 1][0] for index in kept)]
    ends = [*(runs[index][1] for index in kept), runs[-1][1]]
    return tuple(zip(firsts, ends, strict=True))
