"""Loads, continuous loads and windowed counts on Spark, whose processes are killed again and again.

A slice is one job that absorbs all kills of its units. Numbered records (`numbered.py`) go into a topic, millions in
all; a driver takes them, or counts of them (`windows.py`), to tables; and at random moments something is killed with
SIGKILL: the driver, the JVM beside it, an executor, a Python worker, one of Spark's own workers, the broker. Whatever
has ended is begun again, as its supervisor would. What is in the tables is looked at after every kill, and compared
with the topic in the end.
"""

import os
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from deltalake import DeltaTable

from headrace.errors import HeadraceError
from headrace.spark.java import find_java_home
from headrace.testing import Broker
from tests.oracle.toolbox import ToolMissing
from tests.pipeline.loading import load, rows_told
from tests.pipeline.spark_processes import EXECUTOR, JVM, PYTHON_WORKER, Session, SparkCluster, wait_until
from tests.proofs import counting_stream, numbered, windows
from tests.proofs.numbered import Broken, TableReader, TopicReader
from tests.proofs.orphans import remove_orphans
from tests.proofs.proof import Facts, Slice
from tests.proofs.windows import CLOSED, RUNNING, WindowReader

SLICE_KILLS: Final = 20
ROWS_PER_KILL: Final = 200_000
RECORDS_PER_S: Final = 30_000
COUNTED_PER_S: Final = 15_000  # By two streams at once.

TOPIC: Final = "numbers"
_BROKER: Final = {"log.segment.bytes": 64 << 20}  # What a broker that was killed reads again is its last segments.
_COMMIT_OFFSETS: Final = (50_000, 100_000, 400_000)
_TRIGGER_OFFSETS: Final = (300_000, 1_000_000)
_COMMITS: Final = (0, 1, 1, 2)  # That a kill lets pass.
_PAUSE_S_MAX: Final = 0.8
_PROGRESS_S_MAX: Final = 600.0
_END_S_MAX: Final = 120.0
_IN_VAIN_MAX: Final = 4
_LOOK_S: Final = 0.02
_AIM_S: Final = 0.001
_AIMED: Final = 0.5
_DRIVERS: Final = ("driver", "jvm")  # Without either, no batch ends.


def check_java() -> None:
    try:
        find_java_home(os.environ)
    except HeadraceError as error:
        raise ToolMissing(str(error)) from error


# --- Where Spark runs ---------------------------------------------------------------------------------------------


class Spark:
    """In the driver's own JVM, with its Python workers beside it."""

    # One for each unit of a slice in turn.
    victims: tuple[str, ...] = ("driver", "python_worker", "broker", "python_worker", "jvm")

    def __init__(self) -> None:
        self.master = "local[2,3]"
        self.options: dict[str, str] = {}

    def processes(self, kind: str, driver: Session) -> list[int]:
        """Those that may be killed now."""
        return driver.processes({"python_worker": PYTHON_WORKER, "jvm": JVM}[kind])

    def kill(self, kind: str, pid: int) -> bool:
        """Whether it was still there."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


class SparkOnCluster(Spark):
    """On two workers of a standalone master, each with an executor and its Python workers."""

    victims = ("driver", "executor", "broker", "python_worker", "executor", "driver", "spark_worker")

    def __init__(self, cluster: SparkCluster) -> None:
        self._cluster = cluster
        self.master = cluster.master
        self.options = cluster.options

    def processes(self, kind: str, driver: Session) -> list[int]:
        if kind == "spark_worker":
            return [worker.pid for worker in self._cluster.workers]
        return self._cluster.processes({"python_worker": PYTHON_WORKER, "executor": EXECUTOR}[kind])

    def kill(self, kind: str, pid: int) -> bool:
        if kind != "spark_worker":
            return super().kill(kind, pid)
        (worker,) = (worker for worker in self._cluster.workers if worker.pid == pid)
        self._cluster.replace_worker(worker)
        return True


@contextmanager
def local(directory: Path) -> Iterator[Spark]:
    yield Spark()


@contextmanager
def standalone(directory: Path) -> Iterator[Spark]:
    with SparkCluster(directory) as cluster:
        yield SparkOnCluster(cluster)


# --- What it does -------------------------------------------------------------------------------------------------


class Job(ABC):
    """What is to be done by a driver that is killed and begun again, and how to tell that it was done right."""

    tables: list[Path]

    def __init__(self, broker: Broker, spark: Spark, directory: Path) -> None:
        self.broker = broker
        self.spark = spark
        self.directory = directory

    @abstractmethod
    def command(self, chance: random.Random) -> list[str]: ...

    def refill(self) -> None:
        """The driver had done all that there was to do."""
        raise Broken("the driver ended by itself, and was to go on")

    @abstractmethod
    def check_on_the_way(self) -> None: ...

    @abstractmethod
    def is_done(self, driver: Session) -> bool:
        """After the last kill: whether the driver has done everything."""

    @abstractmethod
    def check(self) -> Facts:
        """The topic against the tables, once all is done and nothing runs any more."""

    def close(self) -> None:  # noqa: B027  # Some have nothing to close.
        """Nothing of it runs any more."""

    def pause_s(self, chance: random.Random) -> float:
        """How long after a commit, or after its victim was there, a kill comes."""
        return chance.uniform(0.0, _PAUSE_S_MAX)

    def aims_at(self, kind: str, chance: random.Random) -> bool:
        """Whether a kill is to come at the very moment of a commit, and not a while after it."""
        return False

    def commits(self) -> int:
        return sum(len(list(table.glob("_delta_log/*.json"))) for table in self.tables)


class Loading(Job):
    """All that is in a topic, in one load after the other until there is nothing left."""

    every: tuple[str, ...] = ("--once",)

    def __init__(self, broker: Broker, spark: Spark, directory: Path, kills: int) -> None:
        super().__init__(broker, spark, directory)
        self.lake = directory / "lake"
        self.tables = [self.lake]
        self._reader = TableReader(self.lake)
        self._written = 0
        self._write(kills * ROWS_PER_KILL)

    def _write(self, rows: int) -> None:
        numbered.write(self.broker.bootstrap, TOPIC, range(self._written, self._written + rows))
        self._written += rows

    def command(self, chance: random.Random) -> list[str]:
        words = ["load", TOPIC, "--bootstrap", self.broker.bootstrap, "--lake", str(self.lake), *self.every]
        words += ["--master", self.spark.master, "--commit-offsets", str(chance.choice(_COMMIT_OFFSETS))]
        for name, value in self.spark.options.items():
            words += ["--spark-option", f"{name}={value}"]
        return [sys.executable, "-m", "headrace.cli.main", *words]

    def refill(self) -> None:
        self._write(ROWS_PER_KILL)

    def check_on_the_way(self) -> None:
        self._reader.hold()

    def is_done(self, driver: Session) -> bool:
        return driver.status == 0

    def _topic(self) -> dict[int, numbered.Numbers]:
        topic = numbered.hold_topic(self.broker.bootstrap, TOPIC)
        numbered.check_sent(topic, self._written)
        return topic

    def check(self) -> Facts:
        table = self._reader.hold()
        numbered.check_same(table, self._topic())
        rows = numbered.rows_held(table)
        if rows_told(self.lake) != rows:
            raise Broken(f"the ledger tells of {rows_told(self.lake)} rows, and there are {rows}")
        # The offsets that the table keeps are those of its rows: there is nothing to load.
        if load(self.broker, self.lake, TOPIC).commits:
            raise Broken("the table holds all records, and does not know it")
        orphans = remove_orphans(self.lake)
        numbered.check_same(self._reader.hold(), table)
        return {"rows_loaded": rows, "orphan_files_removed": orphans}


class Continuous(Loading):
    """All that comes into a topic, while it comes."""

    every = ("--every", "1s")

    def __init__(self, broker: Broker, spark: Spark, directory: Path, kills: int) -> None:
        super().__init__(broker, spark, directory, 0)
        self._sender = begin_sender(broker, directory, RECORDS_PER_S)

    def refill(self) -> None:
        Job.refill(self)

    def check_on_the_way(self) -> None:
        check_sending(self._sender)
        super().check_on_the_way()

    def is_done(self, driver: Session) -> bool:
        if self._sender.status is None:
            self._written = end_sender(self._sender)
        if not DeltaTable.is_deltatable(str(self.lake)) or DeltaTable(self.lake).count() < self._written:
            return False
        return has_stopped(driver, 128 + signal.SIGTERM)

    def check(self) -> Facts:
        facts = super().check()
        return {"rows_loaded_continuously": facts.pop("rows_loaded"), **facts}

    def close(self) -> None:
        self._sender.end()


class Counting(Job):
    """Windows of what comes into a topic, while it comes, by two streams of one driver."""

    def __init__(self, broker: Broker, spark: Spark, directory: Path, kills: int) -> None:
        super().__init__(broker, spark, directory)
        self._running, self._closed = self.tables = [directory / RUNNING, directory / CLOSED]
        self._running_reader, self._closed_reader = map(WindowReader, self.tables)
        self._topic_reader = TopicReader(broker.bootstrap, TOPIC)
        self._written = self._last = 0
        self._is_whole = kills == SLICE_KILLS
        self._sender = begin_sender(broker, directory, COUNTED_PER_S)

    def command(self, chance: random.Random) -> list[str]:
        words = [self.broker.bootstrap, TOPIC, str(self.directory), self.spark.master]
        words += [str(chance.choice(_TRIGGER_OFFSETS)), *map("=".join, self.spark.options.items())]
        return [sys.executable, "-m", counting_stream.__name__, *words]

    def pause_s(self, chance: random.Random) -> float:
        """Often at once, since little time passes between a commit and the next thing."""
        return super().pause_s(chance) * chance.choice((0, 0, 1))

    def aims_at(self, kind: str, chance: random.Random) -> bool:
        """Between a table's commit and Spark's own note of it there is little time, and a batch whose driver dies then
        comes again: always until one has, and often thereafter."""
        return kind in _DRIVERS and (not self._batches_again() or chance.random() < _AIMED)

    def _batches_again(self) -> int:
        log = self.directory / "driver.log"
        return log.read_text().count(counting_stream.AGAIN) if log.exists() else 0

    def check_on_the_way(self) -> None:
        check_sending(self._sender)
        running, closed = self._running_reader.look(), self._closed_reader.look()
        topic = self._topic_reader.hold()  # After the tables: everything that they know of is in it.
        ends = windows.ends_of(counting_stream.checkpoint_of(self._running), running.batch)
        windows.check_running(running.counts, windows.count_topic(topic, ends))
        windows.check_closed(closed.counts, windows.count_topic(topic))

    def is_done(self, driver: Session) -> bool:
        if self._sender.status is None:
            self._written = end_sender(self._sender)
            # Windows are complete once something later comes: one more record, of long after the others.
            self._last = self._written + windows.CLOSING_NUMBERS
            numbered.write(self.broker.bootstrap, TOPIC, range(self._last, self._last + 1))
        running, closed = self._running_reader.look(), self._closed_reader.look()
        if sum(running.counts.values()) <= self._written or sum(closed.counts.values()) < self._written:
            return False
        return has_stopped(driver, 0)

    def check(self) -> Facts:
        topic = self._topic_reader.hold()
        numbered.check_sent(topic, self._written, and_last=self._last)
        running, closed = self._running_reader.look(), self._closed_reader.look()
        windows.check_running(running.counts, windows.count_topic(topic))
        complete = windows.count(np.arange(self._written))
        windows.check_running(closed.counts, complete)
        orphans = sum(map(remove_orphans, self.tables))
        if (running, closed) != (self._running_reader.look(), self._closed_reader.look()):
            raise Broken("the tables hold something else since files that nobody sees were removed")
        again = self._batches_again()
        if self._is_whole and not again:
            raise Broken("no kill came between a table's commit and Spark's own note of it: that was not shown")
        return {
            "records_counted": self._written,
            "windows_counted": len({window for window, _ in complete}),
            "batches": running.batch + closed.batch + 2,
            "batches_that_came_again": again,
            "orphan_files_removed": orphans,
        }

    def close(self) -> None:
        self._sender.end()


# --- A sender beside it -------------------------------------------------------------------------------------------


def begin_sender(broker: Broker, directory: Path, records_per_s: int) -> Session:
    command = [sys.executable, "-m", "tests.proofs.numbered_sender", broker.bootstrap, TOPIC, str(records_per_s)]
    return Session(command, log=directory / "sender.log")


def check_sending(sender: Session) -> None:
    if sender.status is not None:
        raise Broken(f"the sender ended by itself, with status {sender.status}:\n{sender.said()[-3000:]}")


def end_sender(sender: Session) -> int:
    """How many records it sent, all of which were acknowledged."""
    sender.send(signal.SIGTERM)
    status = sender.wait(_PROGRESS_S_MAX)
    if status != 0:
        raise Broken(f"the sender ended with status {status}:\n{sender.said()[-3000:]}")
    return int(sender.said().split()[-1])


def has_stopped(driver: Session, status: int) -> bool:
    """A driver that was told to stop stops."""
    driver.send(signal.SIGTERM)
    ended = driver.wait(_END_S_MAX)
    if ended != status:
        raise Broken(f"the driver was told to stop and ended with status {ended}:\n{driver.said()[-3000:]}")
    return True


# --- Killing it ---------------------------------------------------------------------------------------------------


class Stage:
    """A driver at work, begun again whenever it has ended, and what is killed around it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._drivers: list[Session] = []
        self._commits = 0  # When a driver last gave up.
        self._in_vain = 0  # Drivers that gave up, one after the other, and not a commit among them.
        self.kills: Counter[str] = Counter()
        self.given_up = 0

    @property
    def runs(self) -> int:
        return len(self._drivers)

    def play(self, unit: int) -> None:
        """One kill, at a moment that comes from the unit's number and from how fast things are."""
        chance = random.Random(unit)
        victims = self._job.spark.victims
        kind = victims[unit % SLICE_KILLS % len(victims)]
        is_aimed = self._job.aims_at(kind, chance)
        if not is_aimed:
            self._wait_for_commits(chance.choice(_COMMITS))
            self._pause(chance)
        if is_aimed:
            while not self._kill_at_commit(kind):
                pass
        elif kind == "broker":
            self._job.broker.kill()
            time.sleep(chance.uniform(0.0, _PAUSE_S_MAX))
            self._job.broker.start()
        elif kind == "driver":
            self._running().kill()
        else:
            while not self._job.spark.kill(kind, self._victim(kind, chance)):
                pass
        self.kills[kind] += 1

    def finish(self) -> None:
        """Nothing is killed any more: it is done in the end, and all that was begun on the way is gone."""
        deadline_s = time.monotonic() + _PROGRESS_S_MAX
        while not self._job.is_done(self._running(is_last=True)):
            if time.monotonic() > deadline_s:
                raise Broken(f"it is not done:\n{self._drivers[-1].said()[-3000:]}")
            time.sleep(10 * _LOOK_S)
        for driver in self._drivers:
            wait_until(lambda one=driver: not one.processes(), _END_S_MAX, what="a driver that is gone with its JVM")

    def close(self) -> None:
        for driver in self._drivers:
            driver.end()

    def _running(self, *, is_last: bool = False) -> Session:
        """The driver, or the next one."""
        driver = self._drivers[-1] if self._drivers else None
        if driver is not None:
            if driver.status is None or (is_last and driver.status == 0):
                return driver
            if driver.status == 0:
                self._job.refill()
            elif driver.status != -signal.SIGKILL:
                self._note_given_up(driver)
        driver = Session(self._job.command(random.Random(self.runs)), log=self._job.directory / "driver.log")
        self._drivers.append(driver)
        return driver

    def _note_given_up(self, driver: Session) -> None:
        """After a kill, or on a machine too busy for Spark's own time-outs, a driver may; but not again and again."""
        self.given_up += 1
        commits = self._job.commits()
        self._in_vain = self._in_vain + 1 if commits == self._commits else 0
        self._commits = commits
        if self._in_vain == _IN_VAIN_MAX:
            raise Broken(f"drivers end by themselves again and again:\n{driver.said()[-3000:]}")

    def _kill_at_commit(self, kind: str) -> bool:
        """As soon as a commit is seen; whether the victim, which is found before it, was still there."""
        self._wait_for_commits(1)  # It is at work, and so is its JVM.
        driver = self._running()
        pids = self._job.spark.processes(kind, driver) if kind != "driver" else []
        self._wait_for_commits(1, look_s=_AIM_S)
        if kind != "driver":
            return any(self._job.spark.kill(kind, pid) for pid in pids)
        was_there = driver.status is None
        driver.kill()
        return was_there

    def _wait_for_commits(self, count: int, *, look_s: float = _LOOK_S) -> None:
        """With none to wait for, the driver may be killed before it has begun."""
        wanted = self._job.commits() + count
        deadline_s = time.monotonic() + _PROGRESS_S_MAX
        while self._running() and self._job.commits() < wanted:
            if time.monotonic() > deadline_s:
                raise Broken(f"no commit within {_PROGRESS_S_MAX:g} s:\n{self._drivers[-1].said()[-3000:]}")
            time.sleep(look_s)

    def _victim(self, kind: str, chance: random.Random) -> int:
        """One of those that are there; where there is none yet, a little after there is one."""
        deadline_s = time.monotonic() + _PROGRESS_S_MAX
        while not self._job.spark.processes(kind, self._running()):
            if time.monotonic() > deadline_s:
                raise Broken(f"there is no {kind}:\n{self._drivers[-1].said()[-3000:]}")
            time.sleep(_LOOK_S)
        self._pause(chance)
        pids = self._job.spark.processes(kind, self._running())
        return chance.choice(pids) if pids else self._victim(kind, chance)

    def _pause(self, chance: random.Random) -> None:
        time.sleep(self._job.pause_s(chance))


# --- All of it ----------------------------------------------------------------------------------------------------


class Scene(NamedTuple):
    job: Callable[[Broker, Spark, Path, int], Job]
    spark: Callable[[Path], AbstractContextManager[Spark]]


# One for each slice, in an order in which the first few show something of everything.
SCENES: Final = (
    Scene(Loading, local),
    Scene(Loading, standalone),
    Scene(Continuous, local),
    Scene(Continuous, standalone),
    Scene(Loading, local),
    Scene(Loading, standalone),
    Scene(Loading, local),
    Scene(Counting, local),
    Scene(Counting, standalone),
)
TOTAL: Final = len(SCENES) * SLICE_KILLS


@contextmanager
def log_kept(broker: Broker, path: Path) -> Iterator[None]:
    """Where it fails, what the broker logged is beside its data."""
    try:
        yield
    except BaseException:
        path.write_text(broker.log_text())
        raise


def run(work: Slice) -> Facts:
    scene = SCENES[work.units.start // SLICE_KILLS]
    with ExitStack() as put_away:
        broker = put_away.enter_context(Broker(_BROKER, data=work.scratch / "node"))
        put_away.enter_context(log_kept(broker, work.scratch / "node.log"))
        broker.create_topic(TOPIC, numbered.PARTITIONS, retention_ms=-1)
        spark = put_away.enter_context(scene.spark(work.scratch))
        job = scene.job(broker, spark, work.scratch, len(work.units))
        put_away.callback(job.close)
        stage = Stage(job)
        put_away.callback(stage.close)
        for unit in work.each():
            stage.play(unit)
            job.check_on_the_way()
        stage.finish()
        facts = job.check()
    kills = {f"kills_of_{kind}s": count for kind, count in sorted(stage.kills.items())}
    return {**kills, "runs": stage.runs, "runs_that_gave_up": stage.given_up, "commits": job.commits(), **facts}
