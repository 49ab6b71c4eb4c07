"""Bottlenecks on purpose: a process that is held to a share of its CPU; a device, a link and a source that are slow.

Each is a context that is planted when it is entered, can be lifted before it is left, and leaves nothing behind.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.lab.readings import process_tree

_CGROUP_1: Final = Path("/sys/fs/cgroup/blkio")
_CGROUP_2: Final = Path("/sys/fs/cgroup")


class _Thread:
    def __init__(self) -> None:
        self._lifted = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        raise NotImplementedError

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


@contextmanager
def throttled_device(directory: Path, pid: int, *, bytes_per_s: int) -> Iterator["ThrottledDevice"]:
    """A process, with what it has started and will, may write so much a second to the device of a directory."""
    device = _device(directory)
    throttle = ThrottledDevice(device)
    try:
        throttle.set(bytes_per_s)
        throttle.take(pid)
        yield throttle
    finally:
        throttle.discard()


class NoThrottle(Exception):
    """There is no control group for it here."""


class ThrottledDevice:
    def __init__(self, device: str) -> None:
        self._device = device
        name = f"headrace-test-{os.getpid()}"
        if (_CGROUP_1 / "blkio.throttle.write_bps_device").exists():
            self._group, self._file, self._line = _CGROUP_1 / name, "blkio.throttle.write_bps_device", "{} {}"
        elif "io" in _controllers(_CGROUP_2 / "cgroup.subtree_control"):
            self._group, self._file, self._line = _CGROUP_2 / name, "io.max", "{} wbps={}"
        else:
            raise NoThrottle("no control group can throttle a device here")
        self._home = self._group.parent / "cgroup.procs"
        try:
            self._group.mkdir()
        except OSError as error:
            raise NoThrottle(f"no control group may be made here: {error}") from error

    def set(self, bytes_per_s: int | None) -> None:
        nothing = "0" if self._file.startswith("blkio") else "max"
        limit = nothing if bytes_per_s is None else str(bytes_per_s)
        try:
            (self._group / self._file).write_text(self._line.format(self._device, limit))
        except OSError as error:
            raise NoThrottle(f"device {self._device} cannot be throttled here: {error}") from error

    def take(self, pid: int) -> None:
        for process in process_tree.tree(pid):
            (self._group / "cgroup.procs").write_text(str(process.pid))

    def lift(self) -> None:
        self.set(None)

    def discard(self) -> None:
        with suppress(OSError, NoThrottle):
            self.lift()
        for pid in (self._group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                self._home.write_text(pid)
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
        raise NoThrottle(f"{directory} lies on no device of its own")
    return ((found.parent if (found / "partition").exists() else found) / "dev").read_text().strip()
