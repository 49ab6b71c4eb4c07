"""The table of a bench that is not the race: some lines, each of what one system did, with a verdict per claim.

For a terminal, as Markdown and as JSON lines, in the race's own manner. Reads results; measures nothing.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.table import Table

from bench.cells import Judged, markdown_cell, markdown_line, markdown_verdicts, rich_cell, rich_verdicts
from bench.metrics import METRICS
from headrace.lab.intervals import Spread, spread_of
from headrace.lab.requirements import Requirement, Result, judge

# What others may take of the machine's CPU during a line that says something: processes beside it, and the host.
_DISTURBANCE_MAX: Final = {"others_cpu_share": 0.05, "steal_share": 0.02}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One row measured once on one system."""

    row: str
    system: str
    repeat: int
    values: Mapping[str, float]  # By metric name.


class Claim(NamedTuple):
    """A requirement, and the row and system whose figure it is a multiple of, where it is one."""

    requirement: Requirement
    rival: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    row: str
    system: str
    labels: tuple[str, ...]  # As the table has it, under the sheet's heads.
    claims: Sequence[Claim] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    title: str
    heads: tuple[str, ...]
    metrics: tuple[str, ...]
    lines: Sequence[Line]
    readings: Sequence[Reading]
    failures: Sequence[str]
    facts: Mapping[str, str | int]  # Of the machine and the versions.
    seconds: float
    is_judged: bool  # A smoke run is not.

    def rich_table(self) -> Table:
        table = Table(title=self._titled())
        for head in self.heads:
            table.add_column(head, max_width=30)
        for name in self.metrics:
            table.add_column(METRICS[name].title, justify="right")
        table.add_column("verdict")
        for line, cells in self._cells():
            written = [rich_cell(METRICS[name], spread) for name, spread in zip(self.metrics, cells, strict=True)]
            table.add_row(*line.labels, *written, rich_verdicts(self.judged(line)))
        return table

    def markdown(self) -> str:
        heads = [*self.heads, *(METRICS[name].title for name in self.metrics), "verdict"]
        lines = [f"{self._titled()}.", "", *self.notes(), "", markdown_line(heads)]
        lines.append(markdown_line(["---"] * len(heads)))
        for line, cells in self._cells():
            written = [markdown_cell(METRICS[name], spread) for name, spread in zip(self.metrics, cells, strict=True)]
            lines.append(markdown_line([*line.labels, *written, markdown_verdicts(self.judged(line))]))
        return "\n".join(lines) + "\n"

    def json_lines(self) -> Iterator[dict[str, object]]:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        for line in self.lines:
            mine = [one for one in self.readings if (one.row, one.system) == (line.row, line.system)]
            yield {
                "at": at,
                "row": line.row,
                "system": line.system,
                "labels": list(line.labels),
                "facts": dict(self.facts),
                "repeats": len(mine),
                "metrics": {
                    name: {
                        "unit": metric.unit,
                        "median": spread.median,
                        "min": spread.least,
                        "max": spread.greatest,
                        "values": self._values(line.row, line.system, name),
                    }
                    for name, metric in METRICS.items()
                    if (spread := self._spread(line, name)) is not None
                },
                "verdicts": list(map(str, self.judged(line))),
            }

    def judged(self, line: Line) -> list[Judged]:
        if not self.is_judged:
            return []
        found = []
        for requirement, rival in line.claims:
            ours = self._values(line.row, line.system, requirement.metric)
            rivals = self._values(*rival, requirement.metric) if rival else []
            found.append(Judged(judge(requirement, ours, rivals), METRICS[requirement.metric].title))
        return found

    def any_short(self) -> bool:
        return any(one.verdict.result == Result.SHORT for line in self.lines for one in self.judged(line))

    def notes(self) -> list[str]:
        """What the reader must know before trusting a line."""
        machine = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        notes = [f"Machine: {machine}. Run time {self.seconds / 60:.1f} min."]
        if not self.is_judged:
            notes.append("Smoke run: it shows that the bench works, and judges nothing.")
        notes += self._disturbances()
        notes += [f"Failed: {text}" for text in self.failures]
        return notes

    def _disturbances(self) -> Iterator[str]:
        for metric, limit in _DISTURBANCE_MAX.items():
            over = [
                f"{', '.join(line.labels)} {spread.median:.0%}"
                for line in self.lines
                if (spread := self._spread(line, metric)) is not None
                if spread.median > limit
            ]
            if over:
                yield f"Disturbed, {METRICS[metric].title}: {'; '.join(over)}."

    def _titled(self) -> str:
        repeats = max((reading.repeat + 1 for reading in self.readings), default=0)
        return f"{self.title}, {repeats} repeats: median, least..greatest"

    def _cells(self) -> Iterator[tuple[Line, list[Spread | None]]]:
        for line in self.lines:
            yield line, [self._spread(line, name) for name in self.metrics]

    def _spread(self, line: Line, metric: str) -> Spread | None:
        values = self._values(line.row, line.system, metric)
        return spread_of(values) if values else None

    def _values(self, row: str, system: str, metric: str) -> list[float]:
        return [
            one.values[metric]
            for one in self.readings
            if (one.row, one.system) == (row, system) and metric in one.values
        ]
