"""One client's socket: frames in, answers out, in the order of the requests.

Sockets are handled here, without transports: one scratch buffer serves every connection, requests are parsed where
they were received, and records leave by `sendfile` straight from the page cache. A connection costs a few hundred
bytes while it is idle.

Backpressure is exact: a connection is not read while too much of it is unanswered or unsent, nor while it holds some
of a memory budget that is spent. What it takes of a turn is bounded; whole frames that came beyond that wait.

This is also the supervisor: what goes wrong on a connection costs that connection. Only a broken assertion, which says
that nobody knows any more what the node is doing, goes on to the loop and ends the process.
"""

import mmap
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from headrace.errors import ProtocolError, StorageError
from headrace.node.apis import Client, Parts
from headrace.node.later import Later
from headrace.server.disk import SystemFile

if TYPE_CHECKING:
    from headrace.server.shell import Shell

_SIZE: Final = Struct(">i")
# Answers that wait for their turn on one connection; a client with more in flight is not read.
PENDING_MAX: Final = 128
# What waiting for one takes, beside what the wait itself says.
_SLOT_BYTES: Final = 1024
# How long one connection may handle frames while others wait: beyond it, the rest have the next turn.
_TURN_US_MAX: Final = 5_000
# Records shorter than this are copied behind their header: one system call instead of two.
SENDFILE_BYTES_MIN: Final = 16 << 10
# What one turn may send on one connection, so that others get theirs.
_TURN_BYTES_MAX: Final = 1 << 20
# A range that must be read from the device goes in pieces, and the helper reads ahead of us.
_COLD_CHUNK_BYTES: Final = 256 << 10
_READ_AHEAD_BYTES_MIN: Final = 1 << 20
_READ_AHEAD_BYTES_MAX: Final = 4 << 20
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_HAS_SENDFILE: Final = hasattr(os, "sendfile")
# What is gathered for one call; the socket's buffer takes about this much anyway.
_GATHER_BYTES_MAX: Final = 128 << 10


class _Slot:
    """The place of one answer in the order of requests."""

    __slots__ = ("held_bytes", "hurry", "key", "parked_us", "parts")

    def __init__(self, key: int, parked_us: int) -> None:
        self.key = key
        self.parked_us = parked_us
        self.parts: Parts | None = None
        self.hurry: Callable[[], None] | None = None
        # Of the memory budget: first for the wait, then for the answer.
        self.held_bytes = 0


class Connection:
    __slots__ = (
        "_accounted_bytes",
        "_backlog",
        "_buffer",
        "_ended_us",
        "_filled",
        "_frame_bytes_max",
        "_frame_size",
        "_has_ended",
        "_head",
        "_held_bytes",
        "_held_bytes_max",
        "_input_bytes",
        "_is_queued",
        "_is_reading",
        "_is_short",
        "_is_warm",
        "_is_writing",
        "_out",
        "_pending",
        "_queued_total",
        "_readable_us",
        "_sent_total",
        "_shell",
        "_socket",
        "_turn_us",
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
        # Input: the beginning of a length, a frame that is being received, or whole frames that wait for their turn;
        # and the memory that these take.
        self._head = b""
        self._buffer: mmap.mmap | None = None
        self._view: memoryview | None = None
        self._frame_size = 0
        self._filled = 0
        self._backlog: memoryview | None = None
        self._input_bytes = 0
        # Until a first good request, a stranger gets little room.
        self._frame_bytes_max = shell.first_frame_bytes_max
        # Output: answers that wait for a value or for those before them, then what is to be sent; and the memory that
        # these take.
        self._pending: deque[_Slot] = deque()
        self._out: deque[bytes | tuple[SystemFile, int, int]] = deque()
        self._held_bytes = 0
        self._held_bytes_max = shell.connection_bytes_max
        # What of both the budget knows: it is told once a turn, and of most turns there is nothing to tell.
        self._accounted_bytes = 0
        # Where each answer ends in all that was ever queued here: total, size, API key, when it was ready.
        self._unsent: deque[tuple[int, int, int, int]] = deque()
        self._queued_total = 0
        self._sent_total = 0
        self._readable_us = self._turn_us = self._ended_us = 0
        self._is_reading = False
        self._is_queued = False
        self._is_short = False
        self._is_writing = False
        self._warming = False
        self._is_warm = False
        self._has_ended = False
        self._settle_input()

    # --- Reading ---------------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        shell = self._shell
        self._readable_us = self._turn_us = self.last_progress_us = monotonic_ns() // 1000
        try:
            if self._view is not None:
                self._receive_rest(self._view)
            elif size := self._socket.recv_into(shell.scratch):
                self._take_frames(shell.scratch_view, size)
            else:
                self._on_end()
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:
            self._fail(error)
        shell.finish_turn()

    def _receive_rest(self, view: memoryview) -> None:
        """More of a frame that did not fit the scratch buffer."""
        size = self._socket.recv_into(view[self._filled : self._frame_size])
        if size == 0:
            self._on_end()
            return
        self._filled += size
        self._input_bytes += size
        if self._filled == self._frame_size:
            frame = view[: self._frame_size]
            try:
                self._handle(frame)
            finally:
                frame.release()
                self._release_input()
            self._send()
        self._settle_input()

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Whole frames are handled, as far as this turn's share goes; what is left over waits for it, or for more."""
        if self._head:
            # A length cut by the end of an earlier read: rare enough to join by copying.
            view = memoryview(bytearray(self._head + view[:end]))
            end = len(view)
            self._head = b""
        position = 0
        pending, turn_end_us = self._pending, self._turn_us + _TURN_US_MAX
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 0 < size <= self._frame_bytes_max:
                raise ProtocolError(f"frame of {size} bytes; 1 to {self._frame_bytes_max} are accepted here")
            start = position + 4
            if start + size > end:
                self._begin_frame(size, view[start:end])
                position = end
                break
            if position and (self._ended_us > turn_end_us or len(pending) >= PENDING_MAX):
                self._keep_backlog(view[position:end])
                position = end
                break
            position = start + size
            self._handle(view[start:position])
        if position < end:
            self._head = bytes(view[position:end])
        self._send()
        self._settle_input()

    def _begin_frame(self, size: int, received: memoryview) -> None:
        self._buffer = self._shell.buffers.take(size)
        self._view = memoryview(self._buffer)
        self._frame_size = size
        self._filled = len(received)
        self._view[: self._filled] = received
        self._input_bytes = self._filled

    def _keep_backlog(self, frames: memoryview) -> None:
        if frames.obj is self._shell.scratch:
            frames = memoryview(bytearray(frames))  # The scratch buffer is everybody's.
        self._backlog = frames
        self._input_bytes = len(frames)

    def _take_backlog(self) -> None:
        """The next turn of frames that came whole, but more than one turn's worth."""
        self._is_queued = False
        frames = self._backlog
        if frames is None or self._is_held_up():
            return
        self._release_input()
        self._turn_us = monotonic_ns() // 1000
        try:
            self._take_frames(frames, len(frames))
        except Exception as error:
            self._fail(error)
        self._shell.finish_turn()

    def _on_end(self) -> None:
        """The peer sends no more. What it asked for is still answered, but nothing waits for data any longer."""
        self._has_ended = True
        self._release_input()
        for slot in tuple(self._pending):
            if slot.hurry is not None:
                slot.hurry()
        self._send()
        self._settle_input()

    def _handle(self, frame: memoryview) -> None:
        shell = self._shell
        began_us = monotonic_ns() // 1000
        answer = shell.node.handle(frame, self.client)
        self._ended_us = ended_us = monotonic_ns() // 1000
        key = frame[1]  # The lower byte of the API key: every key that is served is below 256.
        shell.collected.handled(key, began_us, began_us - self._readable_us, ended_us - began_us, len(frame))
        if self.requests == 0:
            self._frame_bytes_max = shell.frame_bytes_max
        self.requests += 1
        if answer is None:
            return
        if isinstance(answer, Later):
            slot = _Slot(key, ended_us)
            slot.hurry = answer.hurry
            slot.held_bytes = _SLOT_BYTES + answer.held_bytes
            self._held_bytes += slot.held_bytes
            self._pending.append(slot)
            answer.then(lambda parts: self._on_answer(slot, parts))
        elif self._pending:
            slot = _Slot(key, ended_us)
            slot.parts = answer
            slot.held_bytes = _SLOT_BYTES + _bytes_in(answer)
            self._held_bytes += slot.held_bytes
            self._pending.append(slot)
        else:
            self._queue(answer, key, ended_us)

    # --- Answering -------------------------------------------------------------------------------------------

    def _on_answer(self, slot: _Slot, parts: Parts) -> None:
        slot.parts = parts
        slot.hurry = None
        self._shell.collected.parked(slot.key, monotonic_ns() // 1000 - slot.parked_us)
        if self.closed:
            return
        waited_bytes, slot.held_bytes = slot.held_bytes, _SLOT_BYTES + _bytes_in(parts)
        self._held_bytes += slot.held_bytes - waited_bytes
        pending = self._pending
        if pending[0] is not slot:
            self._settle_input()
            return
        while pending and (ready := pending[0].parts) is not None:
            first = pending.popleft()
            self._held_bytes -= first.held_bytes
            self._queue(ready, first.key, monotonic_ns() // 1000)
        # Not in the middle of a read: whoever is reading sends when it is done.
        self._shell.send_soon(self)

    def _queue(self, parts: Parts, key: int, ready_us: int) -> None:
        held = size = 0
        for part in parts:
            if isinstance(part, bytes):
                held += len(part)
            else:
                size += part[2]
        size += held
        self._out.extend(parts)  # type: ignore[arg-type]
        self._held_bytes += held
        self._queued_total += size
        self._unsent.append((self._queued_total, size, key, ready_us))

    def _note_sent(self, sent: int) -> None:
        """Tell how long the answers took that have now left whole."""
        self._sent_total = sent_total = self._sent_total + sent
        unsent = self._unsent
        if unsent and unsent[0][0] <= sent_total:
            now_us = monotonic_ns() // 1000
            while unsent and unsent[0][0] <= sent_total:
                _, size, key, ready_us = unsent.popleft()
                self._shell.collected.sent(key, now_us - ready_us, size)

    # --- Writing ---------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Called by the shell at the end of a turn."""
        if self.closed:
            return
        try:
            self._send()
            self._settle_input()
        except Exception as error:
            self._fail(error)

    def _send(self) -> None:
        if not self._is_writing and not self._warming:
            self._write()

    def _on_writable(self) -> None:
        sent_before = self._sent_total
        try:
            self._write()
            self._settle_input()
        except Exception as error:
            self._fail(error)
        if self._sent_total > sent_before:
            self.last_progress_us = monotonic_ns() // 1000
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
        if self._has_ended and not out and not self._pending:
            self.close()

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
            self._held_bytes -= held
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
                self._held_bytes -= taken
            if taken == len(data):
                out.popleft()
                continue
            out[0] = data[taken:] if isinstance(part, bytes) else (part[0], part[1] + taken, part[2] - taken)
            return

    def _write_span(self, span: tuple[SystemFile, int, int]) -> int:
        """Records from the page cache; -1 when the socket is full or the device must be asked first."""
        file, position, size = span
        chunk = min(size, _TURN_BYTES_MAX)
        if self._is_warm:
            self._is_warm = False
            chunk = min(size, _COLD_CHUNK_BYTES)
        elif not file.is_warm(position, chunk):
            chunk = min(size, _COLD_CHUNK_BYTES)
            if not file.is_warm(position, chunk):
                self._warming = True
                ahead = min(max(size, _READ_AHEAD_BYTES_MIN), _READ_AHEAD_BYTES_MAX, file.size - position)
                file.warm_then(position, ahead, self._on_warm)
                return -1
        try:
            if _HAS_SENDFILE:
                sent = os.sendfile(self._socket.fileno(), file.descriptor(), position, chunk)
                self._shell.sendfile_bytes += sent
            else:
                sent = self._socket.send(file.read(position, min(chunk, _COLD_CHUNK_BYTES)))
        except (BlockingIOError, InterruptedError):
            return -1
        if sent == 0:
            raise StorageError(f"{file.path} ends before {position + size}")
        self._note_sent(sent)
        if sent == size:
            self._out.popleft()
        else:
            self._out[0] = (file, position + sent, size - sent)
        return sent

    def _on_warm(self) -> None:
        self._warming = False
        if self.closed:
            return
        # It is sent even if the kernel does not vouch for it: asked again and again, it might never.
        self._is_warm = True
        self._on_writable()

    # --- Memory, pausing and closing -------------------------------------------------------------------------

    def _release_input(self) -> None:
        self._backlog = None
        if self._buffer is not None and self._view is not None:
            self._view.release()
            self._view = None
            self._shell.buffers.give_back(self._buffer)
            self._buffer = None
        self._input_bytes = 0

    def _is_held_up(self) -> bool:
        """Whether more input must wait for answers to be made or to leave."""
        return len(self._pending) >= PENDING_MAX or self._held_bytes > self._held_bytes_max

    def _account(self) -> None:
        """Tell the budget what changed."""
        change = self._input_bytes + self._held_bytes - self._accounted_bytes
        if change:
            self._accounted_bytes += change
            if change > 0:
                self._shell.budget.claim(change)
            else:
                self._shell.budget.give_back(-change)

    def _settle_input(self) -> None:
        """At the end of a turn: read on, go on with what was read, or wait, as things stand now."""
        if self._is_reading and not (self._accounted_bytes or self._input_bytes or self._held_bytes or self._has_ended):
            return  # Everything that came is answered and on its way: the rule.
        if self.closed:
            return
        self._account()
        shell = self._shell
        if self._accounted_bytes and shell.budget.is_spent and not self._is_short:
            self._is_short = True
            shell.wait_for_memory(self._on_memory)
        may_go_on = not self._is_short and not self._is_held_up()
        should_read = may_go_on and self._backlog is None and not self._has_ended
        if should_read != self._is_reading:
            self._is_reading = should_read
            if should_read:
                shell.loop.add_reader(self._socket, self._on_readable)
            else:
                shell.loop.remove_reader(self._socket)
        if may_go_on and self._backlog is not None and not self._is_queued:
            self._is_queued = True
            shell.loop.call_soon(self._take_backlog)

    def _on_memory(self) -> None:
        self._is_short = False
        self._settle_input()

    @property
    def debt_bytes(self) -> int:
        """What has yet to move before this connection gives back what it holds of the memory budget."""
        missing = self._frame_size - self._filled if self._view is not None else 0
        return missing + self._held_bytes

    @property
    def is_waiting(self) -> bool:
        """Whether it is our turn to act, not the client's: such a connection is not idle."""
        return bool(self._pending) or self._backlog is not None or self._is_short

    def _fail(self, error: Exception) -> None:
        """Close, and say why where it is not the network's everyday business."""
        if isinstance(error, AssertionError):
            raise error
        events, address = self._shell.events, self.client.address
        if isinstance(error, ProtocolError):
            self._shell.protocol_errors += 1
            events.info("connection refused further service", client=address, error=error)
            # What was answered before still leaves, if it can at once.
            with suppress(OSError, StorageError):
                self._send()
        elif isinstance(error, StorageError):
            events.warning("answer not sent", client=address, error=error)
        elif not isinstance(error, OSError):
            import traceback  # Only for what should never happen.

            events.error("connection failed", client=address, error=error, trace=traceback.format_exc())
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        shell = self._shell
        if self._is_reading:
            self._is_reading = False
            shell.loop.remove_reader(self._socket)
        if self._is_writing:
            self._is_writing = False
            shell.loop.remove_writer(self._socket)
        self._socket.close()
        shell.forget(self)
        self._release_input()
        self._out.clear()
        self._unsent.clear()
        self._held_bytes = 0
        self._account()
        # What was waited for here need not be kept for nobody.
        while self._pending:
            slot = self._pending.popleft()
            if slot.hurry is not None:
                slot.hurry()


def _bytes_in(parts: Parts) -> int:
    """What an answer takes in memory: spans of files take nothing."""
    return sum([len(part) for part in parts if isinstance(part, bytes)])
