"""How long a broker takes until it answers: one hand-written client, for the instant it first does.

Start-up is timed to an answer that a client can use: Metadata that names a broker, and after a restart a
Fetch that returns records. No client library: its own start and retry pauses would be measured with the
broker's. Versions: Metadata 1, Fetch 4, the oldest that Kafka 4 still serves.
"""

import socket
import struct
import time
from typing import Final

from headrace.lab.errors import LabError
from headrace.lab.readings import process_tree

_METADATA: Final = 3
_FETCH: Final = 1
_POLL_S: Final = 0.002
_FETCH_BYTES_MAX: Final = 1 << 16


def seconds_to_answer(bootstrap: str, pid: int, *, topic: str | None = None) -> float | None:
    """From the birth of the process: what Kafka does before it, formatting, is no part of a start. None where the
    system does not tell that."""
    wait_answer(bootstrap, topic=topic)
    return process_tree.age_s(pid)


def wait_answer(bootstrap: str, *, topic: str | None = None, timeout_s: float = 60) -> None:
    """Return once Metadata names a broker and, if a topic is given, its partition 0 yields records."""
    deadline_s = time.monotonic() + timeout_s
    while not _answers(bootstrap, topic):
        if time.monotonic() > deadline_s:
            raise LabError(f"no usable answer from {bootstrap} in {timeout_s} s")
        time.sleep(_POLL_S)


def _answers(bootstrap: str, topic: str | None) -> bool:
    host, port = bootstrap.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            brokers = _call(connection, _METADATA, 1, struct.pack(">i", 0))
            if struct.unpack_from(">i", brokers)[0] < 1:
                return False
            return topic is None or _record_bytes(_call(connection, _FETCH, 4, _fetch_body(topic))) > 0
    except OSError:
        return False  # Not listening yet, or not for long.


def _call(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", key, version, 0, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    size = struct.unpack(">i", _receive(connection, 4))[0]
    return _receive(connection, size)[4:]  # After the correlation id.


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:  # MSG_WAITALL does not wait on a socket with a timeout.
        received = connection.recv(size - len(data))
        if not received:
            raise ConnectionResetError("closed before the answer was complete")
        data += received
    return bytes(data)


def _fetch_body(topic: str) -> bytes:
    name = topic.encode()
    return (
        # replica, max wait ms, min bytes, max bytes, isolation
        struct.pack(">iiiib", -1, 100, 1, _FETCH_BYTES_MAX, 0)
        + struct.pack(">ih", 1, len(name))
        + name
        + struct.pack(">iiqi", 1, 0, 0, _FETCH_BYTES_MAX)  # One partition: 0, from offset 0.
    )


def _record_bytes(answer: bytes) -> int:
    """Size of the records in a Fetch v4 answer for one partition; zero for an error or none."""
    topics, name_bytes = struct.unpack_from(">ih", answer, 4)  # After the throttle time.
    if topics != 1:
        return 0
    position = 10 + name_bytes + 4
    _partition, error, _watermark, _stable, aborted = struct.unpack_from(">ihqqi", answer, position)
    if error != 0:
        return 0
    position += 26 + 16 * max(aborted, 0)
    return int(struct.unpack_from(">i", answer, position)[0])
