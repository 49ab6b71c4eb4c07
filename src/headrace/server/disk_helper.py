"""The node's side of the disk helper process: hands it descriptors, and calls back when it has answered.

A process and not a thread, because a loop that gives up the interpreter lock often starves every thread
beside it. It starts with the first request; a node that never syncs and never reads cold never has one.

Rules:

- Callbacks come from the event loop, never from inside the call that asked.
- Syncs are grouped by file: while one is in flight, all later callers share the one that follows it.
- A failed sync fails the file for good. The kernel reports a lost write once, so neither the callers behind
  the failure nor any later one may be told that their bytes are safe.
- When the helper dies, the outcome of what it held is unknown, so those syncs fail; what was still queued
  goes to its successor. Helpers that die in a row without one answer are not replaced for ever.
- Warming is a kindness: its callback comes in every case, and the reader reads.
"""

import array
import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headrace.ports import SyncDone
from headrace.server import disk_helper_main
from headrace.server.disk import Syncable
from headrace.server.disk_helper_main import REPLY, REQUEST, SYNC, THREADS, WARM

# Enough to keep every thread of the helper busy; small enough for any socket buffer, so no send can block.
IN_FLIGHT_MAX = 32
# Half of the threads are always left to syncs: a reader of old data must not hold up an acknowledgement.
WARMS_IN_FLIGHT_MAX = THREADS // 2
DEATHS_IN_A_ROW_MAX = 3
STOP_TIMEOUT_S = 5.0
_REAP_INTERVAL_S = 0.1

# Isolated from the environment and without site-packages; run by path, so that no package is imported.
COMMAND = (sys.executable, "-I", "-S", disk_helper_main.__file__)


@dataclass(frozen=True, slots=True)
class HelperStatistics:
    starts: int
    deaths: int
    in_flight: int
    queued: int
    syncs: int
    sync_errors: int
    sync_us_total: int
    warms: int
    warm_errors: int
    warm_us_total: int
    warm_bytes_total: int


class _Sync:
    """One sync and everybody who waits for it."""

    __slots__ = ("file", "waiting")

    def __init__(self, file: Syncable, done: SyncDone) -> None:
        self.file: Final = file
        self.waiting: Final = [done]


class _Warm:
    __slots__ = ("done", "file", "position", "size")

    def __init__(self, file: Syncable, position: int, size: int, done: Callable[[], None]) -> None:
        self.file: Final = file
        self.position: Final = position
        self.size: Final = size
        self.done: Final = done


class _Gone(Exception):
    """The process has ended, and the request was not sent."""


class _Process:
    """One helper process and the socket to it."""

    def __init__(self, command: Sequence[str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            with theirs:
                # Its own session, so that the terminal's Ctrl-C reaches the node alone.
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
                )
        except OSError:
            self.socket.close()
            raise
        self.pid = self._process.pid
        self.unparsed = b""

    def send(self, message: bytes, descriptor: int) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (descriptor,)))
        try:
            sent = self.socket.sendmsg([message], [rights])
        except ConnectionError as error:
            raise _Gone from error
        assert sent == len(message)  # IN_FLIGHT_MAX keeps the buffer far from full.

    def receive(self) -> list[tuple[int, int, int]] | None:
        """Whole replies, or None once the process is gone."""
        try:
            data = self.socket.recv(IN_FLIGHT_MAX * REPLY.size)
        except BlockingIOError:
            return []
        except ConnectionError:
            return None
        if not data:
            return None
        data = self.unparsed + data
        whole_bytes = len(data) - len(data) % REPLY.size
        self.unparsed = data[whole_bytes:]
        return list(REPLY.iter_unpack(memoryview(data)[:whole_bytes]))

    def kill(self) -> None:
        self.socket.close()
        self._process.kill()

    def has_exited(self) -> bool:
        return self._process.poll() is not None

    def stop(self, timeout_s: float) -> None:
        """Closing the socket asks it to end; killing insists. One stuck in the kernel is left to init."""
        self.socket.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)


class DiskHelper:
    """Nothing starts in the constructor; `close` ends what was started."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, command: Sequence[str] = COMMAND) -> None:
        self._loop = loop
        self._command = command
        self._process: _Process | None = None
        self._closed = False
        self._request_id = 0
        self._in_flight: dict[int, _Sync | _Warm] = {}
        self._warms_in_flight = 0
        self._sync_queue: deque[_Sync] = deque()
        self._warm_queue: deque[_Warm] = deque()
        # By file: the sync in flight, and the one that may still be joined because it was not sent yet. The
        # latter is in the queue too, unless it has to wait for the former.
        self._syncing: dict[Syncable, _Sync] = {}
        self._joinable: dict[Syncable, _Sync] = {}
        self._deaths_in_a_row = 0
        self._starts = self._deaths = 0
        self._syncs = self._sync_errors = self._sync_us = 0
        self._warms = self._warm_errors = self._warm_us = self._warm_bytes = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def sync_then(self, file: Syncable, done: SyncDone) -> None:
        if (sync := self._joinable.get(file)) is not None:
            sync.waiting.append(done)
            return
        sync = self._joinable[file] = _Sync(file, done)
        if file not in self._syncing:
            self._sync_queue.append(sync)
            self._send_queued()

    def warm_then(self, file: Syncable, position: int, size: int, done: Callable[[], None]) -> None:
        self._warm_queue.append(_Warm(file, position, size, done))
        self._send_queued()

    def close(self) -> None:
        """For shutdown, when nothing waits any more; whoever still does is told that it was given up."""
        self._closed = True
        if self._process is not None:
            process = self._forget_process()
            process.stop(STOP_TIMEOUT_S)
        self._send_queued()

    def statistics(self) -> HelperStatistics:
        return HelperStatistics(
            starts=self._starts,
            deaths=self._deaths,
            in_flight=len(self._in_flight),
            queued=len(self._joinable) + len(self._warm_queue),
            syncs=self._syncs,
            sync_errors=self._sync_errors,
            sync_us_total=self._sync_us,
            warms=self._warms,
            warm_errors=self._warm_errors,
            warm_us_total=self._warm_us,
            warm_bytes_total=self._warm_bytes,
        )

    def _send_queued(self) -> None:
        try:
            while self._sync_queue and len(self._in_flight) < IN_FLIGHT_MAX:
                self._send_sync(self._sync_queue[0])
                self._sync_queue.popleft()
            while self._warm_queue and self._warms_in_flight < WARMS_IN_FLIGHT_MAX:
                self._send_warm(self._warm_queue[0])
                self._warm_queue.popleft()
        except _Gone:
            # The loop is about to say so; this request will be the first of the successor.
            return

    def _send_sync(self, sync: _Sync) -> None:
        error = sync.file.sync_error
        if error is None and not sync.file.deleted:
            try:
                self._send(sync, SYNC, 0, 0)
            except OSError as unsent:
                error = unsent
            else:
                del self._joinable[sync.file]
                self._syncing[sync.file] = sync
                return
        # Without an error the file was deleted: nothing is left that a crash could take.
        del self._joinable[sync.file]
        self._finish_sync(sync, error)

    def _send_warm(self, warm: _Warm) -> None:
        try:
            self._send(warm, WARM, warm.position, warm.size)
        except OSError as unsent:
            self._finish_warm(warm, unsent)
        else:
            self._warms_in_flight += 1

    def _send(self, request: _Sync | _Warm, operation: int, position: int, size: int) -> None:
        descriptor = request.file.fileno()
        process = self._running_process()
        self._request_id += 1
        process.send(REQUEST.pack(self._request_id, operation, position, size), descriptor)
        self._in_flight[self._request_id] = request

    def _running_process(self) -> _Process:
        if self._process is None:
            if self._closed:
                raise OSError(errno.ECANCELED, "the disk helper was stopped")
            if self._deaths_in_a_row >= DEATHS_IN_A_ROW_MAX:
                raise OSError(errno.EIO, f"the disk helper died {self._deaths_in_a_row} times in a row")
            self._process = _Process(self._command)
            self._starts += 1
            self._loop.add_reader(self._process.socket, self._receive)
        return self._process

    def _receive(self) -> None:
        assert self._process is not None
        replies = self._process.receive()
        if replies is None:
            self._deaths += 1
            self._deaths_in_a_row += 1
            process = self._forget_process()
            process.kill()
            self._reap(process)
        else:
            for request_id, failure, work_us in replies:
                self._deaths_in_a_row = 0
                self._finish(request_id, OSError(failure, os.strerror(failure)) if failure else None, work_us)
        self._send_queued()

    def _reap(self, process: _Process) -> None:
        """Without waiting: a process whose device hangs is killed at once but may not end soon."""
        if not process.has_exited():
            self._loop.call_later(_REAP_INTERVAL_S, self._reap, process)

    def _forget_process(self) -> _Process:
        """The process is gone or given up; what it held has an unknown outcome."""
        assert self._process is not None
        process, self._process = self._process, None
        self._loop.remove_reader(process.socket)
        for request_id in tuple(self._in_flight):
            self._finish(request_id, OSError(errno.EIO, "the disk helper ended before it answered"), 0)
        return process

    def _finish(self, request_id: int, error: OSError | None, work_us: int) -> None:
        request = self._in_flight.pop(request_id)
        if isinstance(request, _Sync):
            self._sync_us += work_us
            del self._syncing[request.file]
            if (next_sync := self._joinable.get(request.file)) is not None:
                self._sync_queue.append(next_sync)
            self._finish_sync(request, error)
        else:
            self._warm_us += work_us
            self._warms_in_flight -= 1
            self._finish_warm(request, error)

    def _finish_sync(self, sync: _Sync, error: OSError | None) -> None:
        self._syncs += 1
        if error is not None:
            self._sync_errors += 1
            if sync.file.sync_error is None:
                sync.file.sync_error = error
        # Each as a turn of its own, so that one which raises does not take the others with it.
        for done in sync.waiting:
            self._loop.call_soon(done, error)

    def _finish_warm(self, warm: _Warm, error: OSError | None) -> None:
        self._warms += 1
        if error is None:
            self._warm_bytes += warm.size
        else:
            self._warm_errors += 1
        self._loop.call_soon(warm.done)
