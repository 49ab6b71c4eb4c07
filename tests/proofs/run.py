"""The long proofs, one table of them.

    python -m tests.proofs.run                      everything that is not proved of this commit yet
    python -m tests.proofs.run --ci                 today's share, in a few minutes
    python -m tests.proofs.run --only kill,storm    some of them
    python -m tests.proofs.run --only kill --units 40-47
    python -m tests.proofs.run --list

A full run keeps its progress in .cache/proofs, goes on where it was interrupted, and writes a dated page to docs/proofs
for each proof that is complete. The first failure ends it, with the command that runs the same units again.
"""

import argparse
import datetime
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.oracle.toolbox import CACHE_DIR, REQUIRE_ALL, ToolMissing
from tests.proofs import (
    cold_reader,
    compaction,
    descriptors,
    disk_full,
    embedded,
    fsync_errors,
    groups,
    kill,
    lab,
    lake,
    lake_rivals,
    lake_spark,
    simulation,
    storm,
    streams,
)
from tests.proofs.proof import Facts, Proof, Slice
from tests.proofs.result import ROOT, commit, duration_text, is_dirty, number_text, rerun_command, write_page
from tests.proofs.standing import Standing, load_standing, save_standing
from tests.proofs.tracing import check_strace

DIRECTORY: Final = CACHE_DIR / "proofs"

PROOFS: Final = (
    Proof(
        name="simulation",
        promise=(
            "Whatever fails (power, process, syncs, writes, room, connections) and whenever, inside an operation too: "
            "what a topic's settings promise to keep is kept, nothing is doubled, reordered, torn or invented, deleted "
            "things stay deleted, and in the end everything goes on."
        ),
        unit="seeds",
        total=5_000,
        ci=200,
        slice_units=100,
        run=simulation.run,
        alone=True,
    ),
    Proof(
        name="kill",
        promise=(
            "However often and wherever a node is killed under load, everything that it acknowledged is there "
            "afterwards, once, in order and unchanged; nothing else is; no bad batch is served; leader epochs rise; "
            "and where `flush.before.expose` is set, what a consumer has read stays."
        ),
        unit="rounds",
        total=200,
        ci=20,
        slice_units=20,
        run=kill.run,
    ),
    Proof(
        name="fsync-errors",
        promise=(
            "With `log.flush.interval.messages=1` nothing whose sync failed is acknowledged, then or later: its "
            "partition answers KAFKA_STORAGE_ERROR until the next start, other partitions go on, a stop that could not "
            "sync is not taken for a clean one, and after a restart everything acknowledged is there."
        ),
        unit="rounds",
        total=40,
        ci=3,
        slice_units=10,
        run=fsync_errors.run,
        check_tools=check_strace,
    ),
    Proof(
        name="disk-full",
        promise=(
            "On a full disk producers get a retriable error that says so, consumers are served, and once there is room "
            "the node takes messages again without a restart. Nothing acknowledged is lost, then or over a restart."
        ),
        unit="rounds",
        total=10,
        ci=1,
        slice_units=1,
        run=disk_full.run,
        alone=True,
        check_tools=disk_full.check_mounts,
    ),
    Proof(
        name="storm",
        promise=(
            "Requests with flipped bits, lying lengths, cuts and splices harm nobody but their senders: the node "
            "lives, an honest client is answered within two seconds throughout, and memory stays in its budget."
        ),
        unit="mutations",
        total=100_000,
        ci=2_000,
        slice_units=2_000,
        run=storm.run,
    ),
    Proof(
        name="cold-reader",
        promise=(
            "One reader of ten gigabytes that are not in the page cache does not double the p99 of another client, "
            "which writes and reads small messages at a fixed rate."
        ),
        unit="megabytes",
        total=10_240,
        ci=512,
        run=cold_reader.run,
    ),
    Proof(
        name="compaction",
        promise=(
            "Ten million updates of a hundred thousand keys, compacted while they are written and read, the node "
            "killed twenty times: the last value of every key is there, each record at the offset at which it was "
            "written; tombstones go once they have had their time; a consumer that follows sees nothing wrong, nor "
            "does Kafka's own that reads through three kills more, each behind a cleaning that overtook it, nor "
            "DumpLogSegments; node and cleaner take less than 100 MB more than when idle, and the p99 of the loop's "
            "lag is below 5 ms while forty thousand updates a second are written."
        ),
        unit="updates",
        total=10_000_000,
        ci=200_000,
        run=compaction.run,
    ),
    Proof(
        name="descriptors",
        promise=(
            "A thousand partitions are written, flushed, read, recovered after a kill and opened after a clean stop "
            "within 1,024 descriptors, those of a hundred idle clients included."
        ),
        unit="partitions",
        total=1_000,
        ci=300,
        run=descriptors.run,
    ),
    Proof(
        name="groups",
        promise=(
            "A thousand members in two hundred groups join at once and settle, no heartbeat waits as long as a session "
            "lasts and nobody is given up, through a turnover in every group too; and after a restart they go on, "
            "without joining again."
        ),
        unit="members",
        total=1_000,
        ci=250,
        run=groups.run,
    ),
    Proof(
        name="streams",
        promise=(
            "Three processes read twelve partitions through message streams while members join, leave, are killed and "
            "fall asleep: every message is delivered at least once, in order within its partition, a partition has one "
            "owner in each generation of the group, and who woke up too late has all its commits refused."
        ),
        unit="rounds",
        total=60,
        ci=6,
        run=streams.run,
    ),
    Proof(
        name="lake",
        promise=(
            "A load into a table whose driver is killed a hundred times, in replays too, and its broker now and then, "
            "has every record of the topic in the table or among the dead letters, once; what is seen on the way is "
            "part of the topic; the ledger has neither gap nor overlap; and what the kills left on the disk is seen by "
            "nobody, and goes."
        ),
        unit="kills",
        total=100,
        ci=10,
        slice_units=20,
        run=lake.run,
    ),
    Proof(
        name="lake-spark",
        promise=(
            "A load of four million records on Spark, on this machine's own or on a cluster's, during which driver, "
            "JVM, executors, Python workers, Spark's workers and the broker are killed twenty times, has every record "
            "in the table once; so has a continuous load of what a sender goes on sending, and streams count each of "
            "them once in its window. What is seen in a table stays in it, its offsets have neither gap nor overlap, "
            "nor have the batches of a stream, and what the kills left on the disk is seen by nobody, and goes."
        ),
        unit="kills",
        total=lake_spark.TOTAL,
        ci=2,
        slice_units=lake_spark.SLICE_KILLS,
        run=lake_spark.run,
        check_tools=lake_spark.check_java,
    ),
    Proof(
        name="lake-rivals",
        promise=(
            "Of several loaders at once on one topic and one table, some of which are killed, while the table is "
            "compacted and vacuumed, each one that is overtaken says so; and together they bring every record once."
        ),
        unit="rounds",
        total=40,
        ci=3,
        slice_units=10,
        run=lake_rivals.run,
        check_tools=lake_spark.check_java,
    ),
    Proof(
        name="embedded",
        promise=(
            "Two hundred embedded brokers, as processes, forks and threads, leave no thread, descriptor, process or "
            "file behind in the test that used them, and of memory, once it has warmed up, less than 2.5 kB a start; "
            "of objects and bytes, as Python counts them, no more after ten starts than before. In the middle, one is "
            "ready in less than 400 ms, of a pool in less than 50 ms, and cleared of ten topics with thirty "
            "partitions, three thousand records and a group's offsets in less than 10 ms."
        ),
        unit="starts",
        total=200,
        ci=60,
        run=embedded.run,
    ),
    Proof(
        name="lab",
        promise=(
            "Beside a node on the same cores the lab's senders hold 100, 250 and 420 thousand messages a second, by "
            "one engine or the other, with every message acknowledged and the lateness told; its search finds a sink "
            "that takes 37,000 a second within 3%; and its gate lets nothing pass beside a busy loop, and on a calm "
            "machine it does."
        ),
        unit="rounds",
        total=3,
        ci=1,
        run=lab.run,
    ),
)


class ProofFailed(Exception):
    """A promise that did not hold, or could not be looked at. `units` are to be run again, and end where it failed."""

    def __init__(self, proof: Proof, units: range, unit: int | None, scratch: Path) -> None:
        super().__init__(proof.name)
        self.proof = proof
        self.units = units
        self.unit = unit
        self.scratch = scratch


class Screen:
    """Bars for a person watching; for a log, a line now and then."""

    LINE_EVERY_S: Final = 15.0

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self._lined_s = time.monotonic()

    @contextmanager
    def bar(self, proof: Proof, *, done: int, total: int) -> Iterator[Callable[[int], None]]:
        """Gives a function to be told of every so many units done."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(proof.unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as bars:
            task = bars.add_task(proof.name, total=total, completed=done)

            def advance(units: int) -> None:
                nonlocal done
                done += units
                bars.advance(task, units)
                if not self.console.is_terminal and time.monotonic() - self._lined_s > self.LINE_EVERY_S:
                    self._lined_s = time.monotonic()
                    self.say(f"{proof.name}: {done:,} of {total:,} {proof.unit}")

            yield advance

    def say(self, text: str) -> None:
        self.console.print(escape(text))


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A directory on the disk that the project is on. It stays where it is if the work in it fails."""
    (DIRECTORY / "work").mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=DIRECTORY / "work"))
    failed = False
    try:
        yield path
    except Exception:
        failed = True
        raise
    finally:
        if not failed:
            shutil.rmtree(path)


def run_slice(proof: Proof, units: range, advance: Callable[[int], None]) -> tuple[Facts, list[str], float]:
    """What it found, what it could not look at, and how many seconds that took."""
    with scratch(proof.name) as directory:
        work = Slice(units, is_full=len(units) == proof.total, scratch=directory, advance=advance)
        began_s = time.monotonic()
        try:
            facts = proof.run(work)
        except Exception as error:
            raise ProofFailed(proof, units_to_rerun(proof, work), work.current, directory) from error
        return facts, work.lacking, time.monotonic() - began_s


def units_to_rerun(proof: Proof, work: Slice) -> range:
    if work.current is None:
        return work.units
    return range(work.current if proof.alone else work.units.start, work.current + 1)


def prove(proof: Proof, screen: Screen, *, keep: bool) -> None:
    """Run what is left of the whole proof, and write its page."""
    path = DIRECTORY / f"{proof.name}.json"
    standing = load_standing(path, commit=commit(), keep=keep)
    if standing.units_done == proof.total:
        screen.say(f"{proof.name}: complete for this commit already; --fresh proves it again")
        return
    with screen.bar(proof, done=standing.units_done, total=proof.total) as advance:
        for units in proof.slices(range(standing.units_done, proof.total)):
            facts, lacking, seconds = run_slice(proof, units, advance)
            standing.add(len(units), facts, seconds=seconds, is_dirty=is_dirty(), lacking=lacking)
            save_standing(path, standing)
    page = write_page(proof, standing)
    screen.say(f"{proof.name}: held, {_summary(proof, standing)}; see {page.relative_to(ROOT)}")


def run_share(proof: Proof, units: range, screen: Screen) -> None:
    """Some units, for their own sake: no progress is kept and no page written."""
    standing = Standing("")
    with screen.bar(proof, done=0, total=len(units)) as advance:
        for some in proof.slices(units):
            facts, lacking, seconds = run_slice(proof, some, advance)
            standing.add(len(some), facts, seconds=seconds, is_dirty=False, lacking=lacking)
    which = f"{units.start} to {units.stop - 1}" if proof.slice_units else f"{len(units)}"
    screen.say(f"{proof.name}: held for {proof.unit} {which}, {_summary(proof, standing)}")


def _summary(proof: Proof, standing: Standing) -> str:
    facts = ", ".join(f"{name.replace('_', ' ')} {number_text(value)}" for name, value in standing.facts.items())
    lacking = "".join(f"; lacking: {what}" for what in standing.lacking)
    return f"{standing.units_done:,} {proof.unit} in {duration_text(standing.seconds)}; {facts}{lacking}"


def report_failure(failure: ProofFailed, screen: Screen) -> None:
    proof = failure.proof
    cause = failure.__cause__
    assert cause is not None
    screen.say("".join(traceback.format_exception(cause)))
    unit = "" if failure.unit is None else f" at {failure.unit} (of the {proof.unit})"
    screen.say(f"{proof.name} FAILED{unit}: {cause}")
    screen.say(f"  what it left behind: {failure.scratch.relative_to(ROOT)}")
    screen.say(f"  to run it again:     {rerun_command(proof, failure.units)}")


def print_list(screen: Screen) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("proof", "left"), ("in all", "right"), ("in CI", "right"), ("of", "left")):
        table.add_column(column, justify="right" if justify == "right" else "left", no_wrap=True)
    table.add_column("promise", overflow="fold")
    for proof in PROOFS:
        table.add_row(proof.name, f"{proof.total:,}", f"{proof.ci:,}", proof.unit, escape(proof.promise))
    screen.console.print(table, soft_wrap=False)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--ci", action="store_true", help="only today's share; nothing is kept or written")
    parser.add_argument("--only", metavar="NAME[,NAME]", type=_proofs, default=PROOFS)
    parser.add_argument("--units", metavar="FIRST[-LAST]", type=_units, help="these units of one proof")
    parser.add_argument("--fresh", action="store_true", help="forget earlier progress")
    parser.add_argument("--keep", action="store_true", help="count progress made with another commit")
    given = parser.parse_args(arguments)
    if given.units is not None:
        if len(given.only) != 1:
            parser.error("--units needs --only with one proof")
        if given.units.stop > given.only[0].total:
            parser.error(f"{given.only[0].name} has {given.only[0].total} units, numbered from 0")
    return given


def _proofs(text: str) -> tuple[Proof, ...]:
    by_name = {proof.name: proof for proof in PROOFS}
    unknown = [name for name in text.split(",") if name not in by_name]
    if unknown:
        raise argparse.ArgumentTypeError(f"no proof is called {unknown[0]!r}; there are {', '.join(by_name)}")
    return tuple(by_name[name] for name in text.split(","))


def _units(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        units = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor FIRST-LAST") from None
    if not units:
        raise argparse.ArgumentTypeError(f"{text!r} holds no unit")
    return units


def _leave(number: int, frame: FrameType | None) -> None:
    # So that nodes, mounts and tracers are put away.
    sys.exit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    given = parse_arguments(arguments)
    screen = Screen()
    if given.list:
        print_list(screen)
        return 0
    signal.signal(signal.SIGTERM, _leave)
    lacking = []
    for proof in given.only:
        try:
            proof.check_tools()
            if given.units is not None:
                run_share(proof, given.units, screen)
            elif given.ci:
                today = datetime.datetime.now(datetime.UTC).date()
                run_share(proof, proof.units_of_day(today), screen)
            else:
                if given.fresh:
                    (DIRECTORY / f"{proof.name}.json").unlink(missing_ok=True)
                prove(proof, screen, keep=given.keep)
        except ToolMissing as missing:
            lacking.append(proof.name)
            screen.say(f"{proof.name}: left out, because {missing}")
        except ProofFailed as failure:
            report_failure(failure, screen)
            return 1
        except KeyboardInterrupt:
            screen.say(f"{proof.name}: interrupted; the next run goes on from its last whole slice")
            return 130
    # CI says what it lacks; whoever asks for the whole proof does not want to hear that all is well.
    return 1 if lacking and (REQUIRE_ALL or not given.ci) else 0


if __name__ == "__main__":
    sys.exit(main())
