"""`format("headrace")` against Spark's own Kafka connector, on our node and on Apache Kafka, in one run.

    python -m bench.connector [--quick] [--repeats 3] [--rows on-headrace,on-kafka,growth] [--markdown FILE]

Each broker is given the same ten million web-log lines of 200 bytes, once. Both connectors read them by turns with the
same options into Parquet, all columns of theirs, each time in a fresh Spark that has written a million rows in the same
way before the clock starts: a JVM needs its hot code compiled to show what it can do, and theirs is all JVM. What was
written is read back: every offset once, or there is no figure.

`growth` is ours alone on a topic of fifty million rows, of which one, ten and fifty million are read. That topic and
what is made of it take about 13 GB of disk.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaException
from rich.progress import Progress

from bench import sheet_command
from bench.host import headrace_version, host_facts
from bench.sheet import Claim, Line, Reading, Sheet
from headrace import columnar
from headrace.errors import HeadraceError
from headrace.lab import weblog
from headrace.lab.errors import LabError
from headrace.lab.host.warm_memory import WarmMemory
from headrace.lab.readings import process_tree
from headrace.lab.readings.meter import Meter
from headrace.lab.requirements import at_least, at_most
from headrace.lab.targets.apache_kafka import KAFKA_VERSION
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import find_target
from headrace.lab.topics import create_topic
from tests.oracle.spark_connector import connector_jars
from tests.oracle.toolbox import ToolMissing

OURS: Final = "headrace"
OFFICIAL: Final = "kafka"
CONNECTORS: Final = (OURS, OFFICIAL)  # As `format` calls them.
# By name in rows: the lab's target, and what people call it.
BROKERS: Final = {"headrace": ("node", "our node"), "kafka": ("kafka", "Apache Kafka")}

ROWS: Final = 10_000_000
GROWTH_ROWS: Final = (1_000_000, 10_000_000, 50_000_000)
WARM_UP_ROWS: Final = 1_000_000
VALUE_BYTES: Final = 200
PARTITIONS: Final = 4
TASKS: Final = 8

_TOPIC: Final = "lines"
_GROWTH: Final = "growth"
_QUICK_SCALE: Final = 0.02
_DIFFERENT_LINES: Final = 250_000
_AGENTS: Final = 40
_SEED: Final = 7
_DEADLINE_S: Final = 600
_DISK_MARGIN_BYTES: Final = 4 << 30
_WARM_BYTES_MAX: Final = 4 << 30  # The page cache needs the rest, for the topic.
_FAILURES: Final = (HeadraceError, KafkaException, RuntimeError, subprocess.TimeoutExpired)


# --- What is read ---------------------------------------------------------------------------------------------------


def web_log(rows: int) -> pa.Table:
    """Lines of a web log with the browser that asked, each of exactly 200 bytes."""
    engine = b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    agents = [
        b'%s Chrome/%d.0.6723.%d Safari/537.36 OPR/%d.0.0.0 (Edition River Museum)"' % (engine, 90 + n, n, 70 + n)
        for n in range(_AGENTS)
    ]
    lines = [
        (line + b' "-" "' + agents[number % _AGENTS])[:VALUE_BYTES]
        for number, line in enumerate(islice(weblog.lines(_SEED), rows))
    ]
    assert all(len(line) == VALUE_BYTES for line in lines)
    return pa.table({"value": pa.array(lines, pa.binary())})


def pieces(made: pa.Table, rows: int) -> Iterator[pa.Table]:
    """So many rows, of the same ones again and again."""
    while rows > 0:
        piece = made.slice(0, rows)
        yield piece
        rows -= piece.num_rows


def fill(broker: Target, rows: int) -> None:
    """Into each partition as many."""
    create_topic(broker.settings, _TOPIC, partitions=PARTITIONS)
    made = web_log(min(rows, _DIFFERENT_LINES))
    for partition in range(PARTITIONS):
        columnar.write(broker.bootstrap, _TOPIC, pieces(made, rows // PARTITIONS), partition=partition)


def check_written(directory: Path, rows: int) -> None:
    """That every offset of every partition is there, and once."""
    each, count = rows // PARTITIONS, 0
    seen = np.zeros(rows, np.bool_)
    for file in directory.glob("*.parquet"):
        table = pq.ParquetFile(file).read(columns=["partition", "offset"])
        offsets = table["offset"].to_numpy()
        count += len(offsets)
        if len(offsets) and offsets.max() >= each:
            raise LabError(f"{file.name} has offset {offsets.max()}, of {each} in a partition")
        seen[table["partition"].to_numpy().astype(np.int64) * each + offsets] = True
    if count != rows or not seen.all():
        raise LabError(f"{count} rows were written and {np.count_nonzero(seen)} different ones, of {rows} to be read")


# --- Who reads it ---------------------------------------------------------------------------------------------------


class Client:
    """A Spark of its own with one of the connectors; gone with all that it started when it is left."""

    def __init__(self, connector: str, bootstrap: str, *, jars: Sequence[Path], log: Path) -> None:
        self._command = [sys.executable, "-m", "bench.connector_client", connector, bootstrap]
        self._command += ["--jars", ",".join(map(str, jars))]
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            if error is None:
                self._process.wait(60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, rows: int, into: Path) -> float:
        """Seconds for the first so many rows."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        ends = {str(partition): rows // PARTITIONS for partition in range(PARTITIONS)}
        job = {"topic": _TOPIC, "ends": ends, "tasks": TASKS, "into": str(into)}
        with contextlib.suppress(BrokenPipeError):  # Its last words are in the log.
            stdin.write(json.dumps(job).encode() + b"\n")
            stdin.flush()
        answered, _, _ = select.select([stdout], [], [], _DEADLINE_S)
        line = stdout.readline() if answered else b""
        if not line.startswith(b"{"):
            raise LabError(f"{self._command[3]} said {line!r}:\n{self._log.read_text(errors='replace')[-2000:]}")
        seconds: float = json.loads(line)["seconds"]
        return seconds


def measure(
    connector: str, broker: Target, rows: int, *, warm_up_rows: int, jars: Sequence[Path], under: Path, warm: WarmMemory
) -> dict[str, float]:
    """By metric name."""
    with tempfile.TemporaryDirectory(prefix="bench-spark-", dir=under) as made:
        place = Path(made)
        warm.fill(min(rows * VALUE_BYTES, _WARM_BYTES_MAX))
        with Client(connector, broker.bootstrap, jars=jars, log=place / "log") as client:
            client.run(warm_up_rows, place / "warm-up")
            process_tree.reset_peak(client.pid)
            with warm.feeding(), Meter(spark=client.pid, broker=broker.pid) as meter:
                seconds = client.run(rows, place / "rows")
            peaks = process_tree.peaks(client.pid)
        check_written(place / "rows", rows)
    return (
        {
            "rows_per_s": rows / seconds,
            "cpu_s_per_m_rows": meter.cpu_s["spark"] / rows * 1e6,
            "broker_cpu_s_per_m_rows": meter.cpu_s["broker"] / rows * 1e6,
        }
        | memory(peaks)
        | meter.shares
    )


def memory(peaks: Sequence[process_tree.Peak]) -> dict[str, float]:
    """Of a Spark of one machine: the driver's Python, which began everything, its JVM, and the Python of the tasks."""
    others = peaks[1:]
    jvm = [one for one in others if one.name == "java"]
    workers = [one for one in others if one.name.startswith("python")]
    return {
        "memory_mb_peak": sum(one.size_bytes for one in peaks) / 1e6,
        "jvm_mb_peak": sum(one.size_bytes for one in jvm) / 1e6,
        "workers_mb_peak": sum(one.size_bytes for one in workers) / 1e6,
    }


# --- The whole ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One reading to be taken."""

    row: str
    connector: str
    repeat: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One broker with one topic, and what is read of it."""

    name: str
    broker: str
    rows: int
    steps: tuple[Step, ...]


def scaled(rows: int, scale: float) -> int:
    """In each partition as many."""
    return max(1, round(rows * scale / PARTITIONS)) * PARTITIONS


def growth_row(rows: int) -> str:
    return f"{_GROWTH}-{rows // 1_000_000}m"


def blocks(*, repeats: int, scale: float) -> list[Block]:
    """By turns, each beginning as often as the other."""
    found = []
    for broker in BROKERS:
        name, rows = f"on-{broker}", scaled(ROWS, scale)
        steps = [
            Step(row=name, connector=connector, repeat=repeat, rows=rows)
            for repeat in range(repeats)
            for connector in (CONNECTORS if repeat % 2 == 0 else CONNECTORS[::-1])
        ]
        found.append(Block(name=name, broker=broker, rows=rows, steps=tuple(steps)))
    steps = [
        Step(row=growth_row(rows), connector=OURS, repeat=repeat, rows=scaled(rows, scale))
        for repeat in range(repeats)
        for rows in GROWTH_ROWS
    ]
    whole = scaled(max(GROWTH_ROWS), scale)
    return [*found, Block(name=_GROWTH, broker="headrace", rows=whole, steps=tuple(steps))]


@dataclass(slots=True)
class Run:
    blocks: Sequence[Block]
    warm_up_rows: int
    jars: Sequence[Path]
    directory: Path
    readings: list[Reading] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def go(self, progress: Progress) -> None:
        task = progress.add_task("", total=sum(len(block.steps) for block in self.blocks))
        warm = WarmMemory()
        try:
            for block in self.blocks:
                progress.update(task, description=f"{block.name}: {block.rows:,} rows are written")
                done = 0
                try:
                    with self._filled(block) as broker:
                        for step in block.steps:
                            where = f"{step.row}, {step.connector}, repeat {step.repeat + 1}"
                            progress.update(task, description=where)
                            self._take(step, broker, warm, where)
                            progress.advance(task)
                            done += 1
                except _FAILURES as error:
                    self.failures.append(f"{block.name}: {error}")
                    progress.advance(task, len(block.steps) - done)
        finally:
            warm.close()

    @contextlib.contextmanager
    def _filled(self, block: Block) -> Iterator[Target]:
        needed_bytes = 2 * block.rows * VALUE_BYTES + _DISK_MARGIN_BYTES
        if shutil.disk_usage(self.directory).free < needed_bytes:
            raise LabError(f"{self.directory} has less than {needed_bytes / 1e9:.0f} GB left")
        with running(find_target(BROKERS[block.broker][0])) as broker:
            fill(broker, block.rows)
            yield broker

    def _take(self, step: Step, broker: Target, warm: WarmMemory, where: str) -> None:
        try:
            values = measure(
                step.connector,
                broker,
                step.rows,
                warm_up_rows=min(self.warm_up_rows, step.rows),
                jars=self.jars,
                under=self.directory,
                warm=warm,
            )
        except _FAILURES as error:
            self.failures.append(f"{where}: {error}")
        else:
            self.readings.append(Reading(row=step.row, system=step.connector, repeat=step.repeat, values=values))


def lines(chosen: Sequence[Block], *, scale: float) -> list[Line]:
    names = [block.name for block in chosen]
    found = []
    for broker, (_, title) in BROKERS.items():
        if (row := f"on-{broker}") in names:
            labels = (title, f"{scaled(ROWS, scale):,}")
            rival = (row, OFFICIAL)
            claims = [
                Claim(at_least("rows_per_s", 1, rival="official"), rival),
                Claim(at_most("cpu_s_per_m_rows", 1, rival="official"), rival),
            ]
            found += [
                Line(row=row, system=OURS, labels=(*labels, "headrace"), claims=claims),
                Line(row=row, system=OFFICIAL, labels=(*labels, "kafka, the official one")),
            ]
    if _GROWTH in names:
        least, middle, most = GROWTH_ROWS
        grown = [
            Claim(at_most("cpu_s_per_m_rows", 1, rival="at 1 M"), (growth_row(least), OURS)),
            Claim(at_most("memory_mb_peak", 1.25, rival="at 10 M"), (growth_row(middle), OURS)),
        ]
        for rows in GROWTH_ROWS:
            part = f"{scaled(rows, scale):,} of {scaled(most, scale):,}"
            claims = grown if rows == most else []
            found.append(Line(row=growth_row(rows), system=OURS, labels=("our node", part, "headrace"), claims=claims))
    return found


def facts(jars: Sequence[Path]) -> dict[str, str | int]:
    official = next(jar.stem for jar in jars if jar.name.startswith("spark-sql-kafka"))
    versions = {"headrace broker": headrace_version(), "kafka broker": KAFKA_VERSION}
    return host_facts() | {"pyspark": importlib.metadata.version("pyspark"), "official connector": official} | versions


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.connector", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="some of on-headrace, on-kafka, growth, comma-separated (default: all)")
    sheet_command.add_options(parser)
    options = sheet_command.parse(parser, arguments)
    console = sheet_command.make_console()
    scale = _QUICK_SCALE if options.quick else 1.0
    every = blocks(repeats=options.repeats, scale=scale)
    wanted = options.rows.split(",") if options.rows else [block.name for block in every]
    if strangers := set(wanted).difference(block.name for block in every):
        parser.error(f"no such rows: {', '.join(sorted(strangers))}")
    chosen = [block for block in every if block.name in wanted]
    try:
        jars = connector_jars()
        known = facts(jars)
    except (ToolMissing, LabError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    began_s = time.monotonic()
    if options.directory:
        tempfile.tempdir = str(options.directory)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        sheet_command.shown(console) as progress,
    ):
        run = Run(chosen, scaled(WARM_UP_ROWS, scale), jars, Path(directory))
        run.go(progress)
    sheet = Sheet(
        title=f"{VALUE_BYTES} B rows from a topic into Parquet by Spark, local[2], {TASKS} tasks",
        heads=("broker", "rows", "format"),
        metrics=(
            "rows_per_s",
            "cpu_s_per_m_rows",
            "broker_cpu_s_per_m_rows",
            "memory_mb_peak",
            "jvm_mb_peak",
            "workers_mb_peak",
        ),
        lines=lines(chosen, scale=scale),
        readings=run.readings,
        failures=run.failures,
        facts=known,
        seconds=time.monotonic() - began_s,
        is_judged=not options.quick,
    )
    return sheet_command.finish(sheet, options, console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
