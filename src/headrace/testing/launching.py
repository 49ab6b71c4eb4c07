"""The three ways to run what `inside` holds: as a process, as a fork of a process that waits for it, as a thread.

However it runs, it is told what to do over a control socket, of which the test has the only other end.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Final, Protocol

from headrace.testing.control import BrokerError
from headrace.testing.messages import FORK, REAP, SPAWN_REPLY, SPAWN_REQUEST

_PROGRAM: Final = "headrace.testing.inside.main"
# How long a broker that has been told to end may take over it.
END_S_MAX: Final = 10.0


class Running(Protocol):
    """A broker that runs, or has ended and was not put away yet."""

    control: socket.socket

    @property
    def pid(self) -> int:
        """Of the process that it runs in."""
        ...

    def end(self) -> None:
        """Close the control socket, and wait until nothing of it is left."""
        ...

    def kill(self) -> None:
        """End it at once, with SIGKILL where it is a process."""
        ...


Launch = Callable[[IO[bytes]], Running]


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", _PROGRAM, *arguments]


class _Process:
    def __init__(self, log: IO[bytes]) -> None:
        self.control, theirs = socket.socketpair()
        try:
            with theirs:
                # Ctrl-C is for the test, which then ends its broker.
                self._process = subprocess.Popen(
                    program(), stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=log, process_group=0
                )
        except BaseException:
            self.control.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        self.control.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.control.close()


def launch_process(log: IO[bytes]) -> Running:
    return _Process(log)


# --- Thread ---------------------------------------------------------------------------------------------------

# A thread that polls keeps the interpreter from the broker's for as long as this; see docs/decisions.
_SWITCH_INTERVAL_S: Final = 5e-5


class _SwitchInterval:
    """Shorter while there is a broker in a thread of this process, then again what it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._before_s = 0.0

    def shorten(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, _SWITCH_INTERVAL_S))

    def give_back(self) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                sys.setswitchinterval(self._before_s)


_switch_interval = _SwitchInterval()


class _Thread:
    def __init__(self, log: IO[bytes]) -> None:
        from headrace.testing.inside.main import serve

        self.control, theirs = socket.socketpair()

        def write(line: str) -> None:
            log.write(line.encode())
            log.flush()

        _switch_interval.shorten()
        self._thread = threading.Thread(target=serve, args=(theirs, write), name="headrace broker", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return os.getpid()

    def end(self) -> None:
        self.control.close()
        self._thread.join(END_S_MAX)
        _switch_interval.give_back()
        assert not self._thread.is_alive(), "the broker's thread does not end"

    def kill(self) -> None:
        """A thread cannot be killed: the broker in it is dropped, without a word to disk or clients."""
        self.end()


def launch_thread(log: IO[bytes]) -> Running:
    return _Thread(log)


# --- Fork -----------------------------------------------------------------------------------------------------


class Spawner:
    """A process that has imported everything, and forks a broker when asked to. Safe to use from several threads."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    program("--spawn"), stdin=theirs.fileno(), stdout=subprocess.DEVNULL, process_group=0
                )
        except BaseException:
            self._socket.close()
            raise

    def launch(self, log: IO[bytes]) -> Running:
        return _Fork(self, log)

    def ask(self, operation: int, pid: int = 0, patience_s: float = 0.0, descriptors: tuple[int, ...] = ()) -> int:
        with self._lock:
            try:
                socket.send_fds(self._socket, [SPAWN_REQUEST.pack(operation, pid, patience_s)], descriptors)
                reply = self._socket.recv(SPAWN_REPLY.size)
            except OSError as error:
                raise BrokerError(f"the pool is gone: {error}") from error
        if not reply:
            raise BrokerError("the pool is gone; what it had to say is on standard error")
        status: int = SPAWN_REPLY.unpack(reply)[0]
        return status

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Fork:
    def __init__(self, spawner: Spawner, log: IO[bytes]) -> None:
        self._spawner = spawner
        self.control, theirs = socket.socketpair()
        try:
            with theirs:
                self.pid = spawner.ask(FORK, descriptors=(theirs.fileno(), log.fileno()))
        except BaseException:
            self.control.close()
            raise

    def end(self) -> None:
        self.control.close()
        self._spawner.ask(REAP, self.pid, END_S_MAX)

    def kill(self) -> None:
        # By its parent, which knows that the process is still the one that it made.
        self._spawner.ask(REAP, self.pid, 0.0)
        self.control.close()
