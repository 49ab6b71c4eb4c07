"""The cleaner process: it compacts segments, so that neither the loop nor a sync ever waits for that.

Standard input is a Unix socket to the node. A message is a length, and JSON of that length; with a job to write come
the descriptors of the files to write to, since a path may belong to another node by the time it is used. One job at a
time. Between two it remembers the keys of the last map. It has the lowest priority there is, and ends when the node
closes the socket or dies, also in the middle of a job.
"""

import array
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from headrace.errors import CorruptBatch, DiskFull, StorageError
from headrace.ports import CleanJob, MapJob, Readable
from headrace.server.disk import SystemDisk, SystemFile
from headrace.storage.compaction import clean_segments, map_keys
from headrace.storage.key_map import KeyMap
from headrace.storage.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    segment_name,
)

LENGTH: Final = Struct("=I")
MAP, CLEAN = "map", "clean"
# How the errors of a job cross the socket.
ERRORS: Final[dict[str, type[Exception]]] = {
    "corrupt": CorruptBatch,
    "full": DiskFull,
    "storage": StorageError,
}
_TARGETS: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_DESCRIPTORS_MAX: Final = 256
_STEP_BYTES: Final = 1 << 20  # Between two looks at the clock and at the node.
_NICE: Final = 19

R = TypeVar("R", bound=NamedTuple)


class CleanerDisk(SystemDisk):
    """The node's disk, to read from; and files that came as descriptors, to write to."""

    def __init__(self, root: str) -> None:
        super().__init__(root, helper=None, descriptors_max=_DESCRIPTORS_MAX)
        self._adopted: dict[str, SystemFile] = {}

    def adopt(self, path: str, descriptor: int) -> None:
        file = self._adopted[path] = SystemFile(self, path, os.fstat(descriptor))
        self.pool.hold(file, descriptor)

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        return self._adopted.get(path) or super().open(path, create=create)

    def exists(self, path: str) -> bool:
        return path in self._adopted or super().exists(path)

    def let_go(self) -> None:
        for file in self._adopted.values():
            file.close()
        self._adopted.clear()


class NodeGone(Exception):
    """The socket was closed: nobody wants the rest of the work."""


class Worker:
    def __init__(self, node: socket.socket, root: str) -> None:
        self._node = node
        self._disk = CleanerDisk(root)
        self._source: SystemFile | None = None
        self._keys: KeyMap | None = None

    def do(self, kind: str, fields: dict[str, Any], descriptors: Sequence[int]) -> Sequence[float]:
        if kind == MAP:
            return self._map(MapJob(**fields))
        return self._clean(CleanJob(**fields), descriptors)

    def _map(self, job: MapJob) -> Sequence[float]:
        self._keys = None  # Before the next ones come: there is memory for one.
        keys = KeyMap(start_offset=job.start_offset, bytes_max=job.memory_bytes_max)
        steps = map_keys(self._sources(job.directory, job.bases), keys, end_offset=job.end_offset)
        mapped = self._drive(steps, job.bytes_per_s_max)
        self._keys = keys
        return mapped

    def _clean(self, job: CleanJob, descriptors: Sequence[int]) -> Sequence[float]:
        base_offset = job.bases[0]
        try:
            for suffix, descriptor in zip(_TARGETS, descriptors, strict=True):
                path = f"{job.directory}/{segment_name(base_offset)}{suffix}{CLEANED_SUFFIX}"
                self._disk.adopt(path, descriptor)
            if self._keys is None:
                raise StorageError("the keys are gone with the cleaner that had read them")
            target = Segment(self._disk, job.directory, base_offset, created_ms=job.now_ms, suffix=CLEANED_SUFFIX)
            steps = clean_segments(
                self._sources(job.directory, job.bases),
                target,
                self._keys,
                remembered_offsets=frozenset(job.remembered_offsets),
                now_ms=job.now_ms,
                delete_retention_ms=job.delete_retention_ms,
                index_interval_bytes=job.index_interval_bytes,
            )
            return self._drive(steps, job.bytes_per_s_max)
        finally:
            self._disk.let_go()

    def _sources(self, directory: str, bases: Sequence[int]) -> list[Callable[[], Readable]]:
        return [partial(self._open_next, f"{directory}/{segment_name(base)}{LOG_SUFFIX}") for base in bases]

    def _open_next(self, path: str) -> Readable:
        """One source at a time: the one before has been read."""
        if self._source is not None:
            self._source.close()
        self._source = self._disk.open(path)
        return self._source

    def _drive(self, steps: Generator[int, None, R], bytes_per_s_max: float) -> R:
        """To the end, no faster than allowed, and no longer than there is a node."""
        began_s = time.monotonic()
        done_bytes = looked_bytes = 0
        while True:
            try:
                done_bytes += next(steps)
            except StopIteration as end:
                result: R = end.value
                return result
            if done_bytes - looked_bytes >= _STEP_BYTES:
                looked_bytes = done_bytes
                ahead_s = done_bytes / bytes_per_s_max - (time.monotonic() - began_s)
                # The node says nothing while a job is under way: if there is something to read, it is the end.
                if select.select([self._node], [], [], max(0.0, ahead_s))[0]:
                    raise NodeGone


def answer_to(worker: Worker, message: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
    try:
        return {"done": worker.do(message["kind"], message["job"], descriptors)}
    except CorruptBatch as error:
        return {"error": "corrupt", "text": str(error)}
    except DiskFull as error:
        return {"error": "full", "text": str(error)}
    except (StorageError, OSError) as error:
        return {"error": "storage", "text": str(error)}


def receive(node: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None once the node is gone."""
    space = socket.CMSG_SPACE(len(_TARGETS) * array.array("i").itemsize)
    head, ancillary, _, _ = node.recvmsg(LENGTH.size, space)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data)
    head += _receive_all(node, LENGTH.size - len(head)) if head else b""
    if len(head) < LENGTH.size:
        return None
    body = _receive_all(node, LENGTH.unpack(head)[0])
    return (json.loads(body), descriptors.tolist()) if body else None


def _receive_all(node: socket.socket, size: int) -> bytes:
    parts = []
    while size > 0 and (part := node.recv(min(size, 1 << 16))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts) if size == 0 else b""


def framed(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def step_back() -> None:
    """Let everybody else go first.

    Linux may schedule sessions against each other first, and only then the processes in each: alone in a session of
    its own, a process that is nice is nice to nobody, unless the session is too.
    """
    os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as autogroup:
        autogroup.write(str(_NICE))


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Meant for the node, which says when it is enough.
    step_back()
    node = socket.socket(fileno=0)
    worker = Worker(node, sys.argv[1])
    with contextlib.suppress(NodeGone, ConnectionError):
        while (received := receive(node)) is not None:
            node.sendall(framed(answer_to(worker, *received)))


if __name__ == "__main__":
    main()
