"""One client's socket: frames in, answers out, in the order of the requests.

Sockets are handled here, without transports: one scratch buffer serves every connection, and requests are parsed
where they were received. How answers leave is `sending.py`'s business. An idle connection costs about three kilobytes.

Backpressure is exact: a connection is not read while too much of it is unanswered or unsent, nor while it holds some
of a memory budget that is spent. What it takes of a turn is bounded; whole frames that came beyond that wait.

This is also the supervisor: what goes wrong on a connection costs that connection. Only a broken assertion, which says
that nobody knows any more what the node is doing, goes on to the loop and ends the process.
"""

import mmap
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
from headrace.server.sending import Outbox

if TYPE_CHECKING:
    from headrace.server.shell import Shell

_SIZE: Final = Struct(">i")
# Answers that wait for their turn on one connection; a client with more in flight is not read.
PENDING_MAX: Final = 128
# What waiting for one takes, beside what the wait itself says.
_SLOT_BYTES: Final = 1024
# How long one connection may handle frames while others wait: beyond it, the rest have the next turn.
_TURN_US_MAX: Final = 5_000
# What a connection may read although the budget is spent: only then does it learn to wait.
_READ_BYTES_MIN: Final = 1 << 16

AnswerTo = Callable[[memoryview, Client], Parts | Later[Parts] | None]


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
        "_held_bytes_max",
        "_input_bytes",
        "_is_queued",
        "_is_reading",
        "_is_short",
        "_outbox",
        "_pending",
        "_pending_bytes",
        "_readable_us",
        "_shell",
        "_socket",
        "_turn_us",
        "_view",
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
        # Output: answers that wait for a value or for those before them, and the memory that these take; then what is
        # to be sent.
        self._pending: deque[_Slot] = deque()
        self._pending_bytes = 0
        self._outbox = Outbox(shell, sock, self._on_writable)
        self._held_bytes_max = shell.connection_bytes_max
        # What of both the budget knows: it is told once a turn, and of most turns there is nothing to tell.
        self._accounted_bytes = 0
        self._readable_us = self._turn_us = self._ended_us = 0
        self._is_reading = False
        self._is_queued = False
        self._is_short = False
        self._has_ended = False
        self._settle()

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
        # Of what has come, no more than the budget has left: many connections may find the same rest of it.
        room_bytes = max(self._shell.budget.left_bytes, _READ_BYTES_MIN)
        size = self._socket.recv_into(view[self._filled : min(self._frame_size, self._filled + room_bytes)])
        if size == 0:
            self._on_end()
            return
        self._filled += size
        self._input_bytes += size
        if self._filled == self._frame_size:
            frame = view[: self._frame_size]
            try:
                self._handle(frame, self._shell.node.handle)
            finally:
                frame.release()
                self._release_input()
            self._outbox.send()
        self._settle()

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Whole frames are handled, as far as this turn's share goes; what is left over waits for it, or for more."""
        if self._head:
            # A length cut by the end of an earlier read: rare enough to join by copying.
            view = memoryview(bytearray(self._head + view[:end]))
            end = len(view)
            self._head = b""
        position = 0
        pending, turn_end_us = self._pending, self._turn_us + _TURN_US_MAX
        take, outbox = self._shell.node.take, self._outbox
        try:
            while end - position >= 4:
                (size,) = _SIZE.unpack_from(view, position)
                if not 0 < size <= self._frame_bytes_max:
                    raise ProtocolError(f"frame of {size} bytes; 1 to {self._frame_bytes_max} are accepted here")
                start = position + 4
                if start + size > end:
                    self._begin_frame(size, view[start:end])
                    position = end
                    break
                if position and (
                    self._ended_us > turn_end_us
                    or len(pending) >= PENDING_MAX
                    or self._pending_bytes + outbox.held_bytes > self._held_bytes_max
                ):
                    self._keep_backlog(view[position:end])
                    position = end
                    break
                position = start + size
                self._handle(view[start:position], take)
        finally:
            self._shell.node.finish_frames()
        if position < end:
            self._head = bytes(view[position:end])
        outbox.send()
        self._settle()

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
        self._outbox.send()
        self._settle()

    def _handle(self, frame: memoryview, answer_to: AnswerTo) -> None:
        shell = self._shell
        began_us = monotonic_ns() // 1000
        answer = answer_to(frame, self.client)
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
            self._pending_bytes += slot.held_bytes
            self._pending.append(slot)
            answer.then(lambda parts: self._on_answer(slot, parts))
        elif self._pending:
            slot = _Slot(key, ended_us)
            slot.parts = answer
            slot.held_bytes = _SLOT_BYTES + _bytes_in(answer)
            self._pending_bytes += slot.held_bytes
            self._pending.append(slot)
        else:
            self._outbox.queue(answer, key, ended_us)

    # --- Answering -------------------------------------------------------------------------------------------

    def _on_answer(self, slot: _Slot, parts: Parts) -> None:
        slot.parts = parts
        slot.hurry = None
        self._shell.collected.parked(slot.key, monotonic_ns() // 1000 - slot.parked_us)
        if self.closed:
            return
        waited_bytes, slot.held_bytes = slot.held_bytes, _SLOT_BYTES + _bytes_in(parts)
        self._pending_bytes += slot.held_bytes - waited_bytes
        pending = self._pending
        if pending[0] is not slot:
            self._settle()
            return
        while pending and (ready := pending[0].parts) is not None:
            first = pending.popleft()
            self._pending_bytes -= first.held_bytes
            self._outbox.queue(ready, first.key, monotonic_ns() // 1000)
        # Not in the middle of a read: whoever is reading sends when it is done.
        self._shell.send_soon(self)

    def send(self) -> None:
        """Called by the shell at the end of a turn."""
        if self.closed:
            return
        try:
            self._outbox.send()
            self._settle()
        except Exception as error:
            self._fail(error)

    def _on_writable(self) -> None:
        outbox = self._outbox
        sent_before = outbox.sent_total
        try:
            outbox.send(is_resumed=True)
            self._settle()
        except Exception as error:
            self._fail(error)
        if outbox.sent_total > sent_before:
            self.last_progress_us = monotonic_ns() // 1000
        self._shell.finish_turn()

    # --- Memory, pausing and closing -------------------------------------------------------------------------

    def _release_input(self) -> None:
        self._backlog = None
        if self._buffer is not None and self._view is not None:
            self._view.release()
            self._view = None
            self._shell.buffers.give_back(self._buffer)
            self._buffer = None
        self._input_bytes = 0

    def _held_bytes(self) -> int:
        """What answers take in memory, those that wait and those that are to be sent."""
        return self._pending_bytes + self._outbox.held_bytes

    def _is_held_up(self) -> bool:
        """Whether more input must wait for answers to be made or to leave."""
        return len(self._pending) >= PENDING_MAX or self._held_bytes() > self._held_bytes_max

    def _account(self) -> None:
        """Tell the budget what changed."""
        change = self._input_bytes + self._held_bytes() - self._accounted_bytes
        if change:
            self._accounted_bytes += change
            if change > 0:
                self._shell.budget.claim(change)
            else:
                self._shell.budget.give_back(-change)

    def _settle(self) -> None:
        """At the end of a turn: read on, go on with what was read, wait or close, as things stand now."""
        if self._is_reading and not (
            self._accounted_bytes
            or self._input_bytes
            or self._pending_bytes
            or self._outbox.held_bytes
            or self._has_ended
        ):
            return  # Everything that came is answered and on its way: the rule.
        if self.closed:
            return
        if self._has_ended and self._outbox.is_empty and not self._pending:
            self.close()
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
        self._settle()

    @property
    def debt_bytes(self) -> int:
        """What has yet to move before this connection gives back what it holds of the memory budget."""
        missing = self._frame_size - self._filled if self._view is not None else 0
        return missing + self._held_bytes()

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
                self._outbox.send()
        elif isinstance(error, StorageError):
            events.warning("answer not sent", client=address, error=error)
        elif not isinstance(error, OSError):
            import traceback  # Only for what should never happen.

            events.error("connection failed", client=address, error=error, trace=traceback.format_exc())
        self.close()

    def give_up_waiting(self) -> None:
        """Whoever was to answer will not: bring what can come at once, and close where something cannot."""
        for slot in tuple(self._pending):
            if slot.hurry is not None:
                slot.hurry()
        if self._pending:
            self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        shell = self._shell
        if self._is_reading:
            self._is_reading = False
            shell.loop.remove_reader(self._socket)
        self._outbox.close()
        self._socket.close()
        shell.forget(self)
        self._release_input()
        self._pending_bytes = 0
        self._account()
        # What was waited for here need not be kept for nobody.
        while self._pending:
            slot = self._pending.popleft()
            if slot.hurry is not None:
                slot.hurry()


def _bytes_in(parts: Parts) -> int:
    """What an answer takes in memory: spans of files take nothing."""
    return sum([len(part) for part in parts if isinstance(part, bytes)])
