"""The table of a bench that is not the race: some lines, each of what one system did, with a verdict per claim.

For a terminal, as Markdown and as JSON lines, in the race's own manner. Reads results; measures nothing.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.table import Table

from bench.cells import markdown_cell, markdown_line, markdown_verdicts, rich_cell, rich_verdicts
from bench.metrics import METRICS
from bench.results import DISTURBANCE_MAX, SHORT, Reading, Requirement, Spread, Summary, Verdict, judge, summarise


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
            table.add_row(*line.labels, *written, rich_verdicts(self.verdicts(line)))
        return table

    def markdown(self) -> str:
        heads = [*self.heads, *(METRICS[name].title for name in self.metrics), "verdict"]
        lines = [f"{self._titled()}.", "", *self.notes(), "", markdown_line(heads)]
        lines.append(markdown_line(["---"] * len(heads)))
        for line, cells in self._cells():
            written = [markdown_cell(METRICS[name], spread) for name, spread in zip(self.metrics, cells, strict=True)]
            lines.append(markdown_line([*line.labels, *written, markdown_verdicts(self.verdicts(line))]))
        return "\n".join(lines) + "\n"

    def json_lines(self) -> Iterator[dict[str, object]]:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        summary = summarise(self.readings)
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
                        "values": [one.values[name] for one in mine if name in one.values],
                    }
                    for name, metric in METRICS.items()
                    if (spread := summary.get((line.row, line.system, name))) is not None
                },
                "verdicts": [one.text() for one in self.verdicts(line)],
            }

    def verdicts(self, line: Line) -> list[Verdict]:
        if not self.is_judged:
            return []
        summary = summarise(self.readings)
        return [
            judge(
                claim.requirement,
                ours=summary.get((line.row, line.system, claim.requirement.metric)),
                rival=summary.get((*claim.rival, claim.requirement.metric)) if claim.rival else None,
            )
            for claim in line.claims
        ]

    def any_short(self) -> bool:
        return any(verdict.result == SHORT for line in self.lines for verdict in self.verdicts(line))

    def notes(self) -> list[str]:
        """What the reader must know before trusting a line."""
        machine = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        notes = [f"Machine: {machine}. Run time {self.seconds / 60:.1f} min."]
        if not self.is_judged:
            notes.append("Smoke run: it shows that the bench works, and judges nothing.")
        notes += self._disturbances(summarise(self.readings))
        notes += [f"Failed: {text}" for text in self.failures]
        return notes

    def _disturbances(self, summary: Summary) -> Iterator[str]:
        for metric, limit in DISTURBANCE_MAX.items():
            over = [
                f"{', '.join(line.labels)} {spread.median:.0%}"
                for line in self.lines
                if (spread := summary.get((line.row, line.system, metric))) is not None
                if spread.median > limit
            ]
            if over:
                yield f"Disturbed, {METRICS[metric].title}: {'; '.join(over)}."

    def _titled(self) -> str:
        repeats = max((reading.repeat + 1 for reading in self.readings), default=0)
        return f"{self.title}, {repeats} repeats: median, least..greatest"

    def _cells(self) -> Iterator[tuple[Line, list[Spread | None]]]:
        summary = summarise(self.readings)
        for line in self.lines:
            yield line, [summary.get((line.row, line.system, name)) for name in self.metrics]
