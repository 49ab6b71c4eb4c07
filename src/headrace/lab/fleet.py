"""A crew whose members are tasks of Spark: load from as many machines as a cluster has.

    with Fleet(SparkMaster.parse("spark://host:7077")) as fleet:
        sent = send(scenario, target, crew=fleet)

A squad is a barrier stage, of which Spark starts all tasks at once or none. Each task connects to a socket of the
driver's, and from there on is a process like any other of a crew's, so that its seconds come while it runs, are added
up by the same code, and a stop is heard. What a task is to do, a password of the cluster's among it, goes Spark's own
way; through the socket go moments and counts alone. Who connects must know a word that only the tasks were told.

Spark gives up a barrier stage as a whole: where one task is lost the others end with it. Nothing is tried again, for
a second try would send the messages of the first once more.
"""

import hmac
import json
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.lab.child import Lines
from headrace.lab.errors import LabError
from headrace.lab.fleet_task import run_task
from headrace.lab.spark_master import SparkMaster
from headrace.spark.jobs import GONE, interrupts_kept, last_words
from headrace.spark.session import quiet_session

_LOOK_S: Final = 0.1
_GREETING_S: Final = 10.0
_COME_S: Final = 180.0  # For tasks to come: the first of an executor begins a Python.
_END_S: Final = 5.0  # For tasks to end by themselves.
_CANCEL_S: Final = 30.0
_SQUADS_MAX: Final = 64  # At a time.
_TOO_FEW_SLOTS: Final = "SPARK-24819"
_ONCE: Final = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1"}
_CHECK: Final = "spark.scheduler.barrier.maxConcurrentTasksCheck"
_EXECUTORS_COME_S: Final = 30  # By itself Spark waits ten minutes for slots that are not there.

Job = Future[list[bool]]


class TaskMember(Lines):
    def __init__(self, pid: int | None, connected: socket.socket, job: Job) -> None:
        descriptor = connected.fileno()
        super().__init__(
            open(descriptor, "rb", buffering=0, closefd=False),  # noqa: SIM115
            open(descriptor, "wb", closefd=False),  # noqa: SIM115
        )
        self.pid = pid
        self._connected = connected
        self._job = job

    def last_words(self) -> str:
        wait([self._job], _END_S)
        error = self._job.exception() if self._job.done() else None
        return "its task was lost" if error is None else _words_of(error)

    def hang_up(self) -> None:
        """A task whose driver has done so ends."""
        self.close()
        self._connected.close()


class Stage:
    """A squad."""

    def __init__(self, members: Sequence[TaskMember], job: Job, cancel: Callable[[], None]) -> None:
        self.members = members
        self._job = job
        self._cancel = cancel

    def end(self) -> None:
        for member in self.members:
            member.hang_up()
        if wait([self._job], _END_S).not_done:
            self._cancel()
            wait([self._job], _CANCEL_S)

    @property
    def is_running(self) -> bool:
        return not self._job.done()


class Muster:
    """Where tasks report for duty."""

    def __init__(self, host: str) -> None:
        self._listener = socket.create_server((host, 0))
        self._listener.settimeout(_LOOK_S)
        self.port: int = self._listener.getsockname()[1]
        self.password = secrets.token_hex(16)

    def gather(self, count: int, job: Job, *, is_here: bool) -> list[TaskMember]:
        """All of them, in their order; whatever ends the job before is raised."""
        found: dict[int, TaskMember] = {}
        deadline_s = time.monotonic() + _COME_S
        try:
            while len(found) < count:
                if job.done():
                    job.result()
                    raise LabError("the tasks ended before they had begun")
                if time.monotonic() > deadline_s:
                    raise LabError(f"after {_COME_S:g} s {len(found)} of {count} tasks had come: are there slots?")
                with suppress(TimeoutError):
                    connected, _ = self._listener.accept()
                    if (greeting := self._greet(connected)) is not None:
                        number, pid = greeting
                        found[number] = TaskMember(pid if is_here else None, connected, job)
        except BaseException:
            for member in found.values():
                member.hang_up()
            raise
        return [found[number] for number in range(count)]

    def _greet(self, connected: socket.socket) -> tuple[int, int] | None:
        """Its number and its process, if it is one of ours."""
        connected.settimeout(_GREETING_S)
        try:
            with connected.makefile("rb", buffering=0) as incoming:
                greeting = json.loads(incoming.readline(1000))
            if hmac.compare_digest(greeting["password"], self.password):
                connected.settimeout(None)
                return greeting["number"], greeting["pid"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        connected.close()
        return None

    def close(self) -> None:
        self._listener.close()


class Fleet:
    """Spark begins with the first squad, stays for those that follow, and ends with the `with`."""

    def __init__(self, master: SparkMaster, *, settings: Mapping[str, str] = {}) -> None:
        self._master = master
        self._settings = fleet_settings(master, settings)
        self._session: SparkSession | None = None
        self._is_ours = False
        # Spark's own call waits until all is done, so it is made beside.
        self._beside = ThreadPoolExecutor(_SQUADS_MAX, "headrace-fleet")
        self._stages: list[Stage] = []

    @property
    def where(self) -> str:
        return self._master.text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stage in self._stages:
            stage.end()
        if self._session is not None and self._is_ours:
            with suppress(*GONE):
                self._session.stop()
        self._session = None
        self._beside.shutdown()

    def begin(self, module: str, orders: Sequence[Mapping[str, Any]]) -> Stage:
        self._check_room(len(orders))
        context = self._begin_session().sparkContext
        settings = context.getConf()
        host = settings.get("spark.driver.host")
        assert host is not None  # Spark chooses one where nobody does.
        muster = Muster(settings.get("spark.driver.bindAddress") or host)
        task = partial(run_task, module=module, host=host, port=muster.port, password=muster.password)
        group = f"headrace-fleet-{uuid.uuid4()}"
        job = self._beside.submit(_run_stage, context, orders, task, group)
        cancel = partial(_cancel, context, group)
        try:
            members = muster.gather(len(orders), job, is_here=self._master.is_here)
        except BaseException as error:
            Stage([], job, cancel).end()
            if isinstance(error, LabError) or not isinstance(error, Exception):
                raise
            raise LabError(fleet_trouble(error, self._master, len(orders))) from error
        finally:
            muster.close()
        stage = Stage(members, job, cancel)
        self._stages.append(stage)
        return stage

    def _check_room(self, more: int) -> None:
        """Spark looks at one stage alone, and has the second wait for the first, which waits for it."""
        running = sum(len(stage.members) for stage in self._stages if stage.is_running)
        if self._master.slots is not None and running + more > self._master.slots:
            raise LabError(no_room(self._master, running + more))

    def _begin_session(self) -> SparkSession:
        if self._session is None:
            self._master.check_reachable()
            self._is_ours = SparkSession.getActiveSession() is None
            try:
                with interrupts_kept():
                    self._session = quiet_session(master=self._master.text, app="headrace lab", settings=self._settings)
            except GONE as error:
                raise LabError(f"Spark did not begin on {self._master.text}: {_words_of(error)}") from error
        return self._session


def _run_stage(context: SparkContext, orders: Sequence[Mapping[str, Any]], task: Any, group: str) -> list[bool]:
    context.setJobGroup(group, "headrace lab", interruptOnCancel=True)
    numbered = context.parallelize(list(enumerate(orders)), len(orders))
    return numbered.barrier().mapPartitions(task).collect()


def _cancel(context: SparkContext, group: str) -> None:
    with suppress(*GONE):
        context.cancelJobGroup(group)


def fleet_settings(master: SparkMaster, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's: those that are given, and ours. Nothing is tried twice, whatever is given."""
    tries = 1 if master.is_here else _EXECUTORS_COME_S
    return {f"{_CHECK}.interval": "1s", f"{_CHECK}.maxFailures": str(tries), **settings, **_ONCE}


def no_room(master: SparkMaster, members: int) -> str:
    room = "not room for so many" if master.slots is None else f"room for {master.slots}"
    return f"{members} must run at once on {master.text}, which has {room}: take fewer, or more cores"


def fleet_trouble(error: BaseException, master: SparkMaster, members: int) -> str:
    """What a job that failed has to say to the person who asked for it."""
    text = str(error)
    if _TOO_FEW_SLOTS in text:
        return no_room(master, members)
    if "No module named 'headrace" in text:
        return f"headrace is missing where the tasks of {master.text} run: pip install 'headrace[lab,spark]' there"
    return f"{master.text}: {_words_of(error)}"


def _words_of(error: BaseException) -> str:
    return last_words(error) if isinstance(error, Exception) else type(error).__name__
