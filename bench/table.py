"""The race's one table, for a terminal and as Markdown: of each row what each target did, and the verdicts.

Reads the lab's results; measures nothing. What was sent, what was consumed of it and a restart after it are lines of
their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from rich.table import Table

from bench.cells import Judged, markdown_cell, markdown_line, markdown_verdicts, rich_cell, rich_verdicts
from bench.metrics import Metric
from headrace.lab.gate import mostly_refused
from headrace.lab.intervals import Spread, spread_of
from headrace.lab.race import Race
from headrace.lab.requirements import Requirement, Result, judge
from headrace.lab.results import Results
from headrace.lab.workload import Cell, Workload

_COLUMNS: Final = ("messages/s", "MiB/s", "CPU-s/GB", "p50 ms", "p99 ms", "p99.9 ms", "idle MB", "peak MB", "start s")


def _metrics(**named: tuple[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric(name=name, title=title, unit=unit) for name, (title, unit) in named.items())


class _Part(NamedTuple):
    """What a repeat came to, line by line. Metrics without a column are only judged."""

    suffix: str  # Of the row's title.
    metrics: tuple[Metric, ...]


_PARTS: Final = (
    _Part(
        "",
        _metrics(
            rate_per_s=("messages/s", "/s"),
            mb_per_s=("MiB/s", "MiB/s"),
            sending_cpu_s_per_gb=("CPU-s/GB", "s/GB"),
            # A row has latencies of one kind: to the consumer where there is one, else to the acknowledgement.
            end_to_end_p50_ms=("p50 ms", "ms"),
            end_to_end_p99_ms=("p99 ms", "ms"),
            end_to_end_p999_ms=("p99.9 ms", "ms"),
            send_latency_p50_ms=("p50 ms", "ms"),
            send_latency_p99_ms=("p99 ms", "ms"),
            send_latency_p999_ms=("p99.9 ms", "ms"),
            idle_memory_mb=("idle MB", "MB"),
            sending_memory_mb_peak=("peak MB", "MB"),
            start_s=("start s", "s"),
            sending_cpu_second_half_ratio=("CPU of 2nd half / 1st", "x"),
            sending_memory_mb_growth=("memory grown in 2nd half MB", "MB"),
        ),
    ),
    _Part(
        ": consumed",
        _metrics(
            consumed_per_s=("messages/s", "/s"),
            consumed_mb_per_s=("MiB/s", "MiB/s"),
            consuming_cpu_s_per_gb=("CPU-s/GB", "s/GB"),
            consuming_memory_mb_peak=("peak MB", "MB"),
            consuming_cpu_second_half_ratio=("CPU of 2nd half / 1st", "x"),
            consuming_memory_mb_growth=("memory grown in 2nd half MB", "MB"),
        ),
    ),
    _Part(": restarted with a warm cache", _metrics(restart_s=("start s", "s"))),
)


class _Line(NamedTuple):
    title: str
    target: str
    cells: Sequence[tuple[Metric, Spread] | None]  # By column.
    judged: Sequence[Judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceTable:
    race: Race
    results: Mapping[str, Results]  # By target.
    seconds: float

    def rich_table(self) -> Table:
        """Median above, least and greatest below."""
        table = Table(title=self._title())
        table.add_column("row", max_width=30)
        table.add_column("target")
        for title in _COLUMNS:
            table.add_column(title, justify="right")
        table.add_column("verdict")
        before = ""
        for line in self._lines():
            if before not in ("", line.title):
                table.add_section()
            table.add_row(
                "" if line.title == before else line.title,
                line.target,
                *("" if cell is None else rich_cell(*cell) for cell in line.cells),
                rich_verdicts(line.judged),
            )
            before = line.title
        return table

    def markdown(self) -> str:
        heads = ["row", "target", *_COLUMNS, "verdict"]
        lines = [f"{self._title()}.", "", *self.notes(), "", markdown_line(heads), markdown_line(["---"] * len(heads))]
        for line in self._lines():
            written = ["" if cell is None else markdown_cell(*cell) for cell in line.cells]
            lines.append(markdown_line([line.title, line.target, *written, markdown_verdicts(line.judged)]))
        return "\n".join(lines) + "\n"

    def any_short(self) -> bool:
        return any(one.verdict.result == Result.SHORT for line in self._lines() for one in line.judged)

    def failures(self) -> list[str]:
        return [
            f"Failed: {name} on {target}, repeat {line.repeat + 1}: {line.partial}"
            for name, target, results, cell in self._measured()
            for line in results.repeats_of(cell)
            if line.partial is not None
        ]

    def notes(self) -> list[str]:
        """What the reader must know before trusting a row."""
        host = next(iter(self.results.values())).scenario.host
        machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in host.items())
        lines = [f"Machine: {machine}. Run time {self.seconds / 60:.1f} min."]
        if self.race.scale != 1:
            lines.append(
                f"Smoke run, {self.race.scale:g} of the work: it shows that the bench works, and judges nothing."
            )
        return [*lines, *self._doubts(), *self.failures()]

    def _doubts(self) -> Iterator[str]:
        disturbed = []
        for name, target, results, cell in self._measured():
            lines = [line for line in results.repeats_of(cell) if line.partial is None]
            if lines and (excess := median(line.disturbance or 0.0 for line in lines)) > 1:
                disturbed.append(f"{name} on {target} {excess:.1f} x")
        if disturbed:
            yield f"Disturbed by other processes or the host, in multiples of what is let pass: {', '.join(disturbed)}."

    def _title(self) -> str:
        def version(target: str) -> str:
            told = self.results[target].scenario.versions
            return next((told[name] for name in ("headrace (node)", "Apache Kafka") if name in told), "")

        names = " against ".join(f"{target} {version(target)}" for target in self.results)
        repeats = max((line.repeat + 1 for each in self.results.values() for line in each.repeats), default=0)
        return f"{names}, {repeats} repeats: median, least..greatest"

    def _measured(self) -> Iterator[tuple[str, str, Results, Mapping[str, object]]]:
        for name, workload, cell in self.race.rows():
            for target, results in self.results.items():
                yield name, target, results, _key(workload, cell)

    def _lines(self) -> Iterator[_Line]:
        for _, workload, cell in self.race.rows():
            for part in _PARTS:
                by_target = {target: self._figures(target, workload, cell, part) for target in self.results}
                if not any(by_target.values()):
                    continue
                for target, figures in by_target.items():
                    is_ours = target == self.race.targets[0].name
                    yield _Line(
                        title=cell.title + part.suffix,
                        target=target,
                        cells=[figures.get(title) for title in _COLUMNS],
                        judged=self._judged(workload, cell, part) if is_ours else [],
                    )

    def _figures(self, target: str, workload: Workload, cell: Cell, part: _Part) -> dict[str, tuple[Metric, Spread]]:
        """By column."""
        found = {}
        for metric in part.metrics:
            if values := self._values(target, workload, cell, metric.name):
                found[metric.title] = metric, spread_of(values)
        return found

    def _judged(self, workload: Workload, cell: Cell, part: _Part) -> list[Judged]:
        """None for a smoke run: its figures are of a broker that has hardly begun."""
        if self.race.scale != 1:
            return []
        titles = {metric.name: metric.title for metric in part.metrics}
        ours = self.race.targets[0].name
        return [
            Judged(
                judge(
                    requirement,
                    self._values(ours, workload, cell, requirement.metric),
                    self._values(requirement.rival, workload, cell, requirement.metric),
                    refused=self._refusal(requirement, workload, cell),
                ),
                titles[requirement.metric],
            )
            for requirement in cell.require
            if requirement.metric in titles
        ]

    def _refusal(self, requirement: Requirement, workload: Workload, cell: Cell) -> str | None:
        """On which target the gate did not let the figures pass, and why."""
        for target in (self.race.targets[0].name, requirement.rival):
            if target in self.results:
                repeats = self.results[target].repeats_of(_key(workload, cell))
                if why := mostly_refused(repeats, requirement.metric):
                    return f"{target}: {why}"
        return None

    def _values(self, target: str | None, workload: Workload, cell: Cell, metric: str) -> list[float]:
        if target is None or target not in self.results:
            return []
        return self.results[target].values(_key(workload, cell), metric)


def _key(workload: Workload, cell: Cell) -> dict[str, object]:
    return {"workload": workload.name, **cell.values}


JUDGED: Final = frozenset(metric.name for part in _PARTS for metric in part.metrics)
