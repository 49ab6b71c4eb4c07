"""From an event to the lake at ten thousand events a second: a node, senders and a continuous `headrace load`.

    python -m bench.delay [--quick] [--repeats 3] [--rows default,1s] [--json FILE] [--markdown FILE]

Audited senders write web-log events; the load brings them into a Delta table, with its default of `--every` and with
one second, by turns. The delay of an event is what `headrace.pipeline.delays` says: from its own time, which is the
moment at which it was due to be sent, to the commit that made it a row. Events of a minute count, after the load has
been at work for a while. In the end every event that was sent must be a row of the table, once.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from deltalake import DeltaTable
from rich.progress import Progress

from bench import sheet_command
from bench.host import headrace_version, host_facts
from bench.sheet import Claim, Line, Reading, Sheet
from headrace.cli.demo_lake import Crew, Places
from headrace.errors import HeadraceError
from headrace.lab.errors import LabError
from headrace.lab.readings.meter import Meter
from headrace.lab.requirements import at_most
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import find_target
from headrace.lab.topics import create_topic, wait_kept
from headrace.pipeline.delays import delays_ms
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.location import parse_location
from tests.oracle.toolbox import ToolMissing

RATE_PER_S: Final = 10_000
SENDERS: Final = 2
PARTITIONS: Final = 4

_LOAD: Final = "load"
_SOURCE: Final = ["topic_id", "partition", "offset", "timestamp"]
_SPARK_S_MAX: Final = 120.0
_CATCH_UP_S_MAX: Final = 60.0
_LOOK_S: Final = 0.5
_RATE_SHARE_MIN: Final = 0.98
_FAILURES: Final = (HeadraceError, KafkaException, RuntimeError)
_NODE: Final = "headrace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    title: str
    words: tuple[str, ...]  # For the command line of the load.
    claims: Sequence[Claim]


ROWS: Final = (
    Row(
        name="default",
        title="by default, every 10 s",
        words=(),
        claims=(Claim(at_most("delay_s_mean", 10)), Claim(at_most("delay_s_p99", 12))),
    ),
    Row(name="1s", title="--every 1s", words=("--every", "1s"), claims=(Claim(at_most("delay_s_p99", 3)),)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long events count, and how long the load is at work before."""

    measured_s: float
    warm_up_s: float


FULL: Final = Times(measured_s=60, warm_up_s=20)
QUICK: Final = Times(measured_s=5, warm_up_s=1)


def measure(row: Row, broker: Target, topic: str, times: Times, *, under: Path) -> dict[str, float]:
    """By metric name."""
    create_topic(broker.settings, topic, partitions=PARTITIONS)
    places = Places(root=under)
    (under / "journals").mkdir()
    senders = [f"{topic}-{number}" for number in range(SENDERS)]
    with closing(Crew(places)) as crew:
        for name in senders:
            rate, journal = str(RATE_PER_S // SENDERS), str(places.journal(name))
            crew.start(name, "bench.delay_sender", broker.bootstrap, topic, name, rate, journal)
        load = (_LOAD, topic, "--bootstrap", broker.bootstrap, "--lake", str(places.lake), *row.words)
        crew.start(_LOAD, "headrace.cli.main", *load)
        wait(lambda: rows_loaded(places.lake) > 0, _SPARK_S_MAX, "the first row", crew)
        time.sleep(times.warm_up_s)
        roots = {"load": crew.pid(_LOAD), "broker": broker.pid, **{name: crew.pid(name) for name in senders}}
        begin_ms = now_ms()
        with Meter(**roots) as meter:
            time.sleep(times.measured_s)
        end_ms = now_ms()
        crew.check()
        for name in senders:
            crew.stop(name)
        sent = sum(told_sent(places.log(name)) for name in senders)
        wait_kept(broker.settings, topic, messages=sent)
        wait(lambda: rows_loaded(places.lake) >= sent, _CATCH_UP_S_MAX, "the last row", crew)
        crew.stop(_LOAD)
    found = delays_between(places.lake, begin_ms, end_ms, sent=sent)
    return (
        delay_values(found, begin_ms, end_ms)
        | {f"{name}_cpu_cores": meter.cpu_s[name] / meter.seconds for name in ("load", "broker")}
        | meter.shares
    )


def wait(until: Callable[[], bool], seconds_max: float, what: str, crew: Crew) -> None:
    deadline_s = time.monotonic() + seconds_max
    while not until():
        crew.check()
        if time.monotonic() > deadline_s:
            raise LabError(f"{what} took more than {seconds_max:.0f} s")
        time.sleep(_LOOK_S)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def rows_loaded(lake: Path) -> int:
    return sum(read_ledger(parse_location(lake))["rows"].to_pylist())


def told_sent(log: Path) -> int:
    """What a sender told with its last word."""
    told = log.read_text().splitlines()
    if not told or not told[-1].startswith("{"):
        raise LabError(f"a sender ended without telling how many events it sent: {told[-3:]}")
    sent: int = json.loads(told[-1])["sent"]
    return sent


def delays_between(lake: Path, begin_ms: int, end_ms: int, *, sent: int) -> npt.NDArray[np.int64]:
    """Of the events of that time; all that were sent must be rows, each once."""
    rows = DeltaTable(lake).to_pyarrow_table(columns=_SOURCE)
    different = len(rows.select(["partition", "offset"]).group_by(["partition", "offset"]).aggregate([]))
    if len(rows) != sent or different != sent:
        raise LabError(f"{sent} events were sent, and the table has {len(rows)} rows of {different} different ones")
    times_ms = pc.divide(pc.cast(rows["timestamp"], pa.int64()), 1000)
    meanwhile = pc.and_(pc.greater_equal(times_ms, begin_ms), pc.less(times_ms, end_ms))
    return delays_ms(rows.filter(meanwhile), read_ledger(parse_location(lake)))


def delay_values(found: npt.NDArray[np.int64], begin_ms: int, end_ms: int) -> dict[str, float]:
    """By metric name; a sender that fell behind its rate makes no figure."""
    rate_per_s = len(found) / (end_ms - begin_ms) * 1000
    if rate_per_s < _RATE_SHARE_MIN * RATE_PER_S:
        raise LabError(f"{rate_per_s:.0f} events were sent in a second, not {RATE_PER_S}")
    p50, p99 = np.percentile(found, [50, 99])
    return {
        "rows_per_s": rate_per_s,
        "delay_s_mean": float(found.mean()) / 1000,
        "delay_s_p50": float(p50) / 1000,
        "delay_s_p99": float(p99) / 1000,
        "delay_s_max": float(found.max()) / 1000,
    }


@dataclass(slots=True)
class Run:
    rows: Sequence[Row]
    repeats: int
    times: Times
    directory: Path
    readings: list[Reading] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def go(self, progress: Progress) -> None:
        task = progress.add_task("", total=self.repeats * len(self.rows))
        for repeat in range(self.repeats):
            for row in self.rows:
                where = f"{row.title}, repeat {repeat + 1}"
                progress.update(task, description=where)
                try:
                    self._take(row, repeat)
                except _FAILURES as error:
                    self.failures.append(f"{where}: {error}")
                progress.advance(task)

    def _take(self, row: Row, repeat: int) -> None:
        under = self.directory / f"{row.name}-{repeat}"
        under.mkdir()
        try:
            with running(find_target("node")) as broker:
                values = measure(row, broker, f"events-{row.name}-{repeat}", self.times, under=under)
        finally:
            shutil.rmtree(under, ignore_errors=True)
        self.readings.append(Reading(row=row.name, system=_NODE, repeat=repeat, values=values))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.delay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="some of default, 1s, comma-separated (default: all)")
    sheet_command.add_options(parser)
    options = sheet_command.parse(parser, arguments)
    console = sheet_command.make_console()
    wanted = options.rows.split(",") if options.rows else [row.name for row in ROWS]
    if strangers := set(wanted).difference(row.name for row in ROWS):
        parser.error(f"no such rows: {', '.join(sorted(strangers))}")
    chosen = [row for row in ROWS if row.name in wanted]
    try:
        facts = host_facts() | {_NODE: headrace_version()}
    except (ToolMissing, LabError) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    times = QUICK if options.quick else FULL
    began_s = time.monotonic()
    if options.directory:
        tempfile.tempdir = str(options.directory)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        sheet_command.shown(console) as progress,
    ):
        run = Run(chosen, options.repeats, times, Path(directory))
        run.go(progress)
    sheet = Sheet(
        title=f"From {RATE_PER_S:,} events a second to the lake, {times.measured_s:g} s each",
        heads=("headrace load",),
        metrics=(
            "rows_per_s",
            "delay_s_mean",
            "delay_s_p50",
            "delay_s_p99",
            "delay_s_max",
            "load_cpu_cores",
            "broker_cpu_cores",
        ),
        lines=[Line(row=row.name, system=_NODE, labels=(row.title,), claims=row.claims) for row in chosen],
        readings=run.readings,
        failures=run.failures,
        facts=facts,
        seconds=time.monotonic() - began_s,
        is_judged=not options.quick,
    )
    return sheet_command.finish(sheet, options, console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
