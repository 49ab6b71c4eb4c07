"""One client's socket: frames in, answers out, in the order of the requests.

Sockets are handled here, without transports: one scratch buffer serves every connection, requests are parsed where
they were received, and records leave by `sendfile` straight from the page cache. A connection costs a few hundred
bytes while it is idle.

Backpressure is exact: a connection is not read while too much of it is unanswered or unsent, nor while the node's
memory budget is spent.
"""

import mmap
import os
import socket
from collections import deque
from contextlib import suppress
from struct import Struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError, ProtocolError
from headrace.node.apis import Client, Parts
from headrace.node.later import Later
from headrace.server.disk import SystemFile

if TYPE_CHECKING:
    from headrace.server.shell import Shell

_SIZE: Final = Struct(">i")
# Answers that wait for their turn on one connection; a client with more in flight is not read.
_PENDING_MAX: Final = 128
# Records shorter than this are copied behind their header: one system call instead of two.
SENDFILE_BYTES_MIN: Final = 16 << 10
# What one turn may send on one connection, so that others get theirs.
_TURN_BYTES_MAX: Final = 1 << 20
# A range that must be read from the device goes in pieces, and the helper reads ahead of us.
_COLD_CHUNK_BYTES: Final = 256 << 10
_READ_AHEAD_BYTES: Final = 1 << 20
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_HAS_SENDFILE: Final = hasattr(os, "sendfile")
# What is gathered for one call; the socket's buffer takes about this much anyway.
_GATHER_BYTES_MAX: Final = 128 << 10


class _Slot:
    """The place of one answer in the order of requests."""

    __slots__ = ("key", "parked_us", "parts")

    def __init__(self, key: int, parked_us: int) -> None:
        self.key = key
        self.parts: Parts | None = None
        self.parked_us = parked_us


class Connection:
    __slots__ = (
        "_buffer",
        "_claimed",
        "_filled",
        "_frame_bytes_max",
        "_frame_size",
        "_head",
        "_is_reading",
        "_is_writing",
        "_out",
        "_out_bytes",
        "_pending",
        "_queued_total",
        "_readable_us",
        "_sent_total",
        "_shell",
        "_socket",
        "_unsent",
        "_view",
        "_warming",
        "client",
        "closed",
        "last_progress_us",
        "requests",
    )

    def __init__(self, shell: "Shell", sock: socket.socket, client: Client) -> None:
        self._shell = shell
        self._socket = sock
        self.client = client
        self.closed = False
        self.requests = 0
        self.last_progress_us = shell.clock.mono_us()
        # Until a first good request, a stranger gets little room.
        self._frame_bytes_max = shell.first_frame_bytes_max
        self._head = b""
        self._buffer: mmap.mmap | None = None
        self._view: memoryview | None = None
        self._frame_size = 0
        self._filled = 0
        self._claimed = 0
        self._pending: deque[_Slot] = deque()
        self._out: deque[bytes | tuple[SystemFile, int, int]] = deque()
        self._out_bytes = 0
        # Where each answer ends in all that was ever queued here: total, size, API key, when it was ready.
        self._unsent: deque[tuple[int, int, int, int]] = deque()
        self._queued_total = 0
        self._sent_total = 0
        self._readable_us = 0
        self._is_reading = False
        self._is_writing = False
        self._warming = False
        self._resume_reading()

    # --- Reading ---------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        shell = self._shell
        self._readable_us = monotonic_ns() // 1000
        try:
            if self._view is not None:
                self._receive_rest(shell)
            else:
                size = self._socket.recv_into(shell.scratch)
                if size == 0:
                    self.close()
                    return
                self._take_frames(shell.scratch_view, size)
        except (BlockingIOError, InterruptedError):
            return
        except ProtocolError as error:
            shell.events.info("connection refused further service", client=self.client.address, error=error)
            shell.protocol_errors += 1
            self._give_up()
        except OSError:
            self.close()
        self.last_progress_us = self._readable_us
        shell.finish_turn()

    def _receive_rest(self, shell: "Shell") -> None:
        """More of a frame that did not fit the scratch buffer."""
        view = self._view
        assert view is not None
        size = self._socket.recv_into(view[self._filled : self._frame_size])
        if size == 0:
            self.close()
            return
        self._filled += size
        self._claimed += size
        shell.budget.claim(size)
        if self._filled == self._frame_size:
            frame = view[: self._frame_size]
            try:
                self._handle(frame)
            finally:
                frame.release()
                self._release_frame()
            self._send()
        elif shell.budget.is_spent:
            self._wait_for_memory()

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Every whole frame in the scratch buffer; what is left over begins a frame of its own."""
        position = 0
        head = self._head
        if head:
            # A length cut by the end of an earlier read: rare enough to join by copying.
            self._head = b""
            joined = memoryview(bytearray(head + view[:end]))
            view, end = joined, len(joined)
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self._frame_bytes_max:
                raise ProtocolError(f"frame of {size} bytes; 1 to {self._frame_bytes_max} are accepted here")
            start = position + 4
            position = start + size
            if position > end:
                self._begin_frame(size, view[start:end])
                self._send()
                return
            self._handle(view[start:position])
        if position < end:
            self._head = bytes(view[position:end])
        self._send()

    def _begin_frame(self, size: int, received: memoryview) -> None:
        shell = self._shell
        self._buffer = shell.buffers.take(size)
        self._view = memoryview(self._buffer)
        self._frame_size = size
        self._filled = self._claimed = len(received)
        self._view[: self._filled] = received
        shell.budget.claim(self._filled)
        if shell.budget.is_spent:
            self._wait_for_memory()

    def _release_frame(self) -> None:
        if self._buffer is not None and self._view is not None:
            self._view.release()
            self._view = None
            self._shell.buffers.give_back(self._buffer)
            self._buffer = None
            claimed, self._claimed = self._claimed, 0
            self._shell.budget.give_back(claimed)

    def _wait_for_memory(self) -> None:
        self._pause_reading()
        self._shell.wait_for_memory(self._resume_reading)

    def _handle(self, frame: memoryview) -> None:
        shell = self._shell
        began_us = monotonic_ns() // 1000
        answer = shell.node.handle(frame, self.client)
        ended_us = monotonic_ns() // 1000
        key = frame[1]  # The lower byte of the API key: every key that is served is below 256.
        shell.collected.handled(key, began_us, began_us - self._readable_us, ended_us - began_us, len(frame))
        if self.requests == 0:
            self._frame_bytes_max = shell.frame_bytes_max
        self.requests += 1
        if answer is None:
            return
        if isinstance(answer, Later):
            slot = _Slot(key, ended_us)
            self._pending.append(slot)
            answer.then(lambda parts: self._on_answer(slot, parts))
            if len(self._pending) >= _PENDING_MAX:
                self._pause_reading()
        elif self._pending:
            slot = _Slot(key, ended_us)
            slot.parts = answer
            self._pending.append(slot)
        else:
            self._queue(answer, key, ended_us)

    # --- Writing ---------------------------------------------------------------------------------------------

    def _on_answer(self, slot: _Slot, parts: Parts) -> None:
        slot.parts = parts
        self._shell.collected.parked(slot.key, monotonic_ns() // 1000 - slot.parked_us)
        if self.closed or self._pending[0] is not slot:
            return
        self._drain_pending()
        # Not in the middle of a read: whoever is reading sends when it is done.
        self._shell.send_soon(self)

    def _drain_pending(self) -> None:
        pending = self._pending
        while pending and (parts := pending[0].parts) is not None:
            slot = pending.popleft()
            self._queue(parts, slot.key, monotonic_ns() // 1000)
        if not self._is_reading:
            self._resume_reading()

    def _queue(self, parts: Parts, key: int, ready_us: int) -> None:
        held = size = 0
        for part in parts:
            if isinstance(part, bytes):
                held += len(part)
            else:
                size += part[2]
        size += held
        self._out.extend(parts)  # type: ignore[arg-type]
        self._out_bytes += held
        self._queued_total += size
        self._unsent.append((self._queued_total, size, key, ready_us))
        self._shell.budget.claim(held)

    def _note_sent(self, sent: int) -> None:
        """Tell how long the answers took that have now left whole."""
        self._sent_total = sent_total = self._sent_total + sent
        unsent = self._unsent
        if unsent and unsent[0][0] <= sent_total:
            now_us = monotonic_ns() // 1000
            while unsent and unsent[0][0] <= sent_total:
                _, size, key, ready_us = unsent.popleft()
                self._shell.collected.sent(key, now_us - ready_us, size)

    def send(self) -> None:
        """Called by the shell at the end of a turn."""
        try:
            self._send()
        except OSError:
            self.close()

    def _send(self) -> None:
        if self._is_writing or self._warming or self.closed:
            return
        self._write()

    def _on_writable(self) -> None:
        try:
            self._write()
        except OSError:
            self.close()
        self._shell.finish_turn()

    def _write(self) -> None:
        out = self._out
        turn_bytes = 0
        while out and turn_bytes < _TURN_BYTES_MAX:
            part = out[0]
            sent = self._write_bytes() if isinstance(part, bytes) else self._write_span(part)
            if sent < 0:
                break
            turn_bytes += sent
        if out and not self._warming:
            if not self._is_writing:
                self._is_writing = True
                self._shell.loop.add_writer(self._socket, self._on_writable)
        elif self._is_writing:
            self._is_writing = False
            self._shell.loop.remove_writer(self._socket)
        if not self._is_reading:
            self._resume_reading()
        elif self._out_bytes > self._shell.connection_bytes_max:
            self._pause_reading()

    def _write_bytes(self) -> int:
        """As many waiting bytes as one call takes, short records included; -1 when the socket is full."""
        out = self._out
        batch: list[bytes] = []
        size = held = 0
        for part in out:
            if isinstance(part, bytes):
                held += len(part)
            elif part[2] < SENDFILE_BYTES_MIN and part[0].is_warm(part[1], part[2]):
                part = part[0].read(part[1], part[2])
            else:
                break
            batch.append(part)
            size += len(part)
            if size >= _GATHER_BYTES_MAX:
                break
        more = _MSG_MORE if len(batch) < len(out) else 0
        try:
            # Joining a few short parts is cheaper than handing the kernel a list of them.
            sent = self._socket.send(batch[0] if len(batch) == 1 else b"".join(batch), more)
        except (BlockingIOError, InterruptedError):
            return -1
        self._note_sent(sent)
        if sent == size:
            for _ in batch:
                out.popleft()
            self._forget_out(held)
            return sent
        self._keep_rest(batch, sent)
        return -1

    def _keep_rest(self, batch: list[bytes], sent: int) -> None:
        """Drop what the kernel took, and cut the part that it took some of."""
        out = self._out
        for data in batch:
            part = out[0]
            taken = min(sent, len(data))
            sent -= taken
            if isinstance(part, bytes):
                self._forget_out(taken)
            if taken == len(data):
                out.popleft()
                continue
            out[0] = data[taken:] if isinstance(part, bytes) else (part[0], part[1] + taken, part[2] - taken)
            return

    def _forget_out(self, size: int) -> None:
        self._out_bytes -= size
        self._shell.budget.give_back(size)

    def _write_span(self, span: tuple[SystemFile, int, int]) -> int:
        """Records from the page cache; -1 when the socket is full or the device must be asked first."""
        file, position, size = span
        chunk = min(size, _TURN_BYTES_MAX)
        if not file.is_warm(position, chunk):
            chunk = min(size, _COLD_CHUNK_BYTES)
            if not file.is_warm(position, chunk):
                self._warming = True
                ahead = min(max(size, _READ_AHEAD_BYTES), file.size - position)
                file.warm_then(position, ahead, self._on_warm)
                return -1
        try:
            if _HAS_SENDFILE:
                sent = os.sendfile(self._socket.fileno(), file.descriptor(), position, chunk)
            else:
                sent = self._socket.send(file.read(position, min(chunk, _COLD_CHUNK_BYTES)))
        except (BlockingIOError, InterruptedError):
            return -1
        if sent == 0:
            raise ConnectionError(f"{file.path} ends before {position + size}")
        self._shell.sendfile_bytes += sent
        self._note_sent(sent)
        if sent == size:
            self._out.popleft()
        else:
            self._out[0] = (file, position + sent, size - sent)
        return sent

    def _on_warm(self) -> None:
        self._warming = False
        if not self.closed:
            try:
                # What was just read is sent even if the kernel cannot vouch for it.
                self._write()
            except (OSError, HeadraceError):
                self.close()

    # --- Pausing and closing ---------------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._shell.loop.remove_reader(self._socket)

    def _resume_reading(self) -> None:
        if self.closed or self._is_reading:
            return
        if len(self._pending) >= _PENDING_MAX or self._out_bytes > self._shell.connection_bytes_max:
            return
        self._is_reading = True
        self._shell.loop.add_reader(self._socket, self._on_readable)

    @property
    def missing_bytes(self) -> int:
        """How much of a frame that holds part of the budget is still to come."""
        return self._frame_size - self._filled if self._view is not None else 0

    @property
    def is_waiting(self) -> bool:
        """Whether it is our turn to act, not the client's: such a connection is not idle."""
        return bool(self._pending)

    def _give_up(self) -> None:
        """The peer broke the protocol: what was answered before still leaves, if it can at once."""
        if not self.closed:
            with suppress(OSError):
                self._write()
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        shell = self._shell
        self._pause_reading()
        if self._is_writing:
            self._is_writing = False
            shell.loop.remove_writer(self._socket)
        self._release_frame()
        self._out.clear()
        self._pending.clear()
        size, self._out_bytes = self._out_bytes, 0
        shell.budget.give_back(size)
        self._socket.close()
        shell.forget(self)
