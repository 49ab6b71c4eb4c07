"""What a long proof is: a promise, so many units of work that could break it, and a function that does some of them.

A *unit* is what is counted: a round, a mutation, a seed, a partition, a megabyte. A *slice* is a run of units that
belong together, because they share a node and its data; it is what progress is kept by. A proof that cannot be
divided has one slice, and its number of units is its size.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.toolbox import REQUIRE_ALL, ToolMissing

Facts = dict[str, int | float]


def merge_facts(one: Facts, other: Facts) -> Facts:
    """Counts are added. What is named `..._max` or `..._min` is a bound, and stays one."""
    merged = dict(one)
    for name, value in other.items():
        before = merged.get(name)
        if before is None:
            merged[name] = value
        elif name.endswith("_max"):
            merged[name] = max(before, value)
        elif name.endswith("_min"):
            merged[name] = min(before, value)
        else:
            merged[name] = before + value
    return merged


class Slice:
    """Some consecutive units to run, and where to run them."""

    def __init__(
        self, units: range, *, is_full: bool, scratch: Path, advance: Callable[[int], None] = lambda units: None
    ) -> None:
        """`is_full` where the whole proof is in this slice: only there do timings decide anything."""
        self.units = units
        self.is_full = is_full
        self.scratch = scratch
        self.advance = advance
        self.current: int | None = None  # The unit under way, for whoever has to tell where it failed.
        self.lacking: list[str] = []  # What could not be looked at here, for the page.

    def each(self) -> Iterator[int]:
        for unit in self.units:
            self.current = unit
            yield unit
            self.advance(1)
        self.current = None

    def has(self, find_tool: Callable[[], object], *, or_lacks: str) -> bool:
        """Whether a tool is here for a part of the proof. Where not, that is told, or a failure if all is required."""
        try:
            find_tool()
        except ToolMissing as missing:
            if REQUIRE_ALL:
                raise
            self.lacking.append(f"{or_lacks}, because {missing}")
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    name: str
    promise: str
    unit: str  # In the plural.
    total: int
    ci: int
    run: Callable[[Slice], Facts]  # Raises, most often AssertionError, where the promise does not hold.
    slice_units: int | None = None  # None: it cannot be divided.
    alone: bool = False  # Whether a unit can be run again without those before it in its slice.
    check_tools: Callable[[], None] = lambda: None  # Raises ToolMissing.

    def __post_init__(self) -> None:
        assert 0 < self.ci <= self.total

    def slices(self, units: range) -> Iterator[range]:
        """`units` cut where the slices of the whole proof end, so that the same units always share a slice."""
        step = self.slice_units or self.total
        start = units.start
        while start < units.stop:
            stop = min(start - start % step + step, units.stop)
            yield range(start, stop)
            start = stop

    def units_of_day(self, day: datetime.date) -> range:
        """The share that CI runs on that day. Over enough days every unit has its turn."""
        if self.slice_units is None:
            return range(self.ci)
        shares = -(-self.total // self.ci)
        first = min(day.toordinal() % shares * self.ci, self.total - self.ci)
        return range(first, first + self.ci)
