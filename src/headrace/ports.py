"""The ports through which logic meets the world.

`storage`, `node` and what will join them (coordination, replication) are callback state machines: no await,
no thread, no clock read. They are handed these ports. The server implements them over the kernel,
`headrace.sim` over a seeded heap; the same contract tests run on both.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Clock(Protocol):
    """Two clocks, because they move apart: tests shift one and not the other."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for record timestamps and retention. May jump."""
        ...

    def mono_us(self) -> int:
        """Microseconds that only rise, for deadlines and durations."""
        ...


Cancel = Callable[[], None]


class Timers(Protocol):
    def at(self, mono_us: int, fire: Callable[[], None]) -> Cancel:
        """Call `fire` once, not before `mono_us`. Cancelling twice, or after it fired, does nothing."""
        ...


SyncDone = Callable[[OSError | None], None]


class Readable(Protocol):
    """What walking a file needs of it. Offline tools have no more."""

    path: str
    size: int

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...


class File(Readable, Protocol):
    """One file, opened when first touched; its descriptor may be closed and reopened underneath.

    Reads and appends go through the page cache and are synchronous. What can stall for long (sync, cold
    reads) has a `_then` form that calls back from the event loop, never from inside the call itself.

    A handle knows its own path and size: one that appends is the only one. Failures are `StorageError`, also
    where the path leads to another file by now, or to none.
    """

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all parts at the end, or nothing.

        A short or failed write is cut back before raising: `DiskFull` when there was no room, `StorageError`
        otherwise.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to this size, which is no larger than the present one; durable once synced."""
        ...

    def is_warm(self, position: int, size: int) -> bool:
        """Whether reading this range would not wait for the device. May say no when unsure."""
        ...

    def warm_then(self, position: int, size: int, done: Callable[[], None]) -> None:
        """Bring the range into the page cache off the loop, then call back.

        A kindness and no promise: it calls back where it failed, too. Then read, whatever `is_warm` says.
        """
        ...

    def evict(self) -> None:
        """Let go of what the page cache holds and the device has: what is read next tells what the device has.

        After a sync failed, the kernel may show for as long as it likes what the device lost, and call it clean.
        """
        ...

    def sync(self) -> None:
        """Make data and size durable now, blocking: for start-up, shutdown and metadata only."""
        ...

    def sync_then(self, done: SyncDone) -> None:
        """Make everything appended *before this call* durable, then `done(None)`, or `done(error)`.

        Calls on one file are grouped. After an error the file's durable content is unknown, and every later
        sync of it fails. Of a deleted file nothing can be lost any more, so its sync succeeds.
        """
        ...

    def rename(self, path: str) -> None:
        """Atomic, replacing any file there; durable only once the directory is synced."""
        ...

    def delete(self) -> None:
        """Unlink, and drop any open descriptor. Deleting a missing file does nothing."""
        ...

    def close(self) -> None:
        """Drop the descriptor; a later call reopens it."""
        ...


class Files(Protocol):
    """What a segment needs of a disk."""

    def open(self, path: str, *, create: bool = False) -> File:
        """A handle; FileNotFoundError where there is no such file and `create` is false."""
        ...

    def exists(self, path: str) -> bool: ...


class Disk(Files, Protocol):
    """A tree of files below one root. Paths are relative, with '/' between the parts."""

    def list(self, path: str) -> list[str]:
        """Names below a directory, sorted; empty where there is no such directory."""
        ...

    def make_dir(self, path: str) -> None:
        """With its parents; no error where it exists."""
        ...

    def rename_dir(self, path: str, to: str) -> None:
        """The target is missing or empty. Handles of files below the directory are useless from then on."""
        ...

    def remove_tree(self, path: str) -> None:
        """Everything below the directory, and itself. Removing a missing one does nothing."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and deletions in this directory durable, blocking (about a millisecond)."""
        ...

    def sync_dir_then(self, path: str, done: SyncDone) -> None:
        """As `sync_dir`, off the loop."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None where there is none."""
        ...

    def replace_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write a small file so that a crash leaves either the old content or the new.

        Without `sync` nothing is waited for, and a crash may also leave it empty, torn or missing: only for
        what can be rebuilt.
        """
        ...

    def free_bytes(self) -> int: ...

    def total_bytes(self) -> int: ...


class MapJob(NamedTuple):
    """Learn the last offset of each key in some segments, from `start_offset` on, as far as memory allows."""

    directory: str
    bases: Sequence[int]
    start_offset: int
    end_offset: int  # Where the first segment begins that must not be touched.
    memory_bytes_max: int
    bytes_per_s_max: float


class MappedKeys(NamedTuple):
    end_offset: int  # Up to where the keys are known.
    keys: int
    bytes_read: int


class CleanJob(NamedTuple):
    """Write what the keys that were learnt leave of some segments into `.cleaned` files, which exist and are empty."""

    directory: str
    bases: Sequence[int]
    remembered_offsets: Sequence[int]  # Last offsets of batches that producers are known by.
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    bytes_per_s_max: float


class CleanedSegments(NamedTuple):
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int


Mapped = Callable[[MappedKeys | Exception], None]
Cleaned = Callable[[CleanedSegments | Exception], None]


class Cleaner(Protocol):
    """Does the work of compaction off the loop: reads keys, then writes segments anew. One job at a time.

    It calls back from the event loop, never from inside the call, with what it did or an error: `DiskFull` where there
    was no room, `StorageError` for other failures of the disk, `CorruptBatch` where a segment cannot be read. A cleaner
    that dies forgets its keys: whatever is asked of it until the next map is a `StorageError`.
    """

    def map_then(self, job: MapJob, done: Mapped) -> None: ...

    def clean_then(self, job: CleanJob, targets: Sequence[File], done: Cleaned) -> None:
        """`targets` are the files to write: log, offset index and time index. They are on disk when it calls back.

        By their handles alone: one that outlives its node by a moment must not write into the next one's files.
        """
        ...
