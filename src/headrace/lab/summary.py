"""What a run came to: of each cell, every metric with its interval over repeats, and what the gate says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.lab.errors import LabError
from headrace.lab.gate import Thresholds, cell_gate
from headrace.lab.intervals import Interval, mean_interval
from headrace.lab.results import PASSED, Cell, RepeatLine, Results, find_runs

_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    interval: Interval
    gate: str

    @property
    def is_measured(self) -> bool:
        return self.gate == PASSED

    def to_json(self) -> dict[str, Any]:
        return {**self.interval.to_json(), "gate": self.gate}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    cell: Cell
    metrics: Mapping[str, Metric]
    repeats: Sequence[RepeatLine]

    @property
    def steady(self) -> str:
        """How many repeats were, of those that were long enough to tell; and how many were not."""
        asked = [line.steady.is_steady for line in self.repeats if line.steady]
        told = [is_steady for is_steady in asked if is_steady is not None]
        if not told:
            return "too short to tell"
        untold = len(asked) - len(told)
        return f"{sum(told)} of {len(told)}" + (f", {untold} untold" if untold else "")

    @property
    def verdicts(self) -> list[str]:
        """Of the bottleneck, each once."""
        return list(dict.fromkeys(line.bottleneck.verdict for line in self.repeats if line.bottleneck is not None))

    @property
    def consumer_verdicts(self) -> list[str]:
        """Of that of consuming."""
        found = (line.consumer_bottleneck for line in self.repeats)
        return list(dict.fromkeys(each.verdict for each in found if each is not None))

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": dict(self.cell),
            "repeats": len(self.repeats),
            "partial": [line.partial for line in self.repeats if line.partial is not None],
            "steady": [line.steady.is_steady if line.steady else None for line in self.repeats],
            "bottleneck": self.verdicts,
            "consumer_bottleneck": self.consumer_verdicts,
            "metrics": {name: metric.to_json() for name, metric in self.metrics.items()},
        }


def thresholds_of(results: Results) -> Thresholds:
    """Of the workload that was run; the usual ones where it has none that can be read."""
    try:
        return Thresholds.from_json(results.scenario.workload.get("gate") or {})
    except (TypeError, ConfigError):
        return Thresholds()


def summarise(results: Results) -> list[CellSummary]:
    limits = thresholds_of(results)
    found = []
    for cell in results.cells:
        repeats = results.repeats_of(cell)
        gate = cell_gate(repeats, limits)
        metrics = {
            name: Metric(interval=mean_interval(results.values(cell, name)), gate=said) for name, said in gate.items()
        }
        found.append(CellSummary(cell=cell, metrics=metrics, repeats=repeats))
    return found


def results_json(results: Results) -> dict[str, Any]:
    return {
        "run": results.path.parent.name,
        "path": str(results.path),
        "name": results.scenario.name,
        "target": results.scenario.target.get("name"),
        "started": results.scenario.started,
        "partial": results.partial,
        "cells": [each.to_json() for each in summarise(results)],
    }


def find_run(named: str, out: Path) -> Path:
    """A run by its path, by its name in `out` or the beginning or a part of it, or the `last` one."""
    path = Path(named)
    if path.exists():
        return path
    runs = find_runs(out)
    if not runs:
        raise LabError(f"there are no runs in {out} (headrace lab run)")
    if named == "last":
        return runs[-1]
    found = [run for run in runs if run.name.startswith(named)] or [run for run in runs if named in run.name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise LabError(f"there is no run {named!r} in {out} (headrace lab ls)")
    names = [run.name for run in found[:_NAMED_MAX]] + (["..."] if len(found) > _NAMED_MAX else [])
    raise LabError(f"{named!r} is {len(found)} runs in {out}: {', '.join(names)}")
