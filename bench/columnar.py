"""The columnar client against confluent-kafka, on our node and on Apache Kafka, in one run.

    python -m bench.columnar [--scale 1] [--repeats 3] [--rows NAME,...] [--jobs read,write] [--targets node,kafka]
                             [--markdown FILE]

For each kind of topic: filled once, then read by both clients by turns into the same Arrow columns, in processes of
their own. Rates are rows per second, and rows per second of CPU that the client took; medians, lowest and highest.
Beside them is what the broker took for a row of ours: on cores that it shares with the client, that is as much a limit.
The rival reads a part of the topic where all of it would take minutes; its rate does not depend on that. A table of a
million rows is written again and again by both, as often as makes the time to begin a small part of it, to topics of
six partitions, and a few times before that counts, first in small batches: a JVM compiles what it has done ten thousand
times, and of large batches it would not have seen as many. The memory that they and the broker take meanwhile is there
already, and what was written before is on the disk.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.engines import send_by_c
from bench.host import host_facts
from bench.signals import end_in_order
from headrace import columnar
from headrace.lab.engines import Terms
from headrace.lab.host.warm_memory import WarmMemory
from headrace.lab.programs import Job
from headrace.lab.readings.process_tree import cpu_s
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import find_target
from headrace.lab.targets.tools import ToolMissing
from headrace.lab.topics import create_topic

READ: Final = "read"
WRITE: Final = "write"
JOBS: Final = (READ, WRITE)
RIVAL_ROWS: Final = 3_000_000
TABLE_ROWS: Final = 1_000_000
PARTITIONS_WRITTEN: Final = 6
WARM_UPS: Final = ("--batch-bytes=16384",) * 3 + ("--batch-bytes=1000000",) * 3
_LARGE: Final = Terms(acks="1", linger_ms=50, batch_messages=10_000, batch_bytes=1_000_000)
_DEADLINE_S: Final = 600
_CLIENT_BYTES: Final = 1 << 30  # Of memory that a client may take, whatever it does.


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of topic. `fill` makes it, and `table`, where there is one, is also written by both clients."""

    name: str
    title: str
    rows: int
    librdkafka: Terms | None = None  # Filled by librdkafka in C, in this manner.
    table: Callable[[int], pa.Table] | None = None  # Filled from this.
    message_bytes: int = 200
    write_options: Mapping[str, Any] = field(default_factory=dict)
    rival: bool = True

    def fill(self, broker: Target, topic: str, rows: int) -> None:
        create_topic(broker.settings, topic, partitions=1)
        if self.librdkafka is not None:
            send_by_c(
                Job(
                    bootstrap=broker.bootstrap,
                    topic=topic,
                    messages=rows,
                    size_bytes=self.message_bytes,
                    terms=self.librdkafka,
                )
            )
        else:
            assert self.table is not None
            made = self.table(min(rows, TABLE_ROWS))
            while rows > 0:
                columnar.write(broker.bootstrap, topic, made.slice(0, rows), **self.write_options)
                rows -= made.num_rows


def plain(rows: int) -> pa.Table:
    """Two hundred bytes each, which no codec can make smaller."""
    data = np.random.default_rng(1).integers(0, 256, rows * 200, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * 200
    return pa.table(
        {"value": pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])}
    )


def mixed(rows: int) -> pa.Table:
    """Keys, none to three headers, values of 10 to 2,000 bytes."""
    chance = random.Random(2)
    sizes = np.random.default_rng(2).integers(10, 2001, rows)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.random.default_rng(3).integers(0, 256, int(offsets[-1]), np.uint8)
    value = pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    some = [[{"key": f"trace-{n}", "value": b"%032x" % n} for n in range(count)] for count in range(4)]
    headers = pa.array(
        [some[chance.randrange(4)] for _ in range(rows)],
        pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    )
    return pa.table(
        {"key": [b"user-%08d" % chance.randrange(rows) for _ in range(rows)], "value": value, "headers": headers}
    )


def text(rows: int) -> pa.Table:
    """Lines of a web log, about 200 bytes each, which compress as such lines do."""
    chance = random.Random(4)
    pages = [f"/{chance.choice(['shop', 'blog', 'api'])}/{chance.randrange(5000)}" for _ in range(2000)]
    browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome"
    agents = [f"{browser}/{90 + n}.0" for n in range(40)]
    lines = []
    for n in range(min(rows, 100_000)):
        host = ".".join(str(chance.randrange(256)) for _ in range(3))
        request = f"GET {chance.choice(pages)} HTTP/1.1"
        time_text = f"15/Nov/2026:10:{n // 60 % 60:02}:{n % 60:02} +0000"
        size = chance.randrange(90_000)
        lines.append(f'10.{host} - - [{time_text}] "{request}" 200 {size} "{chance.choice(agents)}"')
    return pa.table({"value": pa.array((lines * (rows // len(lines) + 1))[:rows], pa.string())})


ROWS: Final = (
    Row(name="large", title="200 B, large librdkafka batches", rows=10_000_000, librdkafka=_LARGE),
    Row(
        name="16k",
        title="200 B, 16 KiB librdkafka batches",
        rows=10_000_000,
        librdkafka=Terms(acks="1", linger_ms=5, batch_bytes=16_384),
    ),
    Row(
        name="80",
        title="200 B, 80 records a batch",
        rows=10_000_000,
        librdkafka=Terms(acks="1", linger_ms=5, batch_bytes=1_000_000, batch_messages=80),
    ),
    Row(name="mixed", title="keys, 0-3 headers, values of 10-2,000 B", rows=3_000_000, table=mixed),
    Row(name="write", title="200 B, written from Arrow", rows=10_000_000, table=plain),
    *(
        Row(name=codec, title=f"web log, {codec}", rows=10_000_000, table=text, write_options={"compression": codec})
        for codec in ("gzip", "snappy", "lz4")
    ),
    *(
        Row(
            name=f"zstd-{level}",
            title=f"web log, zstd at level {level}",
            rows=10_000_000,
            table=text,
            write_options={"compression": "zstd", "compression_level": level},
        )
        for level in (1, 3)  # Arrow's default, and Kafka's.
    ),
    Row(
        name="10gb",
        title="10 GB of 1 kB, all of it",
        rows=10_000_000,
        librdkafka=_LARGE,
        message_bytes=1000,
        rival=False,
    ),
)  # fmt: skip


@dataclass(slots=True)
class Readings:
    """Of one client at one kind of topic."""

    per_s: list[float] = field(default_factory=list)
    per_cpu_s: list[float] = field(default_factory=list)
    broker_ns: list[float] = field(default_factory=list)  # Of CPU for a row.
    resident_mb: list[tuple[float, float]] = field(default_factory=list)

    def add(self, told: Mapping[str, Any]) -> None:
        self.per_s.append(told["rows"] / told["seconds"])
        self.per_cpu_s.append(told["rows"] / told["cpu_s"])
        self.broker_ns.append(1e9 * told["broker_cpu_s"] / told["rows"])
        self.resident_mb.append((told["resident_bytes_at_a_tenth"] / 1e6, told["resident_bytes_max"] / 1e6))


def run_client(
    client: str, broker: Target, topic: str, *options: str, warm: WarmMemory, written_bytes: int = 0
) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.columnar_clients", client, broker.bootstrap, topic, *options]
    os.sync()
    warm.fill(_CLIENT_BYTES + written_bytes)
    broker_cpu_s = cpu_s(broker.pid)
    with warm.feeding():
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**told, "broker_cpu_s": cpu_s(broker.pid) - broker_cpu_s}


def measure(
    row: Row, target: str, *, jobs: Sequence[str], scale: float, repeats: int, warm: WarmMemory
) -> dict[str, Readings]:
    rows = max(10_000, int(row.rows * scale))
    found: dict[str, Readings] = {}
    with running(find_target(target)) as broker:
        if READ in jobs:
            row.fill(broker, row.name, rows)
            found |= measure_reading(row, broker, rows, repeats=repeats, warm=warm)
        if WRITE in jobs and row.table is not None:
            made = row.table(min(rows, TABLE_ROWS))
            times = max(1, rows // made.num_rows)
            with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
                with pa.ipc.new_file(file.name, made.schema) as out:
                    out.write_table(made)
                codec = row.write_options.get("compression", "none")
                options = ["--table", file.name, "--times", str(times), "--compression", codec]
                if (level := row.write_options.get("compression_level")) is not None:
                    options += ["--level", str(level)]
                written_bytes = times * made.nbytes
                found |= measure_writing(broker, *options, written_bytes=written_bytes, repeats=repeats, warm=warm)
        return found


def measure_reading(row: Row, broker: Target, rows: int, *, repeats: int, warm: WarmMemory) -> dict[str, Readings]:
    found = {"read-arrow": Readings()} | ({"read-confluent": Readings()} if row.rival else {})
    for _ in range(repeats):
        for client, readings in found.items():
            wanted = rows if client == "read-arrow" else min(rows, RIVAL_ROWS)
            told = run_client(client, broker, row.name, "--rows", str(wanted), warm=warm)
            assert told["rows"] >= wanted, f"{told['rows']} of {wanted} rows were read"
            readings.add(told)
    return found


def measure_writing(
    broker: Target, *options: str, written_bytes: int, repeats: int, warm: WarmMemory
) -> dict[str, Readings]:
    def write(client: str, topic: str, *more: str) -> dict[str, Any]:
        create_topic(broker.settings, topic, partitions=PARTITIONS_WRITTEN)
        return run_client(client, broker, topic, *options, *more, warm=warm, written_bytes=written_bytes)

    for number, batches in enumerate(WARM_UPS):
        write("write-arrow", f"warm-up-{number}", batches)
    found = {"write-arrow": Readings(), "write-confluent": Readings()}
    for number in range(repeats):
        for client, readings in found.items():
            readings.add(write(client, f"{client}-{number}"))
    return found


def spread(values: list[float]) -> str:
    return f"{statistics.median(values) / 1e6:.2f} ({min(values) / 1e6:.2f}..{max(values) / 1e6:.2f})"


def ratio(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours) / statistics.median(theirs):.1f} x"


HEAD: Final = (
    "topic",
    "broker",
    "job",
    "ours, M/s",
    "confluent, M/s",
    "ratio",
    "ours, M per CPU-s",
    "confluent",
    "ratio",
    "broker, CPU ns a row",
    "MB",
)


def lines_of(row: Row, target: str, found: Mapping[str, Readings]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for job in JOBS:
        ours, theirs = found.get(f"{job}-arrow"), found.get(f"{job}-confluent")
        if ours is None:
            continue
        early, late = (statistics.median(part) for part in zip(*ours.resident_mb, strict=True))
        rival = ("", "") if theirs is None else (spread(theirs.per_s), ratio(ours.per_s, theirs.per_s))
        rival_cpu = ("", "") if theirs is None else (spread(theirs.per_cpu_s), ratio(ours.per_cpu_s, theirs.per_cpu_s))
        memory = f"{early:.0f} -> {late:.0f}"
        cpu = (spread(ours.per_cpu_s), *rival_cpu, f"{statistics.median(ours.broker_ns):.0f}")
        lines.append((row.title, target, job, spread(ours.per_s), *rival, *cpu, memory))
    return lines


def markdown(lines: Sequence[tuple[str, ...]]) -> str:
    return "".join("| " + " | ".join(line) + " |\n" for line in (HEAD, ("---",) * len(HEAD), *lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", default="", help=f"some of {', '.join(row.name for row in ROWS)}")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"some of {', '.join(JOBS)}")
    parser.add_argument("--targets", default="node,kafka")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--directory", type=Path, help="where data is kept meanwhile (default: TMPDIR)")
    given = parser.parse_args()
    end_in_order()
    try:
        facts = ", ".join(f"{name} {value}" for name, value in host_facts().items())
    except ToolMissing as missing:  # Told before an hour of work, not behind it.
        parser.exit(2, f"{missing}\n")
    if given.directory:
        tempfile.tempdir = str(given.directory)
    chosen = [row for row in ROWS if not given.rows or row.name in given.rows.split(",")]
    lines: list[tuple[str, ...]] = []
    console = Console(width=200)
    warm = WarmMemory()
    with Progress(console=console, refresh_per_second=1) as progress, closing(warm):
        targets = given.targets.split(",")
        task = progress.add_task("rows", total=len(chosen) * len(targets))
        for row in chosen:
            for target in targets:
                progress.update(task, description=f"{row.name} on {target}")
                jobs = given.jobs.split(",")
                found = measure(row, target, jobs=jobs, scale=given.scale, repeats=given.repeats, warm=warm)
                lines += lines_of(row, target, found)
                if given.markdown is not None:  # Anew with each, so that an interrupted run has what it measured.
                    given.markdown.write_text(markdown(lines))
                progress.advance(task)
    table = Table(*HEAD)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(
        f"Medians of {given.repeats}, lowest and highest. MB: resident after a tenth of the rows, and at most. {facts}."
    )


if __name__ == "__main__":
    main()
