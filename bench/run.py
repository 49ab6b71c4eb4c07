"""`python -m bench.run`: the whole race, or a part of it.

For each block of rows and each repeat, each system in turn: start it on an empty directory, warm it up, put
the loads on it, stop it, remove its data. The systems never run at the same time, and alternate, so that a
slow minute of the machine does not fall on one of them alone. A block in which other processes or the host took
much of the CPU is measured again, and of each row the calmest attempt counts. A load that fails costs its block's
figures for that repeat, is listed under the table, and makes the exit status 1.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import report
from bench.company import company
from bench.errors import LoadError
from bench.host import host_facts
from bench.journal import Journal
from bench.loads import Load, Outcome, Site
from bench.results import Reading, calmest, disturbance, spread_of
from bench.scenarios import SATURATION_ROW, WARM_UP, Scenario, blocks, choose
from bench.signals import end_in_order
from bench.systems import HEADRACE, KAFKA, SYSTEMS, VERSIONS, fresh_broker
from bench.warm_memory import WarmMemory
from headrace.errors import HeadraceError
from headrace.lab.readings import process_tree
from headrace.lab.readings.meter import Meter
from headrace.lab.readings.process_tree import Course
from tests.oracle.toolbox import ToolMissing

# How brokers, tools and clients say that they did not do as told. Anything else is our bug, and ends the run.
FAILURES: Final = (LoadError, HeadraceError, KafkaException, RuntimeError, subprocess.TimeoutExpired)

_QUICK_SCALE: Final = 0.05
_TABLE_COLUMNS: Final = 190
_DISK_MARGIN_BYTES: Final = 4 << 30
# Beside the log: the page cache of indexes, the JVM's heap, the client's queues.
_MEMORY_MARGIN_BYTES: Final = 1 << 30


@dataclass(slots=True)
class Run:
    """What one run was asked for, and what it has found."""

    rows: tuple[Scenario, ...]
    systems: tuple[str, ...]
    repeats: int
    attempts_max: int
    scale: float
    directory: Path
    journal: Journal | None = None
    found: Sequence[Reading] = ()  # What an interrupted run had measured.
    readings: list[Reading] = field(default_factory=list)
    failures: list[report.Failure] = field(default_factory=list)

    def saturation_per_s(self) -> float | None:
        """Kafka's where it is measured, so that both systems meet the same absolute rate."""
        of_system = KAFKA if KAFKA in self.systems else self.systems[0]
        rates = [
            reading.values["messages_per_s"]
            for reading in self.readings
            if reading.row == SATURATION_ROW and reading.system == of_system
        ]
        return spread_of(rates).median if rates else None

    def go(self, progress: Progress) -> None:
        grouped = blocks(self.rows)
        task = progress.add_task("", total=len(grouped) * self.repeats * len(self.systems))
        warm = WarmMemory()
        try:
            for rows in grouped:
                for repeat in range(self.repeats):
                    for system in self.systems:
                        where = f"{rows[0].block}, {system}, repeat {repeat + 1}"
                        progress.update(task, description=where)
                        try:
                            self.repeat_until_calm(rows, system, repeat, warm)
                        except FAILURES as error:
                            failure = report.Failure(rows[0].block, system, repeat, str(error))
                            self.failures.append(failure)
                            progress.console.print(f"failed: {where}: {error}", style="red", markup=False)
                        progress.advance(task)
        finally:
            warm.close()

    def repeat_until_calm(self, rows: Sequence[Scenario], system: str, repeat: int, warm: WarmMemory) -> None:
        names = [row.name for row in rows]
        attempts = [one for one in self.found if one.row in names and (one.system, one.repeat) == (system, repeat)]
        while not _suffices(attempts, names, attempts_max=self.attempts_max):
            measured = self._run_block(rows, system, repeat, warm)
            attempts += measured
            if self.journal is not None:
                self.journal.add(measured)
        self.readings += calmest(attempts)

    def _run_block(self, rows: Sequence[Scenario], system: str, repeat: int, warm: WarmMemory) -> list[Reading]:
        is_start = rows[0].block == "start"  # Of a broker that has met nobody yet.
        warm_up = () if is_start else WARM_UP
        loads = [*warm_up, *(row.load for row in rows)]
        written_bytes = sum(load.written_bytes(self.scale) for load in loads)
        if shutil.disk_usage(self.directory).free < written_bytes + _DISK_MARGIN_BYTES:
            raise LoadError(f"needs {written_bytes / 1e9:.1f} GB of disk and some to spare")
        warm.fill(written_bytes + _MEMORY_MARGIN_BYTES)
        with warm.feeding(), fresh_broker(system, under=self.directory) as broker:
            site = Site(broker, self.scale, broker.start(), self.saturation_per_s())
            beside = company(broker.bootstrap, metrics_url=broker.metrics_url)
            with nullcontext() if is_start else beside:
                for load in warm_up:
                    load.run(site)
                return [
                    Reading(row=row.name, system=system, repeat=repeat, values=measure(row.load, site)) for row in rows
                ]


def _suffices(attempts: Sequence[Reading], names: Sequence[str], *, attempts_max: int) -> bool:
    """Whether every row was measured undisturbed, or as often as may be."""
    tries = min(sum(one.row == name for one in attempts) for name in names)
    return tries >= attempts_max or (tries > 0 and all(disturbance(one) <= 1 for one in calmest(attempts)))


def measure(load: Load, site: Site) -> dict[str, float]:
    """Run a load, and what it cost the broker and the machine meanwhile, by metric name."""
    pid = site.broker.pid
    process_tree.reset_peak(pid)
    with Meter(broker=pid) as meter, Course(pid) as course:
        outcome = load.run(site)
    values = dict(outcome.values)
    values["memory_mb_peak"] = process_tree.peak_bytes(site.broker.pid) / 1e6
    if site.broker.pid == pid and outcome.messages:
        values |= _rates(outcome, meter.cpu_s["broker"]) | _halves(outcome, course) | meter.shares
    return values


def _rates(outcome: Outcome, broker_cpu_s: float) -> dict[str, float]:
    return {
        "messages_per_s": outcome.messages / outcome.seconds,
        "mb_per_s": outcome.value_bytes / outcome.seconds / 1e6,
        "cpu_s_per_gb": broker_cpu_s / (outcome.value_bytes / 1e9),
    }


def _halves(outcome: Outcome, course: Course) -> dict[str, float]:
    """What the second half of the work cost against the first; nothing where the load does not tell."""
    if outcome.course_ns is None:
        return {}
    begin, half, end = (course.at(instant_ns) for instant_ns in outcome.course_ns)
    values = {"memory_mb_growth": (end.resident_bytes - half.resident_bytes) / 1e6}
    if half.cpu_s > begin.cpu_s:
        values["cpu_second_half_ratio"] = (end.cpu_s - half.cpu_s) / (half.cpu_s - begin.cpu_s)
    return values


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Race Headrace against Apache Kafka.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little work, one repeat, no long log")
    parser.add_argument("--rows", help="names of rows, comma-separated, * allowed (default: all)")
    parser.add_argument("--repeats", type=int, help="how often each row is measured (default 3; quick 1)")
    parser.add_argument(
        "--attempts", type=int, help="how often at most a disturbed block is measured per repeat (default 3; quick 1)"
    )
    parser.add_argument("--only", choices=list(SYSTEMS), help="measure one system alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append one JSON line per row and system")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep each reading here, and go on from what is there already"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--directory", type=Path, help="where brokers keep their data (default: TMPDIR)")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a requirement is short")
    options = parser.parse_args(arguments)
    if options.quick and options.strict:
        parser.error("a smoke run judges nothing: --strict needs a full one")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    console = Console()
    console = Console(width=max(console.width, _TABLE_COLUMNS))
    # So that brokers and loads are ended on the way out of an interrupted run.
    end_in_order()
    try:
        rows = choose(options.rows.split(",") if options.rows else None, quick=options.quick)
        facts = host_facts()
    except (LookupError, ToolMissing, LoadError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    systems = (options.only,) if options.only else (HEADRACE, KAFKA)
    versions = {system: VERSIONS[system]() for system in systems}
    scale = _QUICK_SCALE if options.quick else 1.0
    journal = Journal(options.resume, versions=versions, scale=scale) if options.resume else None
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as directory:
        run = Run(
            rows=rows,
            systems=systems,
            repeats=options.repeats or (1 if options.quick else 3),
            attempts_max=options.attempts or (1 if options.quick else 3),
            scale=scale,
            directory=Path(directory),
            journal=journal,
            found=journal.readings() if journal else (),
        )
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # Redrawn seldom: the measured processes need both cores.
        with Progress(*columns, console=console, refresh_per_second=1) as progress:
            run.go(progress)
    table = report.Report(
        rows=rows,
        systems=systems,
        readings=run.readings,
        failures=run.failures,
        host=facts,
        versions=versions,
        seconds=time.monotonic() - began_s,
        scale=scale,
    )
    console.print(table.rich_table())
    for note in table.notes():
        console.print(note, markup=False)
    if options.markdown:
        options.markdown.write_text(table.markdown())
    if options.json:
        with options.json.open("a") as lines:
            lines.writelines(json.dumps(line) + "\n" for line in table.json_lines())
    return 1 if run.failures or (options.strict and table.any_short()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
