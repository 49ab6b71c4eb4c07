"""Results as CSV, for spreadsheets and other programs: every metric of every repeat, and every second."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from headrace.lab.report.subjects import Subject, run_names, target_name
from headrace.lab.results import PASSED, Results, SecondLine

_SECOND: Final = ("planned", "sent", "acknowledged", "failed", "consumed", "bytes", "lateness_ms")
_METRIC_COLUMNS: Final = ("repeat", "metric", "unit", "value", "gate", "partial")


def metrics_csv(runs: Sequence[Results]) -> str:
    """A row for each metric of each repeat."""
    parameters = _parameters(runs)
    rows = (
        [
            *_where(name, run),
            *(line.cell.get(each) for each in parameters),
            line.repeat, metric, run.scenario.units.get(metric), value, line.gate.get(metric, PASSED), line.partial,
        ]
        for name, run in zip(run_names(runs), runs, strict=True)
        for line in run.repeats
        for metric, value in line.metrics.items()
    )  # fmt: skip
    return _csv(("run", "workload", "target", *parameters, *_METRIC_COLUMNS), rows)


def seconds_csv(runs: Sequence[Results]) -> str:
    """A row for each second, with whatever else was read in any of them."""
    parameters = _parameters(runs)
    readings = [*dict.fromkeys(name for run in runs for line in run.seconds for name in line.more)]
    rows = (
        [
            *_where(name, run),
            *(line.cell.get(each) for each in parameters),
            line.repeat,
            line.at,
            *_counts(line),
            *(line.more.get(each) for each in readings),
        ]
        for name, run in zip(run_names(runs), runs, strict=True)
        for line in run.seconds
    )
    return _csv(("run", "workload", "target", *parameters, "repeat", "at", *_SECOND, *readings), rows)


def means_csv(subjects: Sequence[Subject]) -> str:
    """A row for each metric of each cell: the mean over its repeats and its confidence interval."""
    rows = (
        [
            subject.name, metric, subject.results.scenario.units.get(metric), found.value,
            found.low if found.is_known else None, found.high if found.is_known else None, found.count,
            subject.doubt(metric),
        ]
        for subject in subjects
        for metric in subject.metrics()
        if (found := subject.interval(metric)) is not None
    )  # fmt: skip
    return _csv(("cell", "metric", "unit", "mean", "low", "high", "repeats", "not measurable here"), rows)


def _where(name: str, run: Results) -> tuple[str, str, str]:
    return name, run.scenario.name, target_name(run.scenario.target)


def _parameters(runs: Sequence[Results]) -> list[str]:
    return [*dict.fromkeys(name for run in runs for cell in run.cells for name in cell)]


def _counts(line: SecondLine) -> Iterator[Any]:
    return (getattr(line, name) for name in _SECOND)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    into = io.StringIO()
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return into.getvalue()
