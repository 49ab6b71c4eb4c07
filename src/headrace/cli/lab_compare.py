"""`headrace lab compare`: two results beside each other, as ratios that say how sure they are."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.extras import require
from headrace.cli.lab_results import OUT, Out
from headrace.cli.output import AsJson, note, print_json, print_table

if TYPE_CHECKING:
    from headrace.lab.comparison import Comparison, Row
    from headrace.lab.intervals import Interval

_Run = typer.Argument(help="A run's path, its name or a part of it, or last.")


def compare(
    a: Annotated[str, _Run],
    b: Annotated[str, _Run],
    out: Out = OUT,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: how many times A is B, for each metric and cell, with 95% confidence intervals."""
    require("scipy", extra="lab")
    from headrace.lab.comparison import compare as compared
    from headrace.lab.results import read_results
    from headrace.lab.summary import find_run

    found = compared(read_results(find_run(a, out)), read_results(find_run(b, out)))
    if as_json:
        print_json(found.to_json())
    else:
        print_comparison(found)


def print_comparison(found: "Comparison") -> None:
    from headrace.lab.metrics import metric_text
    from headrace.lab.results import cell_text

    has_cells = any(row.cell for row in found.rows)
    rows = [
        (
            *([cell_text(row.cell)] if has_cells else []),
            metric_text(row.metric),
            row.unit.partition(" (")[0],
            _interval_text(row.first),
            _interval_text(row.second),
            _ratio_text(row),
            row.verdict.value,
            "" if row.doubt is None else f"not measurable here: {row.doubt}",
        )
        for row in found.rows
    ]
    has_doubts = any(row.doubt for row in found.rows)
    columns = ("cell",) * has_cells + ("metric", "unit", "A", "B", "B / A", "B is") + ("doubt",) * has_doubts
    print_table(columns, [row[: len(columns)] for row in rows], right=("A", "B", "B / A"))
    for name, cells in (("A", found.only_first), ("B", found.only_second)):
        for cell in cells:
            note(f"only in {name}: {cell_text(cell)}")
    for partial in found.partial:
        note(f"partial: {partial}")


def _interval_text(interval: "Interval") -> str:
    from headrace.lab.report.scales import figures, margin_text

    text = figures(interval.value)
    return f"{text} {margin_text(interval.low, interval.high)}" if interval.is_known else text


def _ratio_text(row: "Row") -> str:
    if row.ratio is None:
        return "-"
    text = f"{row.ratio.value:.3f}"
    return f"{text} [{row.ratio.low:.3f}, {row.ratio.high:.3f}]" if row.ratio.is_known else text
