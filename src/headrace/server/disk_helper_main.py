"""The disk helper process: it syncs files and warms cold ranges, so that the loop need not wait for a device.

It is run by path, isolated and without site-packages, and imports nothing of Headrace: it starts in
milliseconds and stays at a few megabytes. Standard input is a Unix socket to the node. A request is one
fixed-size message that carries a descriptor; a reply is one fixed-size message. The socket is the queue: each
of a few threads takes the next request, serves it and replies. The process ends when the node closes the
socket or dies, and for no other reason: signals meant for the node must not take away the helper that its
orderly stop still needs.
"""

import array
import errno
import os
import signal
import socket
import stat
import struct
import sys
import threading
import time

if sys.platform == "darwin":
    import fcntl

REQUEST = struct.Struct("=QQQQ")  # Request id, operation, position, size; a descriptor rides along.
REPLY = struct.Struct("=QqQ")  # Request id, errno or zero, microseconds of work.

SYNC = 0
WARM = 1

THREADS = 4
_CHUNK_BYTES = 256 * 1024
_DESCRIPTOR_BYTES = array.array("i").itemsize


def make_durable(descriptor: int) -> None:
    """Data and the metadata needed to read it back (so the size, too) reach the device itself.

    Of a directory everything is metadata: fdatasync may return at once with a new name still in memory only.
    """
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            # Network and foreign file systems have no such command; there fsync is the most there is.
            if error.errno not in (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL):
                raise
            os.fsync(descriptor)
    elif stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)


def warm(descriptor: int, position: int, size: int) -> None:
    """Read the range and drop it: what stays is the page cache."""
    end = position + size
    if sys.platform != "darwin":
        os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_WILLNEED)
    while position < end and (read := os.pread(descriptor, min(_CHUNK_BYTES, end - position), position)):
        position += len(read)


def receive(node: socket.socket) -> tuple[bytes, int] | None:
    """The next request and its descriptor, or None once the node is gone."""
    message, ancillary, _, _ = node.recvmsg(REQUEST.size, socket.CMSG_SPACE(_DESCRIPTOR_BYTES))
    while message and len(message) < REQUEST.size:  # A stream may split; the descriptor came with byte one.
        rest = node.recv(REQUEST.size - len(message))
        message = message + rest if rest else b""
    if not message:
        return None
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data)
    (descriptor,) = descriptors
    return message, descriptor


def serve(node: socket.socket, receiving: threading.Lock, replying: threading.Lock) -> None:
    """One request after the other, until the node is gone."""
    while True:
        with receiving:
            request = receive(node)
        if request is None:
            return
        message, descriptor = request
        request_id, operation, position, size = REQUEST.unpack(message)
        started_ns = time.monotonic_ns()
        failure = 0
        try:
            if operation == SYNC:
                make_durable(descriptor)
            else:
                warm(descriptor, position, size)
        except OSError as error:
            failure = error.errno or errno.EIO
        finally:
            os.close(descriptor)
        reply = REPLY.pack(request_id, failure, (time.monotonic_ns() - started_ns) // 1000)
        with replying:
            node.sendall(reply)


def serve_then_exit(node: socket.socket, receiving: threading.Lock, replying: threading.Lock) -> None:
    """The first thread to stop ends the process: nobody may wait forever for what it lost."""
    status = 1
    try:
        serve(node, receiving, replying)
        status = 0
    except ConnectionError:  # The node went away without reading its last replies.
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shared = socket.socket(fileno=0), threading.Lock(), threading.Lock()
    for _ in range(THREADS - 1):
        threading.Thread(target=serve_then_exit, args=shared).start()
    serve_then_exit(*shared)


if __name__ == "__main__":
    main()
