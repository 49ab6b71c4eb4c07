"""Trouble on purpose: a process held to a share of its CPU; a slow device, link and source; a busy neighbour.

Each is a context that is planted when it is entered, can be lifted before it is left, and leaves nothing behind.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from headrace.lab.readings import process_tree

# Control groups, of which version 1 has a tree for each controller.
_CGROUPS: Final = Path("/sys/fs/cgroup")


class _Thread(ABC):
    def __init__(self) -> None:
        self._lifted = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _run(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lift()
        self._thread.join()

    def lift(self) -> None:
        self._lifted.set()


class HeldOff(_Thread):
    """Processes that may run for a while, and are stopped for a longer one, over and over."""

    def __init__(self, roots: Sequence[int], *, run_s: float, stop_s: float) -> None:
        super().__init__()
        self._pids = [process.pid for root in roots for process in process_tree.tree(root)]
        self._run_s, self._stop_s = run_s, stop_s

    def _run(self) -> None:
        while not self._lifted.is_set():
            self._signal(signal.SIGSTOP)
            self._lifted.wait(self._stop_s)
            self._signal(signal.SIGCONT)
            self._lifted.wait(self._run_s)
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


class CappedLink:
    """A proxy through which requests go at so many bytes a second, over all connections; answers go as they come."""

    def __init__(self, target: tuple[str, int], *, bytes_per_s: float) -> None:
        self._target, self._bytes_per_s = target, bytes_per_s
        self._lifted = threading.Event()
        self._turn = threading.Lock()  # Held by whoever's bytes are on the link.
        self._ends: list[socket.socket] = []
        self._listening = socket.socket()
        # A link holds little: what it does not carry waits with the sender. Taken over by what is accepted.
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lift()
        for end in (self._listening, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # Wakes the thread that waits for it.
            end.close()

    def lift(self) -> None:
        self._lifted.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                broker = socket.create_connection(self._target)
                self._ends += [client, broker]
                threading.Thread(target=self._pump, args=(client, broker, True), daemon=True).start()
                threading.Thread(target=self._pump, args=(broker, client, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_capped: bool) -> None:
        with suppress(OSError):
            while data := source.recv(2048):
                if is_capped and not self._lifted.is_set():
                    with self._turn:
                        self._lifted.wait(len(data) / self._bytes_per_s)
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class SlowSource(_Thread):
    """A named pipe that gives so many lines a second."""

    def __init__(self, path: Path, *, lines_per_s: float) -> None:
        super().__init__()
        os.mkfifo(path)
        self._lines_per_s = lines_per_s
        # For reading, too: it can then be opened and written to whether or not anybody reads.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def _run(self) -> None:
        while True:
            with suppress(BlockingIOError):  # Nobody has read for a while.
                os.write(self._descriptor, b"a line of a source that has not many\n")
            if self._lifted.wait(1 / self._lines_per_s):
                break
        os.close(self._descriptor)


class NoLimit(Exception):
    """There is no control group for it here, or none that may be made."""


@contextmanager
def limited_cpu(pid: int, *, share: float) -> Iterator["ControlGroup"]:
    """A process, with what it has started and will, may use so much of a core."""
    period_us = 100_000
    quota = str(round(share * period_us))
    version_1 = _Limit(_CGROUPS / "cpu", "cpu.cfs_quota_us", quota, "-1")
    version_2 = _Limit(_CGROUPS, "cpu.max", f"{quota} {period_us}", f"max {period_us}")
    with _limited(pid, "cpu", version_1, version_2) as group:
        yield group


@contextmanager
def throttled_device(directory: Path, pid: int, *, bytes_per_s: int) -> Iterator["ControlGroup"]:
    """A process, with what it has started and will, may write so much a second to the device of a directory."""
    device = _device(directory)
    version_1 = _Limit(_CGROUPS / "blkio", "blkio.throttle.write_bps_device", f"{device} {bytes_per_s}", f"{device} 0")
    version_2 = _Limit(_CGROUPS, "io.max", f"{device} wbps={bytes_per_s}", f"{device} wbps=max")
    with _limited(pid, "io", version_1, version_2) as group:
        yield group


class _Limit(NamedTuple):
    root: Path  # Of the groups.
    file: str
    limit: str  # What is written there, and what takes it back.
    nothing: str


@contextmanager
def _limited(pid: int, controller: str, version_1: _Limit, version_2: _Limit) -> Iterator["ControlGroup"]:
    has_second = controller in _controllers(version_2.root / "cgroup.subtree_control")
    group = ControlGroup(version_2 if has_second else version_1)
    try:
        group.take(pid)
        yield group
    finally:
        group.discard()


class ControlGroup:
    def __init__(self, limit: _Limit) -> None:
        self._limit = limit
        self._group = limit.root / f"headrace-test-{os.getpid()}"
        try:
            self._group.mkdir()
        except OSError as error:
            raise NoLimit(f"no control group may be made here: {error}") from error
        try:
            (self._group / limit.file).write_text(limit.limit)
        except OSError as error:
            self.discard()
            raise NoLimit(f"{limit.file} cannot be set here: {error}") from error

    def take(self, pid: int) -> None:
        for process in process_tree.tree(pid):
            (self._group / "cgroup.procs").write_text(str(process.pid))

    def lift(self) -> None:
        (self._group / self._limit.file).write_text(self._limit.nothing)

    def discard(self) -> None:
        with suppress(OSError):
            self.lift()
        for pid in (self._group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (self._limit.root / "cgroup.procs").write_text(pid)
        with suppress(OSError):
            self._group.rmdir()


def _controllers(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _device(directory: Path) -> str:
    """The whole device's number: parts of one cannot be throttled."""
    number = directory.stat().st_dev
    found = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if not found.exists():
        raise NoLimit(f"{directory} lies on no device of its own")
    return ((found.parent if (found / "partition").exists() else found) / "dev").read_text().strip()


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """A neighbour that is none of the run's: its parent has left it."""
    starter = (
        "import subprocess, sys\n"
        "made = subprocess.Popen([sys.executable, '-c', 'while True: pass'], start_new_session=True,\n"
        "    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(made.pid)"
    )
    pid = int(subprocess.run([sys.executable, "-c", starter], capture_output=True, check=True, text=True).stdout)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
