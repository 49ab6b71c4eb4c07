"""Programs that begin others, as Spark's all do: to be looked into, killed in part, and gone afterwards as a whole.

A *session* is the operating system's: whatever a program begins belongs to it, also what forms groups of its own, as
Spark's Python workers do, and what outlives the program. Linux only, since it reads /proc.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from headrace.spark.java import find_java_home
from headrace.testing.ports import lasting_ports

HOME: Final = Path(pyspark.__file__).parent
ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_WORKER: Final = "pyspark.daemon"  # In the command line of a worker, and of what forks them.
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
JVM: Final = "org.apache.spark.deploy.SparkSubmit"
_START_S_MAX: Final = 60.0
_LOOK_S: Final = 0.05


def wait_until(holds: Callable[[], bool], timeout_s: float, *, what: str) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(_LOOK_S)


class Session:
    """A program and whatever it begins."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """What it says goes behind what is in the log."""
        with log.open("ab") as out:
            self._said_from = out.tell()
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=None if environment is None else os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """How the program ended; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._said_from)
            return log.read().decode(errors="replace")

    def processes(self, word: str = "") -> list[int]:
        """Those of the session that run, with this word in their command lines."""
        return sorted(pid for pid, command in _commands(self.pid) if word in command)

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL for the program alone: what it began has to notice by itself."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """SIGKILL for everything."""
        while running := self.processes():
            for pid in running:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_LOOK_S)
        self._process.wait()


def _commands(session: int) -> list[tuple[int, str]]:
    """Processes of a session that run, with their command lines."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            state, _, _, its_session, *_ = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(its_session) == session and state not in "ZX":
                found.append((int(directory.name), (directory / "cmdline").read_text().replace("\0", " ")))
        except (FileNotFoundError, ProcessLookupError):
            pass  # It ended while we looked.
    return found


class SparkCluster:
    """A standalone master and two workers of so many cores each, with as many GiB, all from the wheel."""

    def __init__(self, directory: Path, *, cores: int = 1) -> None:
        self._directory = directory
        self._cores = cores
        (port,) = lasting_ports(1)
        self._port = port
        self.master = f"spark://127.0.0.1:{port}"
        # Executors call the driver back, and there is little memory to go round.
        self.options = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.driver.memory": "1g"}
        self.workers: list[Session] = []
        self._all: list[Session] = []

    def __enter__(self) -> Self:
        try:
            self._begin("master.Master", "--port", str(self._port), "--webui-port", "0")
            wait_until(self._is_open, _START_S_MAX, what="a master that listens")
            self.workers = [self._begin_worker() for _ in range(2)]
            # Who asks for cores before both are there gets all of them from one.
            wait_until(self._has_workers, _START_S_MAX, what="workers that the master knows")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for session in self._all:
            session.end()

    def replace_worker(self, worker: Session) -> None:
        """Kill it, and have another in its place. Its executors notice, and end."""
        worker.kill()
        self.workers[self.workers.index(worker)] = self._begin_worker()

    def processes(self, word: str) -> list[int]:
        """Of all workers that there ever were."""
        return [pid for session in self._all for pid in session.processes(word)]

    def _begin_worker(self) -> Session:
        size = ("--cores", str(self._cores), "--memory", f"{self._cores}g")
        return self._begin("worker.Worker", *size, "--webui-port", "0", self.master)

    def _begin(self, kind: str, *words: str) -> Session:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words]
        environment = {
            "JAVA_HOME": str(find_java_home(os.environ)),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._directory / "work"),
        }
        session = Session(command, log=self._directory / f"{kind}-{len(self._all)}.log", environment=environment)
        self._all.append(session)
        return session

    def _has_workers(self) -> bool:
        return all("Successfully registered with master" in worker.said() for worker in self.workers)

    def _is_open(self) -> bool:
        with closing(socket.socket()) as client:
            return client.connect_ex(("127.0.0.1", self._port)) == 0
