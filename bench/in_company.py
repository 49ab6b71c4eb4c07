"""`python -m bench.in_company`: what a group at work and a scraped metrics port cost the loads beside them.

The race measures a node in company. Here the rows that have a rate are measured on one node with its company awake and
asleep by turns, a second apart, since a machine that shares its CPUs with others is half as fast in one minute as in
the next. Each turn gives a ratio of its own, the order changes with each, and what counts is the middle of them with
the interval that holds it in 19 cases of 20. No rate may fall by more than a twentieth.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import engines
from bench.cells import markdown_line
from bench.host import headrace_version, load_facts
from bench.metrics import Metric
from bench.run import RACE
from bench.signals import end_in_order
from headrace.errors import HeadraceError
from headrace.lab.bystanders import bystanders
from headrace.lab.facts import host_facts, versions
from headrace.lab.fitting import written_bytes
from headrace.lab.host.warm_memory import WarmMemory
from headrace.lab.intervals import Interval, paired_interval, spread_of
from headrace.lab.race import Race, read_race
from headrace.lab.racing import FAILURES, MEMORY_MARGIN_BYTES, warm_up
from headrace.lab.repeat import run_repeat
from headrace.lab.results import RepeatLine, ResultsWriter, ScenarioLine, cell_key, read_results
from headrace.lab.targets.running import running
from headrace.lab.targets.spec import parse_target
from headrace.lab.workload import Cell, Workload
from tests.oracle.toolbox import ToolMissing

ALONE: Final = "alone"
IN_COMPANY: Final = "in company"
# A log of 10 GB takes most of the time and is the bulk rows' path; its own question is whether cost grows. Who wants it
# asks for it by its name, with fewer repeats.
ONLY_BY_NAME: Final = "long"
FALL_MAX: Final = 0.05
REPEATS_MIN: Final = 6  # Of fewer, even the least and the greatest miss the middle in more than one case of 20.
HOLDS: Final = "holds"
FELL: Final = "fell"
OPEN: Final = "not decided"

# What was measured is deleted at once, not a minute later, when somebody else is being measured.
NODE: Final = parse_target({"kind": "node", "properties": {"log.segment.delete.delay.ms": 0}}, name="node")

_HOW: Final = "bystanders"  # In a cell of the results.
_HEADS: Final = ("row", ALONE, IN_COMPANY, "ratio", "CPU-s/GB", "disturbed", "verdict")
_SETTLE_S: Final = 0.5


class Rate(NamedTuple):
    """One of a repeat's, with what it cost."""

    metric: Metric
    cost: str
    suffix: str  # Of the row's title.


RATES: Final = (
    Rate(Metric(name="rate_per_s", title="messages/s", unit="/s"), "sending_cpu_s_per_gb", ""),
    Rate(Metric(name="consumed_per_s", title="messages/s", unit="/s"), "consuming_cpu_s_per_gb", ": consumed"),
)


def with_a_rate(race: Race, *, named: Sequence[str] = ()) -> list[Workload]:
    """Those of which messages per second at full speed are asked; they are not restarted here."""
    left_out = {ONLY_BY_NAME} - set(named)
    found = []
    for workload in race.workloads:
        cells = [
            replace(cell, load=replace(cell.load, restart=False))
            for cell in workload.cells
            if workload.name not in left_out and any(each.metric == "rate_per_s" for each in cell.require)
        ]
        if cells:
            found.append(replace(workload, cells=cells))
    return found


def order(repeat: int) -> tuple[str, str]:
    """Who comes first in it."""
    return (ALONE, IN_COMPANY) if repeat % 2 == 0 else (IN_COMPANY, ALONE)


def verdict(ratio: Interval) -> str:
    if ratio.low >= 1 - FALL_MAX:
        return HOLDS
    return FELL if ratio.high < 1 - FALL_MAX else OPEN


def cell_of(workload: Workload, cell: Cell, how: str) -> dict[str, Any]:
    return {"workload": workload.name, **cell.values, _HOW: how}


class Measured:
    """By cell and repeat, what was measured."""

    def __init__(self, lines: Sequence[RepeatLine]) -> None:
        self._lines = {(cell_key(line.cell), line.repeat): line for line in lines}

    def of(self, workload: Workload, cell: Cell, how: str) -> dict[int, RepeatLine]:
        """By repeat."""
        key = cell_key(cell_of(workload, cell, how))
        return {repeat: line for (found, repeat), line in self._lines.items() if found == key}

    def ratios(self, workload: Workload, cell: Cell, metric: str) -> list[float]:
        """Of each repeat that was measured both ways, in company to alone."""
        alone, both = (self._values(workload, cell, how, metric) for how in (ALONE, IN_COMPANY))
        return [both[repeat] / alone[repeat] for repeat in sorted(alone.keys() & both.keys())]

    def _values(self, workload: Workload, cell: Cell, how: str, metric: str) -> dict[int, float]:
        found = self.of(workload, cell, how)
        return {repeat: line.metrics[metric] for repeat, line in found.items() if metric in line.metrics}

    def table_lines(self, workloads: Sequence[Workload]) -> Iterator[tuple[str, ...]]:
        """Of each rate measured both ways, the cells of its line."""
        for workload in workloads:
            for cell in workload.cells:
                for rate in RATES:
                    if ratios := self.ratios(workload, cell, rate.metric.name):
                        yield self._line(workload, cell, rate, paired_interval(ratios))

    def _line(self, workload: Workload, cell: Cell, rate: Rate, ratio: Interval) -> tuple[str, ...]:
        written = []
        for how in (ALONE, IN_COMPANY):
            spread = spread_of([*self._values(workload, cell, how, rate.metric.name).values()])
            least, greatest = rate.metric.write(spread.least), rate.metric.write(spread.greatest)
            written.append(f"{rate.metric.write(spread.median)} ({least}..{greatest})")
        cost = paired_interval(self.ratios(workload, cell, rate.cost))
        disturbed = [
            line.disturbance or 0.0 for how in (ALONE, IN_COMPANY) for line in self.of(workload, cell, how).values()
        ]
        return (
            cell.title + rate.suffix,
            *written,
            *(f"{each.value:.3f} ({each.low:.3f}..{each.high:.3f})" for each in (ratio, cost)),
            f"{median(disturbed):.1f} x, at most {max(disturbed):.1f} x",
            verdict(ratio),
        )


def measure(race: Race, workload: Workload, *, repeats: Sequence[int], warm: WarmMemory) -> Iterator[list[RepeatLine]]:
    """On one node: of each repeat every cell, each both ways at once."""
    with (
        running(NODE) as target,
        bystanders(target.settings, metrics_urls=target.metrics) as beside,
    ):
        warm_up(race, target)
        for repeat in repeats:
            lines = []
            for number, cell in enumerate(workload.cells):
                for how in order(repeat):
                    # Either way on a topic of its own, and from the same memory.
                    warm.fill(round(written_bytes(cell.load) or 0) + MEMORY_MARGIN_BYTES)
                    with warm.feeding(), beside.asleep() if how == ALONE else nullcontext():
                        time.sleep(_SETTLE_S)
                        line = run_repeat(
                            cell,
                            repeat,
                            target,
                            topic=f"{workload.name}-{number}-{repeat}-{how.replace(' ', '-')}",
                            tell=lambda second: None,
                            thresholds=workload.gate,
                        )
                    lines.append(replace(line, cell=cell_of(workload, cell, how)))
            yield lines


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.in_company", description="Measure a node alone and in company, by turns."
    )
    parser.add_argument(
        "--rows",
        help=f"names of rows, comma-separated, * allowed (default: all with a rate but {ONLY_BY_NAME})",
    )
    parser.add_argument("--repeats", type=int, default=12, help="how often each row is measured each way (default 12)")
    parser.add_argument("--scale", type=float, default=0.25, help="share of the race's work (default 0.25)")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep the lab's results here, and go on from what is there already"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    options = parser.parse_args(arguments)
    if options.repeats < REPEATS_MIN:
        parser.error(f"fewer than {REPEATS_MIN} repeats decide nothing")
    end_in_order()
    console = Console(width=max(Console().width, 160))
    try:
        engines.register_all()
        race = read_race(RACE).scaled(options.scale)
        named = options.rows.split(",") if options.rows else []
        if named:
            race = race.chosen(named)
        facts = {**host_facts(), **load_facts()}
    except (HeadraceError, ToolMissing) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    workloads = with_a_rate(race, named=named)
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            found = _go(race, workloads, options.repeats, options.resume or Path(directory) / "results", facts, console)
    except FAILURES as error:
        console.print(f"failed: {error}", style="red", markup=False)
        return 1
    table = list(found.table_lines(workloads))
    notes = [
        f"headrace {headrace_version()}, {options.repeats} repeats by turns, {options.scale:g} of the race's work, "
        f"{(time.monotonic() - began_s) / 60:.1f} min. Rates: median, least..greatest. Ratios: middle, and the "
        "interval that holds it in 19 cases of 20. Disturbed: by other processes or the host, in multiples of what is "
        "let pass." + ("" if named else f" Not measured: the row {ONLY_BY_NAME}."),
        "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".",
    ]
    shown = Table(*_HEADS)
    for line in table:
        shown.add_row(*line)
    console.print(shown)
    for note in notes:
        console.print(note, markup=False)
    if options.markdown:
        written = [_HEADS, ["---"] * len(_HEADS), *table]
        options.markdown.write_text("\n".join([*notes, "", *map(markdown_line, written)]) + "\n")
    return int(any(line[-1] != HOLDS for line in table))


def _go(
    race: Race,
    workloads: Sequence[Workload],
    repeats: int,
    out: Path,
    facts: Mapping[str, Any],
    console: Console,
) -> Measured:
    scenario = ScenarioLine(
        name="in-company",
        workload=race.to_json(),
        target=NODE.to_json(),
        seed=1,
        versions=versions() | {"headrace (node)": headrace_version()},
        host=facts,
        started=datetime.now(UTC).isoformat(),
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    writer = ResultsWriter.into(out, scenario)
    lines = [*read_results(writer.path).repeats] if writer.path.exists() else []
    with (
        writer,
        closing(WarmMemory()) as warm,
        Progress(*columns, console=console, refresh_per_second=1) as progress,
    ):
        task = progress.add_task("", total=repeats * sum(len(each.cells) for each in workloads))
        for workload in workloads:
            progress.update(task, description=workload.name)
            missing = [repeat for repeat in range(repeats) if not _is_measured(workload, repeat, Measured(lines))]
            progress.advance(task, (repeats - len(missing)) * len(workload.cells))
            if not missing:
                continue
            for measured in measure(race, workload, repeats=missing, warm=warm):
                for line in measured:
                    writer.write(line)
                lines += measured
                progress.advance(task, len(workload.cells))
    return Measured(lines)


def _is_measured(workload: Workload, repeat: int, found: Measured) -> bool:
    return all(repeat in found.of(workload, cell, how) for cell in workload.cells for how in (ALONE, IN_COMPANY))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
