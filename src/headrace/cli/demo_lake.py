"""`headrace demo-lake`: from senders to a lake, exactly once, and an audit that proves it.

Audited senders write web-log events at a set rate while `headrace load` brings them into a Delta table and Spark counts
pages in windows. The load is killed once and a sender once, each with -9, and each is started again. Then the senders
pause, and the audit says what became of every event at every tier; the demo succeeds if none is missing, none is there
twice, and the windows have counted what the lake holds. With --keep everything then goes on until Ctrl-C.
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
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import TextColumn, TimeElapsedColumn

from headrace.cli.demo_outcome import Outcome, counted_events, look, show
from headrace.cli.extras import require
from headrace.cli.output import AsJson, CommandError, console, print_json, progress
from headrace.cli.stopping import StopRequest
from headrace.testing.node_process import NodeProcess

TOPIC: Final = "events"
_SENDERS: Final = ("web-1", "web-2", "web-3")
_PARTITIONS: Final = 4
_EVERY: Final = "2s"
_SPARK_S_MAX: Final = 180.0  # To start twice, on a machine that has other things to do.
_CATCH_UP_S_MAX: Final = 120.0
_GROUP_S_MAX: Final = 10.0
_LOOK_S: Final = 0.5


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
        _end_group(process.pid)

    def check(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                words = self._places.log(name).read_text(errors="replace").strip()[-2000:]
                raise CommandError(f"{name} ended with status {process.returncode}:\n{words}")

    def close(self) -> None:
        for name in tuple(self._running):
            self.kill(name)


def _end_group(group: int) -> None:
    """Of a program that has ended: its JVM ends a moment later, by itself, and tidies up; or else is killed."""
    deadline_s = time.monotonic() + _GROUP_S_MAX
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline_s:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)


def demo_lake(
    seconds: Annotated[int, typer.Option(min=10, help="How long senders send, once all is running.")] = 40,
    rate: Annotated[int, typer.Option(min=1, max=20_000, help="Events a second, of all senders.")] = 1_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on sending, loading and counting until Ctrl-C, and leave the lake there.")
    ] = False,
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
        with _line(out) as tell:
            play = _Play(node.bootstrap, crew, places, tell=tell, check_stop=stop.check)
            play.begin(rate=rate)
            play.kill_some(for_s=seconds, out=out)
            play.settle()
        outcome = look(node.bootstrap, TOPIC, lake=places.lake, pages=places.pages)
        if as_json:
            print_json(outcome.fields() | {"bootstrap": node.bootstrap, "directory": str(places.root)})
        else:
            show(outcome, every=_EVERY, lake=places.lake, pages=places.pages, stays=keep)
        _judge(outcome)
        out.print("[bold green]No event is missing at any tier, none is there twice; the windows count the same.[/]")
        if keep:
            out.print(f"Everything goes on, with the node at {node.bootstrap}, until Ctrl-C; {places.root} stays.")
            for name in _SENDERS:
                crew.start(name)
            with _line(out) as tell:
                while not stop:
                    crew.check()
                    tell(f"sending, loading and counting; {_loaded(places):,} rows in the lake")
                    time.sleep(_LOOK_S)
            for name in _SENDERS:
                crew.stop(name)
        crew.stop("load")
        crew.stop("stream")


def _judge(outcome: Outcome) -> None:
    if outcome.missing or outcome.duplicated:
        raise CommandError(f"{outcome.missing:,} events are missing, {outcome.duplicated:,} are there twice")
    if different := outcome.windows_that_differ:
        raise CommandError(
            f"{len(different)} of {len(outcome.windows)} windows have not counted what the lake holds, as that of "
            f"{different[0].start:%H:%M:%S}: {different[0].counted:,} events, and {different[0].rows:,} rows"
        )


@dataclass(frozen=True, slots=True)
class _Play:
    """What is done to the crew, one thing after the other; what takes too long, or ends by itself, ends the demo."""

    bootstrap: str
    crew: Crew
    places: Places
    tell: Callable[[str], None]
    check_stop: Callable[[], None]

    def begin(self, *, rate: int) -> None:
        crew, places, bootstrap = self.crew, self.places, self.bootstrap
        _create_topic(bootstrap)
        (places.root / "journals").mkdir()
        load = ("load", TOPIC, "--bootstrap", bootstrap, "--lake", str(places.lake), "--every", _EVERY)
        crew.start("load", "headrace.cli.main", *load)
        crew.start("stream", "headrace.cli.demo_stream", bootstrap, TOPIC, str(places.pages))
        # The first thing that a load does is to make the table, and to note where each partition begins.
        self._wait((places.lake / "_delta_log").exists, _SPARK_S_MAX, "Spark starts")
        share = str(max(1, rate // len(_SENDERS)))
        for name in _SENDERS:
            crew.start(name, "headrace.cli.demo_sender", bootstrap, TOPIC, name, share, str(places.journal(name)))
        self._wait(lambda: _loaded(places) > 0 and places.pages.exists(), _SPARK_S_MAX, "waiting for the first rows")

    def kill_some(self, *, for_s: float, out: Console) -> None:
        crew = self.crew
        self._run(for_s / 3)
        crew.kill("load")
        out.print("The load was killed with -9, in the middle of its work, and starts again.")
        crew.start("load")
        self._run(for_s / 3)
        crew.kill(_SENDERS[0])
        out.print(f"{_SENDERS[0]} was killed with -9. Started again, it tells what its journal says it had sent.")
        crew.start(_SENDERS[0])
        self._run(for_s / 3)

    def settle(self) -> None:
        """The senders stop, and load and stream come to where the log ends."""
        for name in _SENDERS:
            self.crew.stop(name)
        end = _log_end(self.bootstrap)
        what = "the senders have stopped, the load catches up"
        self._wait(lambda: _loaded(self.places) >= end, _CATCH_UP_S_MAX, what)
        # A stream that has lost events never gets there, and is told of by its windows.
        deadline_s = time.monotonic() + _CATCH_UP_S_MAX

        def is_done() -> bool:
            return counted_events(self.places.pages) >= end or time.monotonic() > deadline_s

        self._wait(is_done, 2 * _CATCH_UP_S_MAX, "the senders have stopped, the stream catches up")

    def _run(self, for_s: float) -> None:
        end_s = time.monotonic() + for_s
        self._wait(lambda: time.monotonic() >= end_s, for_s + 60, "sending, loading and counting")

    def _wait(self, until: Callable[[], bool], seconds_max: float, what: str) -> None:
        deadline_s = time.monotonic() + seconds_max
        while not until():
            self.check_stop()
            self.crew.check()
            if time.monotonic() > deadline_s:
                raise CommandError(f"{what} took more than {seconds_max:.0f} s; see {self.places.root}")
            self.tell(f"{what}; {_loaded(self.places):,} rows in the lake")
            time.sleep(_LOOK_S)


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


@contextmanager
def _line(out: Console) -> Iterator[Callable[[str], None]]:
    with progress(TextColumn("{task.description}"), TimeElapsedColumn(), on=out) as bars:
        bar = bars.add_task("starting", total=None)

        def tell(text: str) -> None:
            bars.update(bar, description=text)

        yield tell
