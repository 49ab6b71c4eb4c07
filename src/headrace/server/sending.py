"""What one connection has yet to send: parts of answers, in order, and how they leave.

Bytes are gathered into one call, records leave by `sendfile` straight from the page cache, and what is not there is
first warmed by the disk helper, so that one reader of old data does not hold up the others. Nothing here waits: where
the socket is full or the device must be asked, `resume` is called when it is worth while to go on.

It does not know requests, nor what an error costs: whoever sends gets it raised.
"""

import os
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from headrace.errors import StorageError
from headrace.node.apis import Parts
from headrace.server.disk import SystemFile

if TYPE_CHECKING:
    from headrace.server.shell import Shell

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


class Outbox:
    __slots__ = (
        "_collected",
        "_is_warm",
        "_is_warming",
        "_is_writing",
        "_out",
        "_queued_total",
        "_resume",
        "_shell",
        "_socket",
        "_unsent",
        "held_bytes",
        "sent_total",
    )

    def __init__(self, shell: "Shell", sock: socket.socket, resume: Callable[[], None]) -> None:
        self._shell = shell
        self._collected = shell.collected
        self._socket = sock
        self._resume = resume
        self._out: deque[bytes | tuple[SystemFile, int, int]] = deque()
        # The memory that it takes: spans of files take none.
        self.held_bytes = 0
        # Where each answer ends in all that was ever queued here: total, size, API key, when it was ready.
        self._unsent: deque[tuple[int, int, int, int]] = deque()
        self._queued_total = 0
        self.sent_total = 0
        # Whether the socket is waited for, or the device; and whether the device has just been.
        self._is_writing = False
        self._is_warming = False
        self._is_warm = False

    @property
    def is_empty(self) -> bool:
        return not self._out

    def queue(self, parts: Parts, key: int, ready_us: int) -> None:
        """An answer to a request of this API, behind those before it."""
        held = size = 0
        for part in parts:
            if isinstance(part, bytes):
                held += len(part)
            else:
                size += part[2]
        size += held
        self._out.extend(parts)  # type: ignore[arg-type]
        self.held_bytes += held
        self._queued_total += size
        self._unsent.append((self._queued_total, size, key, ready_us))

    def send(self, *, is_resumed: bool = False) -> None:
        """As much as the socket takes, and a turn allows. While socket or device is waited for, only `resume` sends."""
        if (self._is_writing or self._is_warming) and not is_resumed:
            return
        out = self._out
        turn_bytes = 0
        while out and turn_bytes < _TURN_BYTES_MAX:
            part = out[0]
            sent = self._write_bytes() if isinstance(part, bytes) else self._write_span(part)
            if sent < 0:
                break
            turn_bytes += sent
        if out and not self._is_warming:
            if not self._is_writing:
                self._is_writing = True
                self._shell.loop.add_writer(self._socket, self._resume)
        elif self._is_writing:
            self._is_writing = False
            self._shell.loop.remove_writer(self._socket)

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
            self.held_bytes -= held
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
                self.held_bytes -= taken
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
                self._is_warming = True
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
        return sent if sent == chunk else -1

    def _on_warm(self) -> None:
        self._is_warming = False
        # It is sent even if the kernel does not vouch for it: asked again and again, it might never.
        self._is_warm = True
        self._resume()

    def _note_sent(self, sent: int) -> None:
        """Tell how long the answers took that have now left whole."""
        self.sent_total = sent_total = self.sent_total + sent
        unsent = self._unsent
        if unsent and unsent[0][0] <= sent_total:
            now_us = monotonic_ns() // 1000
            while unsent and unsent[0][0] <= sent_total:
                _, size, key, ready_us = unsent.popleft()
                self._collected.sent(key, now_us - ready_us, size)

    def close(self) -> None:
        """Before the socket is closed. Whatever still calls back finds nobody."""
        if self._is_writing:
            self._is_writing = False
            self._shell.loop.remove_writer(self._socket)
        self._resume = _ignore
        self._out.clear()
        self._unsent.clear()
        self.held_bytes = 0


def _ignore() -> None:
    pass
