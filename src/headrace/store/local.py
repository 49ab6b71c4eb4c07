"""The coordination store of one host: a small tree of versioned values, kept in a journal.

Every `multi` is one line with its own CRC, so that it happens whole or not at all. A line that a crash tore is dropped:
nobody was told that it happened. One that rotted costs itself alone. A cluster uses ZooKeeper behind the same shape
instead.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from headrace.errors import DiskFull, HeadraceError, StorageError
from headrace.ports import Disk, File
from headrace.protocol.checksum import crc32c

JOURNAL: Final = "headrace.journal"
ABSENT: Final = -1
# A journal longer than this many times its content is written anew when it is opened.
_REWRITE_FACTOR: Final = 4
_REWRITE_BYTES_MIN: Final = 1 << 16


class Put(NamedTuple):
    path: str
    value: str


class Delete(NamedTuple):
    path: str


class Check(NamedTuple):
    """The multi happens only if `path` is at this version; ABSENT for no such path."""

    path: str
    version: int


class Versioned(NamedTuple):
    value: str
    version: int


class StoreConflict(HeadraceError):
    """A check did not hold; nothing of the multi happened."""


Operation = Put | Delete | Check
MultiDone = Callable[[HeadraceError | None], None]


class LocalStore:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._nodes: dict[str, Versioned] = {}
        self._offline: StorageError | None = None
        self.bad_bytes = 0  # Of the journal, when it was opened.
        if disk.exists(JOURNAL):
            disk.open(JOURNAL).evict()
        journal = disk.read_file(JOURNAL) or b""
        whole_bytes = good_bytes = 0
        for line in journal.splitlines(keepends=True):
            operations = _decode(line)
            if operations is not None:
                self._apply(operations)
                good_bytes += len(line)
                whole_bytes = good_bytes + self.bad_bytes
            else:
                self.bad_bytes += len(line)
        if not disk.exists(JOURNAL):
            disk.replace_file(JOURNAL, b"")
        elif whole_bytes < len(journal):
            file = disk.open(JOURNAL)
            file.truncate(whole_bytes)
            file.sync()
        self._rewrite(good_bytes, has_bad_lines=good_bytes < whole_bytes)
        self._journal: File = disk.open(JOURNAL)

    def _rewrite(self, journal_bytes: int, *, has_bad_lines: bool) -> None:
        """Write a journal anew that is damaged inside, or much longer than its content."""
        content = _encode([Put(path, node.value) for path, node in self._nodes.items()])
        if not has_bad_lines and journal_bytes <= max(_REWRITE_BYTES_MIN, _REWRITE_FACTOR * len(content)):
            return
        with suppress(DiskFull):  # It can as well be done another time.
            self._disk.replace_file(JOURNAL, content)
            # Versions restart from 0: they only ever order the writes of one process here.
            self._nodes = {path: Versioned(node.value, 0) for path, node in self._nodes.items()}

    def read(self, path: str) -> Versioned | None:
        return self._nodes.get(path)

    def children(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Names and values directly below `prefix`, which ends with '/'."""
        for path, node in self._nodes.items():
            if path.startswith(prefix):
                yield path.removeprefix(prefix), node.value

    def multi_then(self, operations: Sequence[Operation], done: MultiDone) -> None:
        """All of the operations or none, durable before `done(None)`."""
        if self._offline is not None:
            done(self._offline)
            return
        for operation in operations:
            if isinstance(operation, Check):
                node = self._nodes.get(operation.path)
                if (node.version if node else ABSENT) != operation.version:
                    done(StoreConflict(f"{operation.path} is not at version {operation.version}"))
                    return
        changes = [operation for operation in operations if not isinstance(operation, Check)]
        try:
            self._journal.append((_encode(changes),))
        except StorageError as error:
            done(error)
            return
        # Later multis are checked against this one already; if it is not durable, none behind it is either.
        self._apply(changes)

        def synced(error: OSError | None) -> None:
            if error is not None:
                self._offline = self._offline or StorageError(f"{JOURNAL}: {error}")
            done(self._offline)

        self._journal.sync_then(synced)

    def _apply(self, operations: Sequence[Put | Delete]) -> None:
        for operation in operations:
            if isinstance(operation, Put):
                before = self._nodes.get(operation.path)
                self._nodes[operation.path] = Versioned(operation.value, before.version + 1 if before else 0)
            else:
                self._nodes.pop(operation.path, None)


def _encode(operations: Sequence[Put | Delete]) -> bytes:
    body = json.dumps(
        [[op.path, op.value] if isinstance(op, Put) else [op.path] for op in operations], separators=(",", ":")
    ).encode()
    return b"%08x %s\n" % (crc32c(body), body)


def _decode(line: bytes) -> list[Put | Delete] | None:
    """None where the line is not one that was written whole."""
    crc, _, body = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or crc != b"%08x" % crc32c(body):
        return None
    return [Put(*item) if len(item) == 2 else Delete(*item) for item in json.loads(body)]
