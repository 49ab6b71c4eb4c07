"""Two results beside each other: for each cell and metric that both have, how many times the first the second is.

The ratio is of means over repeats, with its confidence interval; a difference that the interval does not tell from none
is called none. What the quality gate did not let pass in either is compared all the same, and marked.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from headrace.lab.errors import LabError
from headrace.lab.gate import Thresholds, cell_gate
from headrace.lab.intervals import Interval, mean_interval, ratio_interval
from headrace.lab.metrics import METRICS, in_order
from headrace.lab.results import LOSSES, NOT_MEASURABLE, PASSED, Cell, Results, cell_key, cell_text


class Verdict(StrEnum):
    """Of the second against the first."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"  # Where neither way is the better one.
    LOWER = "lower"
    SAME = "no difference told"
    UNKNOWN = "too few repeats to tell"
    NO_RATIO = "no ratio: a value is zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cell: Cell
    metric: str
    unit: str
    first: Interval
    second: Interval
    ratio: Interval | None  # None where one of them is zero.
    verdict: Verdict
    doubt: str | None  # Why one of them is not measurable here.

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": dict(self.cell),
            "metric": self.metric,
            "unit": self.unit,
            "a": self.first.to_json(),
            "b": self.second.to_json(),
            "ratio": None if self.ratio is None else self.ratio.to_json(),
            "verdict": self.verdict.value,
            "doubt": self.doubt,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    rows: Sequence[Row]
    only_first: Sequence[Cell]
    only_second: Sequence[Cell]
    partial: Sequence[str]  # What was cut short, and why.

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [row.to_json() for row in self.rows],
            "only_a": [dict(cell) for cell in self.only_first],
            "only_b": [dict(cell) for cell in self.only_second],
            "partial": list(self.partial),
        }


def compare(first: Results, second: Results) -> Comparison:
    pairs = [*_pairs(first, second)]
    rows = [row for cell, cells in pairs for row in _rows(first, second, cell, *cells)]
    if not rows:
        raise LabError(
            f"nothing to compare: {_cells_text(first)} in the one, {_cells_text(second)} in the other, "
            "and no metric of both"
        )
    matched_first, matched_second = ({cell_key(cells[side]) for _, cells in pairs} for side in (0, 1))
    return Comparison(
        rows=rows,
        only_first=[cell for cell in first.cells if cell_key(cell) not in matched_first],
        only_second=[cell for cell in second.cells if cell_key(cell) not in matched_second],
        partial=[f"{results.path}: {results.partial}" for results in (first, second) if results.partial],
    )


def _pairs(first: Results, second: Results) -> Iterator[tuple[Cell, tuple[Cell, Cell]]]:
    if len(first.cells) == len(second.cells) == 1:
        # Two runs without a sweep, or with one of one value: what differs is what is compared.
        [one], [other] = first.cells, second.cells
        yield (one if cell_key(one) == cell_key(other) else {}), (one, other)
        return
    seconds = {cell_key(cell): cell for cell in second.cells}
    for cell in first.cells:
        if (match := seconds.get(cell_key(cell))) is not None:
            yield cell, (cell, match)


def _rows(first: Results, second: Results, cell: Cell, one: Cell, other: Cell) -> Iterator[Row]:
    ours = {name for line in first.repeats_of(one) for name in line.metrics}
    theirs = {name for line in second.repeats_of(other) for name in line.metrics}
    names = (ours & theirs) | ((ours | theirs) & {*LOSSES})  # Where one has lost something, the other has not.
    units = {**second.scenario.units, **first.scenario.units}
    doubts = doubts_of(second, other) | doubts_of(first, one)
    for name in in_order(names):
        base, values = first.values(one, name), second.values(other, name)
        if not base or not values:
            continue  # Only of repeats that were cut short.
        ratio = ratio_interval(values, base) if min(*base, *values) > 0 else None
        yield Row(
            cell=cell,
            metric=name,
            unit=units.get(name, ""),
            first=mean_interval(base),
            second=mean_interval(values),
            ratio=ratio,
            verdict=_verdict(name, ratio),
            doubt=doubts.get(name),
        )


def _verdict(metric: str, ratio: Interval | None) -> Verdict:
    if ratio is None:
        return Verdict.NO_RATIO
    if not ratio.is_known or ratio.count < 2:
        return Verdict.UNKNOWN
    if ratio.contains(1.0) or math.isclose(ratio.value, 1.0, rel_tol=1e-12):
        return Verdict.SAME
    is_higher = ratio.value > 1
    higher_is_better = METRICS[metric].higher_is_better if metric in METRICS else None
    if higher_is_better is None:
        return Verdict.HIGHER if is_higher else Verdict.LOWER
    return Verdict.BETTER if is_higher == higher_is_better else Verdict.WORSE


def doubts_of(results: Results, cell: Cell, *, may_differ: bool = False) -> dict[str, str]:
    """What the gate says against metrics, of all repeats together; nothing of those that passed.

    Repeats `may_differ` by any amount where how sure a number is will be asked of its interval.
    """
    limits = Thresholds(**results.scenario.workload.get("gate") or {})
    gate = cell_gate(results.repeats_of(cell), replace(limits, interval=math.inf) if may_differ else limits)
    return {metric: reason.replace(f"{NOT_MEASURABLE}: ", "") for metric, reason in gate.items() if reason != PASSED}


def _cells_text(results: Results) -> str:
    return "; ".join(cell_text(cell) for cell in results.cells) or "no repeat"
