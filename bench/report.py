"""The one table, for a terminal, as Markdown and as JSON lines. Reads results; measures nothing."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from bench.cells import markdown_cell, markdown_line, markdown_verdicts, rich_cell, rich_verdicts
from bench.metrics import COLUMNS, METRICS
from bench.results import DISTURBANCE_MAX, SHORT, Reading, Spread, Verdict, judge, summarise
from bench.scenarios import Scenario
from bench.systems import HEADRACE, KAFKA


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gauge:
    """A measure of the measurement, and the value above which the row must not be trusted."""

    metric: str
    meaning: str
    p99_share_max: float | None = None  # Where the limit is a share of the row's own p99.

    def limit(self, latency_ms_p99: Spread | None) -> float:
        if self.p99_share_max is None:
            return DISTURBANCE_MAX[self.metric]
        return self.p99_share_max * latency_ms_p99.median if latency_ms_p99 else float("inf")

    def write(self, value: float) -> str:
        return f"{value:.0%}" if self.p99_share_max is None else f"{value:.2f} ms"


_GAUGES: Final = (
    _Gauge(metric="others_cpu_share", meaning="Disturbed by other processes or the kernel"),
    _Gauge(metric="steal_share", meaning="Disturbed by the host, which took CPU away"),
    _Gauge(
        metric="lateness_ms_p99",
        meaning="p99 not measurable here, the generator itself being late by",
        p99_share_max=0.1,
    ),
)


@dataclass(frozen=True, slots=True)
class Failure:
    block: str
    system: str
    repeat: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    rows: Sequence[Scenario]
    systems: Sequence[str]
    readings: Sequence[Reading]
    failures: Sequence[Failure]
    host: Mapping[str, str | int]
    versions: Mapping[str, str]
    seconds: float
    scale: float

    def rich_table(self) -> Table:
        """Median above, least and greatest below."""
        table = Table(title=self._title(), show_lines=False)
        table.add_column("row", max_width=30)
        table.add_column("system")
        for metric in COLUMNS:
            table.add_column(metric.title, justify="right")
        table.add_column("verdict")
        for row, system, cells in self._lines():
            verdicts = self.verdicts(row) if system == HEADRACE else []
            table.add_row(
                row.title if system == self.systems[0] else "",
                system,
                *(rich_cell(metric, spread) for metric, spread in zip(COLUMNS, cells, strict=True)),
                rich_verdicts(verdicts),
                end_section=system == self.systems[-1],
            )
        return table

    def markdown(self) -> str:
        heads = ["row", "system", *(metric.title for metric in COLUMNS), "verdict"]
        lines = [f"{self._title()}.", "", *self.notes(), "", markdown_line(heads)]
        lines.append(markdown_line(["---"] * len(heads)))
        for row, system, cells in self._lines():
            verdicts = self.verdicts(row) if system == HEADRACE else []
            written = [markdown_cell(metric, spread) for metric, spread in zip(COLUMNS, cells, strict=True)]
            lines.append(markdown_line([row.title, system, *written, markdown_verdicts(verdicts)]))
        return "\n".join(lines) + "\n"

    def json_lines(self) -> Iterator[dict[str, object]]:
        summary = summarise(self.readings)
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        for row in self.rows:
            for system in self.systems:
                readings = [one for one in self.readings if (one.row, one.system) == (row.name, system)]
                yield {
                    "at": at,
                    "row": row.name,
                    "title": row.title,
                    "load": repr(row.load),
                    "scale": self.scale,
                    "system": system,
                    "version": self.versions[system],
                    "host": dict(self.host),
                    "repeats": len(readings),
                    "metrics": {
                        name: {
                            "unit": metric.unit,
                            "median": spread.median,
                            "min": spread.least,
                            "max": spread.greatest,
                            "values": [one.values[name] for one in readings if name in one.values],
                        }
                        for name, metric in METRICS.items()
                        if (spread := summary.get((row.name, system, name))) is not None
                    },
                    "verdicts": [one.text() for one in self.verdicts(row)] if system == HEADRACE else [],
                    "failures": [one.text for one in self.failures if (one.block, one.system) == (row.block, system)],
                }

    def verdicts(self, row: Scenario) -> list[Verdict]:
        """None for a smoke run: its figures are of a broker that has hardly begun."""
        if self.scale != 1:
            return []
        summary = summarise(self.readings)
        return [
            judge(
                requirement,
                ours=summary.get((row.name, HEADRACE, requirement.metric)),
                rival=summary.get((row.name, KAFKA, requirement.metric)),
            )
            for requirement in row.requires
        ]

    def any_short(self) -> bool:
        return any(verdict.result == SHORT for row in self.rows for verdict in self.verdicts(row))

    def notes(self) -> list[str]:
        """What the reader must know before trusting a row."""
        machine = ", ".join(f"{name} {value}" for name, value in self.host.items())
        lines = [f"Machine: {machine}. Run time {self.seconds / 60:.1f} min."]
        if self.scale != 1:
            lines.append(f"Smoke run, {self.scale:g} of the work: it shows that the bench works, and judges nothing.")
        lines.extend(self._disturbances())
        lines.extend(
            f"Failed: {one.block} on {one.system}, repeat {one.repeat + 1}: {one.text}" for one in self.failures
        )
        return lines

    def _disturbances(self) -> Iterator[str]:
        summary = summarise(self.readings)
        for gauge in _GAUGES:
            over = [
                f"{row.name} on {system} {gauge.write(spread.median)}"
                for row in self.rows
                for system in self.systems
                if (spread := summary.get((row.name, system, gauge.metric))) is not None
                if spread.median > gauge.limit(summary.get((row.name, system, "latency_ms_p99")))
            ]
            if over:
                yield f"{gauge.meaning}: {', '.join(over)}."

    def _title(self) -> str:
        names = " against ".join(f"{system} {self.versions[system]}" for system in self.systems)
        repeats = max((reading.repeat + 1 for reading in self.readings), default=0)
        return f"{names}, {repeats} repeats: median, least..greatest"

    def _lines(self) -> Iterator[tuple[Scenario, str, list[Spread | None]]]:
        summary = summarise(self.readings)
        for row in self.rows:
            for system in self.systems:
                yield row, system, [summary.get((row.name, system, metric.name)) for metric in COLUMNS]
