"""`headrace demo-lake`: from senders to a lake, exactly once, and an audit that proves it.

Audited senders write web-log events at a set rate while `headrace load` brings them into a Delta table and Spark counts
pages in windows. The load is killed once and a sender once, each with -9, and each is started again. Then the audit
says what became of every event at every tier; the demo succeeds if none is missing and none is there twice.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import TextColumn, TimeElapsedColumn

from headrace.cli.extras import require
from headrace.cli.output import AsJson, CommandError, console, print_json, print_table, progress
from headrace.cli.stopping import StopRequest
from headrace.testing.node_process import NodeProcess

if TYPE_CHECKING:
    from headrace.audit.reconcile import Audit

TOPIC: Final = "events"
_SENDERS: Final = ("web-1", "web-2", "web-3")
_PARTITIONS: Final = 4
_EVERY: Final = "2s"
_SPARK_S_MAX: Final = 180.0  # To start twice, on a machine that has other things to do.
_CATCH_UP_S_MAX: Final = 120.0
_PAGES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things lie."""

    root: Path

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def pages(self) -> Path:
        return self.root / "pages"

    def journal(self, sender: str) -> Path:
        return self.root / "journals" / sender

    def log(self, program: str) -> Path:
        return self.root / f"{program}.log"


class Crew:
    """The programs around the node, each by name; whatever happens, all of them are ended."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._commands: dict[str, Sequence[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        self._commands[name] = command or self._commands[name]
        with self._places.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *self._commands[name]],
                stdout=log,
                stderr=log,
                # Of one group with what it starts itself: a driver is killed with its JVM.
                start_new_session=True,
            )

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def kill(self, name: str) -> None:
        """With -9, it and what it started."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):  # It has ended by itself.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str, *, timeout_s: float = 60.0) -> None:
        """As a user would; one that does not is killed, which is a failure of the demo."""
        process = self._running[name]
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise CommandError(f"{name} did not stop in {timeout_s:.0f} s; see {self._places.log(name)}") from None
        del self._running[name]

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                words = self._places.log(name).read_text(errors="replace").strip()[-2000:]
                raise CommandError(f"{name} ended with status {process.returncode}:\n{words}")

    def close(self) -> None:
        for name in tuple(self._running):
            self.kill(name)


def demo_lake(
    seconds: Annotated[int, typer.Option(min=10, help="How long senders send, once all is running.")] = 40,
    rate: Annotated[int, typer.Option(min=1, max=20_000, help="Events a second, of all senders.")] = 1_000,
    keep: Annotated[bool, typer.Option("--keep", help="Leave node, lake and logs there, and wait for Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send, load and count events, kill some of it, and audit what became of every event."""
    for package in ("pyarrow", "deltalake", "pyspark"):
        require(package, extra="spark")
    out = Console(quiet=True) if as_json else console()
    places = Places(root=Path(tempfile.mkdtemp(prefix="headrace-demo-")))
    with ExitStack() as stack:
        if not keep:
            stack.callback(shutil.rmtree, places.root, ignore_errors=True)
        stop = stack.enter_context(StopRequest())
        node = stack.enter_context(NodeProcess(places.root / "data"))
        crew = Crew(places)
        stack.callback(crew.close)
        out.print(f"A node is ready on {node.bootstrap}. Everything is in {places.root}.")
        _play(node.bootstrap, crew, places, seconds=seconds, rate=rate, out=out, check_stop=stop.check)
        outcome = _look(node.bootstrap, places)
        if as_json:
            print_json(outcome.fields())
        else:
            _show(outcome, places if keep else None)
        if outcome.missing or outcome.duplicated:
            raise CommandError(f"{outcome.missing:,} events are missing, {outcome.duplicated:,} are there twice")
        out.print("[bold green]No event is missing at any tier, none is there twice.[/]")
        if keep:
            out.print(f"The node goes on at {node.bootstrap} until Ctrl-C; {places.root} stays.")
            while not stop:
                time.sleep(0.2)


def _play(
    bootstrap: str,
    crew: Crew,
    places: Places,
    *,
    seconds: int,
    rate: int,
    out: Console,
    check_stop: Callable[[], None],
) -> None:
    _create_topic(bootstrap)
    (places.root / "journals").mkdir()
    load = ("load", TOPIC, "--bootstrap", bootstrap, "--lake", str(places.lake), "--every", _EVERY)
    crew.start("load", "headrace.cli.main", *load)
    crew.start("stream", "headrace.cli.demo_stream", bootstrap, TOPIC, str(places.pages))

    with _line(out) as tell:

        def wait(until: Callable[[], bool], seconds_max: float, what: str) -> None:
            deadline_s = time.monotonic() + seconds_max
            while not until():
                check_stop()
                crew.check()
                if time.monotonic() > deadline_s:
                    raise CommandError(f"{what} took more than {seconds_max:.0f} s; see {places.root}")
                tell(f"{what}; {_loaded(places):,} rows in the lake")
                time.sleep(0.5)

        def run(for_s: float) -> None:
            end_s = time.monotonic() + for_s
            wait(lambda: time.monotonic() >= end_s, for_s + 60, "sending, loading and counting")

        # The first thing that a load does is to make the table, and to note where each partition begins.
        wait((places.lake / "_delta_log").exists, _SPARK_S_MAX, "Spark starts")
        share = str(max(1, rate // len(_SENDERS)))
        for name in _SENDERS:
            crew.start(name, "headrace.cli.demo_sender", bootstrap, TOPIC, name, share, str(places.journal(name)))
        wait(lambda: _loaded(places) > 0 and places.pages.exists(), _SPARK_S_MAX, "waiting for the first rows")
        run(seconds / 3)
        crew.kill("load")
        out.print("The load was killed with -9, in the middle of its work, and starts again.")
        crew.start("load")
        run(seconds / 3)
        crew.kill(_SENDERS[0])
        out.print(f"{_SENDERS[0]} was killed with -9. Started again, it tells what its journal says it had sent.")
        crew.start(_SENDERS[0])
        run(seconds / 3)
        for name in _SENDERS:
            crew.stop(name)
        end = _log_end(bootstrap)
        wait(lambda: _loaded(places) >= end, _CATCH_UP_S_MAX, "the senders have stopped, the load catches up")
    crew.stop("load")
    crew.stop("stream")


def _create_topic(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 1)], request_timeout=10).values():
        future.result()


def _loaded(places: Places) -> int:
    """How many offsets the ledger has."""
    from headrace.pipeline.ledger import read_ledger
    from headrace.pipeline.location import parse_location

    if not places.lake.exists():
        return 0
    ledger = read_ledger(parse_location(places.lake))
    return sum(row["end"] - row["first"] for row in ledger.select(["first", "end"]).to_pylist())


def _log_end(bootstrap: str) -> int:
    """How many events there are: no offset of the topic is anything else."""
    from headrace import columnar

    return sum(batch.num_rows for batch in columnar.read(bootstrap, TOPIC, columns=["offset"]))


# --- What came of it -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    audit: "Audit"
    rows: int
    delay_ms_p50: float
    delay_ms_p99: float
    top_pages: list[tuple[str, int]]
    windows: int

    @property
    def missing(self) -> int:
        return sum(row.finding.missing + row.finding.late for row in self.audit.rows)

    @property
    def duplicated(self) -> int:
        return sum(row.finding.duplicated for row in self.audit.rows)

    @property
    def uncertain(self) -> int:
        from headrace.audit.report import uncertain_max

        return uncertain_max(self.audit)

    def fields(self) -> dict[str, Any]:
        from headrace.audit.report import report_fields

        return {
            "rows": self.rows,
            "missing": self.missing,
            "duplicated": self.duplicated,
            "uncertain_max": self.uncertain,
            "delay_ms_p50": self.delay_ms_p50,
            "delay_ms_p99": self.delay_ms_p99,
            "top_pages": dict(self.top_pages),
            "windows": self.windows,
            "audit": report_fields(self.audit),
        }


def _look(bootstrap: str, places: Places) -> Outcome:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    from headrace.audit.auditing import audit
    from headrace.pipeline.delays import read_delays_ms
    from headrace.pipeline.location import parse_location
    from headrace.wire.settings import client_settings

    lake = DeltaTable(places.lake)
    values = lake.to_pyarrow_table(columns=["value"])["value"].cast(pa.string())
    pages = pc.value_counts(pc.struct_field(pc.extract_regex(values, r'"\w+ (?P<page>\S+)'), "page")).to_pylist()
    top = sorted(pages, key=lambda page: (-page["counts"], page["values"]))[:_PAGES]
    windows = DeltaTable(places.pages).to_pyarrow_table(columns=["window_start"])["window_start"]
    delays = read_delays_ms(parse_location(places.lake))
    p50, p99 = np.percentile(delays, [50, 99])
    return Outcome(
        audit=audit(client_settings(bootstrap), TOPIC, lake=str(places.lake), grace_ms=0),
        rows=len(values),
        delay_ms_p50=round(float(p50), 1),
        delay_ms_p99=round(float(p99), 1),
        top_pages=[(page["values"], page["counts"]) for page in top],
        windows=len(windows.unique()),
    )


def _show(outcome: Outcome, kept: Places | None) -> None:
    from headrace.cli.audit import print_audit

    print_audit(outcome.audit)
    rows = [(page, f"{times:,}") for page, times in outcome.top_pages]
    print_table(("most wanted pages, from the lake", "times"), rows, right=("times",))
    p50_s, p99_s = outcome.delay_ms_p50 / 1000, outcome.delay_ms_p99 / 1000
    delays = f"p50 {p50_s:.1f} s, p99 {p99_s:.1f} s, with a load every {_EVERY}"
    figures = [
        ("rows in the lake", f"{outcome.rows:,}"),
        ("from event to lake", f"{delays}, the kill included"),
        ("windows counted by the stream", f"{outcome.windows:,}"),
        ("uncertain, at most", f"{outcome.uncertain:,}: on their way when their sender was killed, and not in the log"),
        ("the lake", str(kept.lake) if kept else "is removed now; --keep leaves it"),
        ("pages per window", str(kept.pages) if kept else "likewise"),
    ]
    print_table(("figure", "value"), figures)


@contextmanager
def _line(out: Console) -> Iterator[Callable[[str], None]]:
    with progress(TextColumn("{task.description}"), TimeElapsedColumn(), on=out) as bars:
        bar = bars.add_task("starting", total=None)

        def tell(text: str) -> None:
            bars.update(bar, description=text)

        yield tell
