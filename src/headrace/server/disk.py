"""The Disk port over the kernel's files.

Files are opened when first touched, and beyond a limit the ones not used lately are closed again
(`descriptors.py`), so thousands of partitions fit few descriptors. Appends and reads are plain system calls
through the page cache; what may wait for a device (sync, warming) is handed to the disk helper process.

Every failure leaves as `StorageError` with the path, or `DiskFull` where room was missing, except that
opening a missing file is `FileNotFoundError`. Knows nothing of batches, segments or their names.

A descriptor closed and reopened between a write and its sync does not lose a write-back error: Linux (4.17
and later) reports to a new descriptor what no other has been told.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import DiskFull, StorageError
from headrace.ports import Buffer, SyncDone
from headrace.server.descriptors import DescriptorPool
from headrace.server.disk_helper_main import make_durable

# Where the kernel cannot say what is cached, this much of what we appended ourselves is taken to be.
RECENT_TAIL_BYTES = 64 * 1024 * 1024

_FILE_FLAGS = os.O_RDWR | os.O_APPEND
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_PARTS_MAX = os.sysconf("SC_IOV_MAX")

# Bound once: on the append path an attribute of a module is worth its 30 ns.
_write = os.write
_writev = os.writev
_pread = os.pread


class Syncable(Protocol):
    """What the disk helper needs of a file. Requests queue, so it is opened when one is sent."""

    deleted: bool
    sync_error: OSError | None

    def fileno(self) -> int:
        """Raises OSError where the file cannot be opened any more."""
        ...


class Helper(Protocol):
    """What `SystemDisk` asks of the disk helper; it calls back from the event loop, never inside the call."""

    def sync_then(self, file: Syncable, done: SyncDone) -> None: ...

    def warm_then(self, file: Syncable, position: int, size: int, done: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class DiskStatistics:
    descriptors_open: int
    descriptors_max: int
    opens: int
    evictions: int
    append_errors: int


def _storage_error(path: str, error: OSError) -> StorageError:
    kind = DiskFull if error.errno in _NO_ROOM else StorageError
    return kind(f"{path}: {error.strerror}")


@contextmanager
def _failures_name(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _storage_error(path, error) from error


class SystemFile:
    """One file. Its descriptor comes and goes; path, size and identity stay."""

    __slots__ = (
        "_disk",
        "_identity",
        "_ours_from",
        "_pool",
        "_warmed",
        "deleted",
        "held",
        "path",
        "size",
        "sync_error",
        "touched",
    )

    def __init__(self, disk: "SystemDisk", path: str, status: os.stat_result) -> None:
        self.path = path
        self.size = status.st_size
        self.deleted = False
        # The first failed sync, for good: the kernel reports a lost write once, and a retry that succeeds
        # proves nothing about it.
        self.sync_error: OSError | None = None
        self.held = -1
        self.touched = False
        self._disk = disk
        self._pool = disk.pool
        self._identity = (status.st_dev, status.st_ino)
        # Both only matter where the kernel cannot say what is cached.
        self._ours_from = status.st_size
        self._warmed = (0, 0)

    def __repr__(self) -> str:
        return f"<SystemFile {self.path} size={self.size}>"

    def append(self, parts: Sequence[Buffer]) -> None:
        descriptor = self.held
        if descriptor < 0:
            descriptor = self.descriptor()
        else:
            self.touched = True
        try:
            if len(parts) == 1:
                part = parts[0]
                if (written := _write(descriptor, part)) == len(part):
                    self.size += written
                    return
            elif len(parts) <= _PARTS_MAX:
                if (written := _writev(descriptor, parts)) == sum(map(len, parts)):
                    self.size += written
                    return
            else:
                written = 0
            # A short write is how the kernel says that more would fail; asking for the rest tells why.
            rest = memoryview(b"".join(parts))[written:]
            while rest:
                count = _write(descriptor, rest)
                rest = rest[count:]
                written += count
        except OSError as error:
            self._disk.append_errors += 1
            self._cut_back(descriptor)
            raise _storage_error(self.path, error) from error
        self.size += written

    def _cut_back(self, descriptor: int) -> None:
        try:
            os.ftruncate(descriptor, self.size)
        except OSError as error:
            raise StorageError(f"{self.path}: a failed append was not cut back: {error.strerror}") from error

    def read(self, position: int, size: int) -> bytes:
        assert position >= 0
        assert size >= 0
        descriptor = self.held
        if descriptor < 0:
            descriptor = self.descriptor()
        else:
            self.touched = True
        if position + size > self.size:
            size = max(0, self.size - position)
        try:
            data = _pread(descriptor, size, position)
            while len(data) < size:
                more = _pread(descriptor, size - len(data), position + len(data))
                if not more:
                    raise StorageError(f"{self.path}: ends at {position + len(data)}, not at {self.size}")
                data += more
        except OSError as error:
            raise _storage_error(self.path, error) from error
        return data

    def truncate(self, size: int) -> None:
        assert 0 <= size <= self.size
        with _failures_name(self.path):
            os.ftruncate(self.fileno(), size)
        self.size = size
        self._ours_from = min(self._ours_from, size)

    def is_warm(self, position: int, size: int) -> bool:
        end = min(position + size, self.size)
        if position >= end:
            return True
        if (range_cached := self._disk.range_cached(self)) is not None:
            return range_cached(self.descriptor(), position, end - position)
        if position >= self._ours_from and position >= self.size - RECENT_TAIL_BYTES:
            return True
        return self._warmed[0] <= position and end <= self._warmed[1]

    def warm_then(self, position: int, size: int, done: Callable[[], None]) -> None:
        def warmed() -> None:
            self._warmed = (position, position + size)
            done()

        self._disk.helper.warm_then(self, position, size, warmed)

    def evict(self) -> None:
        if hasattr(os, "posix_fadvise"):
            with _failures_name(self.path):
                os.posix_fadvise(self.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self._warmed = (0, 0)
        self._ours_from = self.size

    def sync(self) -> None:
        if self.sync_error is not None:
            raise _storage_error(self.path, self.sync_error) from self.sync_error
        if self.deleted:
            return
        with _failures_name(self.path):
            descriptor = self.fileno()
            try:
                make_durable(descriptor)
            except OSError as error:
                self.sync_error = error
                raise

    def sync_then(self, done: SyncDone) -> None:
        self._disk.helper.sync_then(self, done)

    def rename(self, path: str) -> None:
        with _failures_name(self.path):
            if not self._is_at_its_path():
                raise FileNotFoundError(errno.ENOENT, "no longer the file that was opened")
            os.rename(self._pool.absolute(self.path), self._pool.absolute(path))
        self.path = path

    def delete(self) -> None:
        if self.deleted:
            return
        self.close()
        with _failures_name(self.path):
            if self._is_at_its_path():
                os.unlink(self._pool.absolute(self.path))
        self.deleted = True

    def close(self) -> None:
        self._pool.release(self)

    def descriptor(self) -> int:
        """An open descriptor, good until the next call on any file of this disk: for sendfile."""
        if self.held < 0:
            with _failures_name(self.path):
                self._reopen()
        else:
            self.touched = True
        return self.held

    def fileno(self) -> int:
        """The same under Python's name for it, raising OSError."""
        if self.held < 0:
            self._reopen()
        else:
            self.touched = True
        return self.held

    def _reopen(self) -> None:
        """Take a descriptor again, if what lies under the path is still the same file."""
        if self.deleted:
            raise FileNotFoundError(errno.ENOENT, "deleted")
        descriptor = self._pool.open(self.path, _FILE_FLAGS)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != self._identity or status.st_size < self.size:
            os.close(descriptor)
            raise OSError(errno.ESTALE, "no longer the file that was opened")
        self._pool.hold(self, descriptor)

    def _is_at_its_path(self) -> bool:
        """Whether the path still leads here: another file may have been renamed over it."""
        try:
            status = os.stat(self._pool.absolute(self.path))
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


class _DirectorySync:
    """A directory while syncs of it are pending; it keeps no descriptor beyond them."""

    __slots__ = ("_descriptor", "_path", "_pool", "deleted", "pending", "sync_error")

    def __init__(self, pool: DescriptorPool, path: str) -> None:
        self.deleted = False
        self.sync_error: OSError | None = None
        self.pending = 0
        self._pool = pool
        self._path = path
        self._descriptor = -1

    def fileno(self) -> int:
        if self._descriptor < 0:
            self._descriptor = self._pool.open(self._path, _DIRECTORY_FLAGS)
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class SystemDisk:
    """A tree of files below one root directory, which must exist."""

    file_type: type[SystemFile] = SystemFile

    def __init__(self, root: str, *, helper: Helper | None, descriptors_max: int) -> None:
        """Offline tools pass no helper; then nothing may ask for a `_then`."""
        self.pool = DescriptorPool(root, descriptors_max=descriptors_max)
        self.root = self.pool.root
        self.append_errors = 0
        self._helper = helper
        self._directory_syncs: dict[str, _DirectorySync] = {}
        self._range_cached: Callable[[int, int, int], bool] | None = None
        self._range_cached_loaded = False

    @property
    def helper(self) -> Helper:
        assert self._helper is not None, "this disk was made without a helper"
        return self._helper

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        try:
            return self.file_type(self, path, self._status(path))
        except FileNotFoundError:
            if not create:
                raise
        with _failures_name(path):
            descriptor = self.pool.open(path, _FILE_FLAGS | os.O_CREAT)
            file = self.file_type(self, path, os.fstat(descriptor))
        self.pool.hold(file, descriptor)
        return file

    def _status(self, path: str) -> os.stat_result:
        try:
            status = os.stat(self.pool.absolute(path))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _storage_error(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(f"{path}: not a file")
        return status

    def list(self, path: str) -> list[str]:
        with _failures_name(path):
            try:
                return sorted(os.listdir(self.pool.absolute(path)))
            except FileNotFoundError:
                return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self.pool.absolute(path))

    def make_dir(self, path: str) -> None:
        with _failures_name(path):
            os.makedirs(self.pool.absolute(path), exist_ok=True)

    def rename_dir(self, path: str, to: str) -> None:
        self.pool.release_below(path)
        with _failures_name(path):
            os.rename(self.pool.absolute(path), self.pool.absolute(to))

    def remove_tree(self, path: str) -> None:
        self.pool.release_below(path)
        with _failures_name(path), suppress(FileNotFoundError):
            shutil.rmtree(self.pool.absolute(path))

    def sync_dir(self, path: str) -> None:
        with _failures_name(path):
            descriptor = self.pool.open(path, _DIRECTORY_FLAGS)
            try:
                make_durable(descriptor)
            finally:
                os.close(descriptor)

    def sync_dir_then(self, path: str, done: SyncDone) -> None:
        directory = self._directory_syncs.get(path)
        if directory is None:
            directory = self._directory_syncs[path] = _DirectorySync(self.pool, path)
        directory.pending += 1

        def synced(error: OSError | None) -> None:
            directory.pending -= 1
            if directory.pending == 0:
                directory.close()
                del self._directory_syncs[path]
            done(error)

        self.helper.sync_then(directory, synced)

    def read_file(self, path: str) -> bytes | None:
        with _failures_name(path):
            try:
                with open(self.pool.open(path, os.O_RDONLY), "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def replace_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        with _failures_name(path):
            descriptor = self.pool.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                with open(descriptor, "wb", buffering=0) as file:
                    rest = memoryview(data)
                    while rest:
                        rest = rest[file.write(rest) :]
                    if sync:
                        make_durable(descriptor)
                os.rename(self.pool.absolute(temporary), self.pool.absolute(path))
            except OSError:
                os.unlink(self.pool.absolute(temporary))
                raise
        if sync:
            self.sync_dir(os.path.dirname(path))

    def free_bytes(self) -> int:
        with _failures_name(self.root):
            status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    def total_bytes(self) -> int:
        with _failures_name(self.root):
            status = os.statvfs(self.root)
        return status.f_blocks * status.f_frsize

    def close(self) -> None:
        """Drop every descriptor; files reopen theirs when used again."""
        self.pool.release_all()

    def statistics(self) -> DiskStatistics:
        return DiskStatistics(
            descriptors_open=len(self.pool),
            descriptors_max=self.pool.descriptors_max,
            opens=self.pool.opens,
            evictions=self.pool.evictions,
            append_errors=self.append_errors,
        )

    def range_cached(self, file: SystemFile) -> Callable[[int, int, int], bool] | None:
        """How to ask the kernel what is cached, or None where it cannot say."""
        if not self._range_cached_loaded:
            from headrace.server.cachestat import load_range_cached  # Brings ctypes.

            self._range_cached = load_range_cached(file.descriptor())
            self._range_cached_loaded = True
        return self._range_cached
