"""`headrace lab ls` and `headrace lab show`: runs that were done, and what each came to."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.extras import require
from headrace.cli.output import AsJson, note, print_json, print_table

if TYPE_CHECKING:
    from headrace.lab.results import Results
    from headrace.lab.summary import CellSummary, Metric

Out = Annotated[Path, typer.Option("--out", "-o", file_okay=False, metavar="DIRECTORY", help="Where runs are kept.")]
OUT: Final = Path("lab-results")

# What the tables of a run show, and under which words; all there is has `--json`, and `lab show --all`.
_RATES: Final = {
    "max_rate_per_s": "highest held",
    "rate_per_s": "messages/s",
    "mb_per_s": "MB/s",
    "failed": "failed",
    "never_sent": "never sent",
    "not_answered": "not answered",
    "consumed_per_s": "consumed/s",
    "broker_cpu_percent": "broker CPU %",
}
_TIMES: Final = {
    "planned_latency_p50_ms": "p50",
    "planned_latency_p99_ms": "p99",
    "planned_latency_p999_ms": "p99.9",
    "lateness_p99_ms": "late p99",
    "end_to_end_p50_ms": "end to end p50",
    "end_to_end_p99_ms": "p99 ",  # Not the same name twice.
}


def ls(out: Out = OUT, as_json: AsJson = False) -> None:
    """List the runs that were done, oldest first."""
    _require()
    from headrace.lab.errors import LabError
    from headrace.lab.results import find_runs, read_results

    found = []
    for directory in find_runs(out):
        try:
            found.append(read_results(directory))
        except LabError as error:
            note(str(error))
    if as_json:
        print_json([_listed(results) for results in found])
        return
    rows = [tuple(_listed(results).values()) for results in found]
    print_table(("run", "workload", "target", "cells", "repeats", "partial"), rows, right=("cells", "repeats"))


def _listed(results: "Results") -> dict[str, object]:
    return {
        "run": results.path.parent.name,
        "workload": results.scenario.name,
        "target": results.scenario.target.get("name"),
        "cells": len(results.cells),
        "repeats": len(results.repeats),
        "partial": results.partial,
    }


def show(
    named: Annotated[str, typer.Argument(metavar="[RUN]", help="A run's name or a part of it, or its path.")] = "last",
    out: Out = OUT,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every metric, a line for each.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run came to: every cell, with intervals over its repeats, and what was not measurable here."""
    _require()
    from headrace.lab.results import read_results
    from headrace.lab.summary import find_run, results_json

    results = read_results(find_run(named, out))
    if as_json:
        print_json(results_json(results))
    else:
        print_results(results, everything=everything)


def print_results(results: "Results", *, everything: bool = False) -> None:
    from headrace.lab.summary import summarise

    cells = summarise(results)
    scenario = results.scenario
    title = f"{scenario.name} on {scenario.target.get('name')}, {scenario.started}"
    if everything:
        _print_all(title, cells)
    else:
        _print_cells(title, cells)
    for text in dict.fromkeys(_events(cells)):
        note(text)
    for text in dict.fromkeys(line.clocks for each in cells for line in each.repeats if line.clocks is not None):
        note(f"clocks: {text}")
    for text in _refusals(cells):
        note(f"not measurable here: {text}")
    if results.partial is not None:
        note(f"partial: {results.partial}")


def _events(cells: "list[CellSummary]") -> Iterator[str]:
    """What happened meanwhile, and in which cell where there are several."""
    from headrace.lab.results import cell_text

    for each in cells:
        where = cell_text(each.cell)
        for event in (event for line in each.repeats for event in line.events):
            yield event if len(cells) == 1 or event.startswith(where) else f"{where}: {event}"


def _print_cells(title: str, cells: "list[CellSummary]") -> None:
    """Two tables: one of a phone's width each rather than one that no screen holds."""
    swept = list(dict.fromkeys(name for each in cells for name in each.cell))
    rates, times = _present(_RATES, cells), _present(_TIMES, cells)
    consuming = ("of consuming",) if any(each.consumer_verdicts for each in cells) else ()
    rows = [
        (
            *(each.cell.get(name) for name in swept),
            len(each.repeats),
            *(_metric_text(each.metrics.get(name)) for name in rates),
            each.steady,
            ", ".join(each.verdicts) or None,
            *(", ".join(each.consumer_verdicts) or None for _ in consuming),
        )
        for each in cells
    ]
    columns = (*swept, "repeats", *rates.values(), "steady", "bottleneck", *consuming)
    print_table(columns, rows, title=title, right=("repeats", *rates.values()))
    if times:
        rows = [
            (*(each.cell.get(name) for name in swept), *(_metric_text(each.metrics.get(name)) for name in times))
            for each in cells
        ]
        print_table((*swept, *times.values()), rows, title="from planned, in milliseconds", right=times.values())


def _present(wanted: Mapping[str, str], cells: "list[CellSummary]") -> dict[str, str]:
    return {name: words for name, words in wanted.items() if any(name in each.metrics for each in cells)}


def _print_all(title: str, cells: "list[CellSummary]") -> None:
    from headrace.lab.results import cell_text

    rows = [
        (cell_text(each.cell), name, _metric_text(metric), metric.gate)
        for each in cells
        for name, metric in each.metrics.items()
    ]
    print_table(("cell", "metric", "mean", "gate"), rows, title=title, right=("mean",))


def _metric_text(metric: "Metric | None") -> str | None:
    """With the interval where there is one, and a mark where the gate did not let it pass."""
    if metric is None:
        return None
    interval = metric.interval
    width = f" ±{_number_text((interval.high - interval.low) / 2)}" if interval.is_known else ""
    return f"{_number_text(interval.value)}{width}{'' if metric.is_measured else ' !'}"


def _number_text(value: float) -> str:
    """Three or four figures, and thousands told apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _refusals(cells: "list[CellSummary]") -> list[str]:
    """Each reason once, with the metrics that it is the reason of."""
    from headrace.lab.results import cell_text

    reasons: dict[tuple[str, str], list[str]] = {}
    for each in cells:
        for name, metric in each.metrics.items():
            if not metric.is_measured:
                reasons.setdefault((cell_text(each.cell), metric.gate), []).append(name)
    return [
        f"{'' if cell == '-' else f'{cell}: '}{_names_text(names)}: {why}" for (cell, why), names in reasons.items()
    ]


def _names_text(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _require() -> None:
    for package in ("numpy", "scipy"):
        require(package, extra="lab")
