"""What a report is about: each cell of each run, with a name that tells it from the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.lab.comparison import doubts_of
from headrace.lab.intervals import Interval, mean_interval
from headrace.lab.metrics import in_order
from headrace.lab.results import LOSSES, Cell, RepeatLine, Results, SecondLine, cell_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    name: str
    run: int  # Which of the runs.
    results: Results
    cell: Cell
    repeats: Sequence[RepeatLine]
    doubts: Mapping[str, str]  # By metric, why it is not measurable here.
    lost: Collection[str]  # Metrics of lost messages of which this or another subject has any.

    def metrics(self) -> list[str]:
        return in_order({name for line in self.repeats for name in line.metrics})

    def interval(self, metric: str) -> Interval | None:
        """Over its whole repeats; None where there is none that has the metric, or no subject that lost any."""
        if metric in LOSSES and metric not in self.lost:
            return None
        values = self.results.values(self.cell, metric)
        return mean_interval(values) if values else None

    def doubt(self, metric: str) -> str | None:
        return self.doubts.get(metric)

    def seconds(self) -> list[list[SecondLine]]:
        """Of each repeat, also of one that was cut short before it came to anything."""
        numbers = sorted({line.repeat for line in self.results.seconds} | {line.repeat for line in self.repeats})
        found = [self.results.seconds_of(self.cell, repeat=number) for number in numbers]
        return [lines for lines in found if lines]

    def is_partial(self) -> bool:
        return any(line.partial for line in self.repeats) or (
            self.results.partial is not None and len(self.repeats) < len(self.seconds())
        )


def subjects_of(runs: Sequence[Results]) -> list[Subject]:
    names = run_names(runs)
    lost = [metric for metric in LOSSES if any(metric in line.metrics for run in runs for line in run.repeats)]
    return [
        Subject(
            name=_name(names[number], results, cell, len(runs)),
            run=number,
            results=results,
            cell=cell,
            repeats=results.repeats_of(cell),
            doubts=doubts_of(results, cell),
            lost=lost,
        )
        for number, results in enumerate(runs)
        for cell in results.cells
    ]


def run_names(runs: Sequence[Results]) -> list[str]:
    """Of each run the least that tells it from the others: its target, its workload, when it began, its number."""
    for text in (_target, _workload, lambda run: f"{_workload(run)} on {_target(run)}", _began):
        names = [text(run) for run in runs]
        if len({*names}) == len(runs):
            return names
    return [f"run {number}" for number in range(1, len(runs) + 1)]


def target_name(target: Any) -> str:
    return str(target.get("name") or target.get("kind") or "target")


def _name(run_name: str, results: Results, cell: Cell, runs: int) -> str:
    if runs == 1:
        return cell_text(cell) if cell else run_name
    return f"{run_name}, {cell_text(cell)}" if len(results.cells) > 1 else run_name


def _target(run: Results) -> str:
    return target_name(run.scenario.target)


def _workload(run: Results) -> str:
    return run.scenario.name


def _began(run: Results) -> str:
    return f"{_target(run)}, {datetime.fromisoformat(run.scenario.started):%Y-%m-%d %H:%M:%S}"


def unit_text(subject: Subject, metric: str) -> str:
    """Without what is explained in brackets."""
    return subject.results.scenario.units.get(metric, "").partition(" (")[0]
