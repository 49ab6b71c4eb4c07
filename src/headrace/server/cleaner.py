"""The node's side of the cleaner process: hands it jobs one at a time, and calls back when it has answered.

A process of its own beside the disk helper's, because a sync must never wait behind a compaction. It starts with the
first job; a node without compacted topics never has one. When it dies its job has failed, and the next one starts
another. What it may write to comes with the job, as descriptors.
"""

import array
import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, cast

from headrace.errors import StorageError
from headrace.ports import Cleaned, CleanedSegments, CleanJob, File, MapJob, Mapped, MappedKeys
from headrace.server.cleaner_main import CLEAN, ERRORS, LENGTH, MAP, framed

# Without the working directory on the path, where a module may have a name of ours.
COMMAND: Final = (sys.executable, "-P", "-m", "headrace.server.cleaner_main")
_RECEIVE_BYTES: Final = 1 << 16
_STOP_TIMEOUT_S: Final = 5.0


class CleanerStatistics(NamedTuple):
    starts: int
    deaths: int
    jobs: int


class Described(Protocol):
    def fileno(self) -> int: ...


Done = Callable[[Any], None]


class CleanerProcess:
    """Nothing starts in the constructor; `close` ends what was started."""

    def __init__(self, loop: asyncio.AbstractEventLoop, root: str, *, command: Sequence[str] = COMMAND) -> None:
        self._loop = loop
        self._command = (*command, root)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._unsent = memoryview(b"")
        self._unparsed = b""
        self._done: Done | None = None
        self._starts = self._deaths = self._jobs = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def statistics(self) -> CleanerStatistics:
        return CleanerStatistics(self._starts, self._deaths, self._jobs)

    def map_then(self, job: MapJob, done: Mapped) -> None:
        self._ask(MAP, job, (), lambda fields: done(MappedKeys(*fields)), done)

    def clean_then(self, job: CleanJob, targets: Sequence[File], done: Cleaned) -> None:
        described = cast(Sequence[Described], targets)
        self._ask(CLEAN, job, described, lambda fields: done(CleanedSegments(*fields)), done)

    def _ask(
        self,
        kind: str,
        job: MapJob | CleanJob,
        files: Sequence[Described],
        done: Callable[[Sequence[int]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        assert self._done is None, "one job at a time"

        def answered(answer: dict[str, Any] | None) -> None:
            if answer is None:
                failed(StorageError("the cleaner ended before it answered"))
            elif "error" in answer:
                failed(ERRORS[answer["error"]](answer["text"]))
            else:
                done(answer["done"])

        self._done = answered
        self._jobs += 1
        message = framed({"kind": kind, "job": job._asdict()})
        try:
            sock = self._running()
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno() for file in files]))
            # The descriptors ride on the length, which always finds room.
            sent = sock.sendmsg([message], [rights] if files else [])
        except OSError as error:
            self._done = None
            self._loop.call_soon(failed, StorageError(f"the cleaner was not reached: {error}"))
            return
        self._unsent = memoryview(message)[sent:]
        if self._unsent:
            self._loop.add_writer(sock, self._send)

    def _running(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)
            with theirs:
                try:
                    # Its own session, so that the terminal's Ctrl-C reaches the node alone.
                    self._process = subprocess.Popen(
                        self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
                    )
                except OSError:
                    ours.close()
                    raise
            self._starts += 1
            self._socket = ours
            self._loop.add_reader(ours, self._receive)
        return self._socket

    def _send(self) -> None:
        assert self._socket is not None
        with suppress(BlockingIOError, ConnectionError):  # One that is gone is noticed by reading.
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._deaths += 1
            self._end()
            return
        self._unparsed += data
        if len(self._unparsed) >= LENGTH.size:
            (size,) = LENGTH.unpack_from(self._unparsed)
            if len(self._unparsed) >= LENGTH.size + size:
                answer = json.loads(self._unparsed[LENGTH.size :])
                self._unparsed = b""
                self._answer(answer)

    def _answer(self, answer: dict[str, Any] | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(answer)

    def _end(self) -> None:
        """Whatever it was doing is worth nothing any more."""
        if self._socket is None:
            return
        assert self._process is not None
        sock, self._socket = self._socket, None
        process, self._process = self._process, None
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)
        sock.close()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        self._unsent, self._unparsed = memoryview(b""), b""
        self._answer(None)

    def close(self) -> None:
        self._end()
