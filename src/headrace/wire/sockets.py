"""What a connection asks of its socket, plain or with TLS: to send all, to fill a buffer, each until a deadline.

Deadlines are of the monotonic clock, and cover the whole of a call however many pieces it takes; a TimeoutError says
that one has passed. What else goes wrong is an OSError, and somebody else's to explain.
"""

import select
import socket
import ssl
import struct
import time
from contextlib import suppress
from typing import Final

from headrace.ports import Buffer

_PARTS_MAX: Final = 64  # In one system call; the kernel takes at most 1,024.


def left_s(deadline_s: float) -> float:
    left = deadline_s - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def send_all(taken: socket.socket, parts: list[Buffer], deadline_s: float) -> None:
    """Parts that are not joined first, where the kernel itself can gather them."""
    if isinstance(taken, ssl.SSLSocket):
        taken.settimeout(left_s(deadline_s))
        taken.sendall(b"".join(parts))
        return
    rest = [part for part in parts if len(part)]
    while rest:
        taken.settimeout(left_s(deadline_s))
        sent = taken.sendmsg(rest[:_PARTS_MAX])
        whole = 0
        while whole < len(rest) and sent >= len(rest[whole]):
            sent -= len(rest[whole])
            whole += 1
        del rest[:whole]
        if sent:
            rest[0] = memoryview(rest[0])[sent:]


def fill(taken: socket.socket, view: memoryview, deadline_s: float) -> bool:
    """Receive as much as there is room for. False where the other side has closed before that."""
    receive = _receive_some if isinstance(taken, ssl.SSLSocket) else _receive_all
    position = 0
    while position < len(view):
        received = receive(taken, view[position:], left_s(deadline_s))
        if received == 0:
            return False
        position += received
    return True


def _receive_some(taken: socket.socket, view: memoryview, timeout_s: float) -> int:
    taken.settimeout(timeout_s)
    return taken.recv_into(view)


def _receive_all(taken: socket.socket, view: memoryview, timeout_s: float) -> int:
    """All of it in one system call, unless time is up or the other side is done.

    The kernel does the waiting, so that a thread comes back for the interpreter's lock once an answer and not once a
    piece of it: beside a thread that decodes, each time may take five milliseconds.
    """
    taken.settimeout(None)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(timeout_s))
    try:
        return taken.recv_into(view, 0, socket.MSG_WAITALL)
    except BlockingIOError as error:
        raise TimeoutError("timed out") from error


def _timeval(timeout_s: float) -> bytes:
    """At least a microsecond: nothing would mean for ever."""
    return struct.pack("@ll", *divmod(max(1, int(1e6 * timeout_s)), 1_000_000))


def has_data(taken: socket.socket) -> bool:
    """Whether there is something to receive, if only the end, without waiting for it."""
    if isinstance(taken, ssl.SSLSocket) and taken.pending():
        return True
    return bool(select.select([taken], [], [], 0)[0])


def reason(error: OSError) -> str:
    """In the middle of a sentence."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()


def shut_down(taken: socket.socket) -> None:
    """Wake whoever waits for it, in either direction."""
    with suppress(OSError):  # Not connected any more, which is what was wanted.
        # The plain socket's own: that of a TLS socket would pull the session from under whoever is reading.
        socket.socket.shutdown(taken, socket.SHUT_RDWR)


def at_end(taken: socket.socket) -> bool:
    """Whether the other side has closed a connection on which nothing is due."""
    taken.settimeout(0)  # Python would wait before the system call, whatever the call itself says.
    try:
        return not socket.socket.recv(taken, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
