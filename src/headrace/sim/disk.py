"""The Disk port in memory, on a seeded world, and unkind.

What is not synced can be lost: page by page (`inode.py`) and name by name (`tree.py`), so a file whose data
was synced can still vanish with its entry in the directory. Syncs and warming take random time. Faults are
ordered in advance: an error at the n-th operation of a kind, a capacity, or the power lost at any operation.

A crash ends this disk and returns the next one, which holds what survived. Handles of the old one are useless
from then on, and none of its callbacks comes any more.

A handle is refused as soon as its path leads to another file, since on a real disk its descriptor may be
closed and reopened at any time.
"""

import copy
import errno
import os
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial

from headrace.errors import DiskFull, StorageError
from headrace.ports import Buffer, SyncDone
from headrace.sim.inode import Capture, Inode
from headrace.sim.tree import Directory, Tree, split
from headrace.sim.world import World

SYNC_US_LEAST, SYNC_US_MOST = 50, 20_000
WARM_US_LEAST, WARM_US_MOST = 20, 10_000
# The share of unsynced changes that reached the device before the power failed: a crash long after the last
# write loses little, and one right after it nearly everything.
WRITTEN_BACK = (0.1, 0.5, 0.9)
_UNLIMITED_BYTES = 1 << 50


class PowerLost(BaseException):
    """The machine went off in the middle of an operation, or a handle from before a crash was used.

    No Exception, because nothing that runs on the machine can handle it.
    """


class Operation(Enum):
    __hash__ = object.__hash__  # Enum's own is written in Python, and every operation is counted.

    APPEND = auto()
    READ = auto()
    TRUNCATE = auto()
    SYNC = auto()
    SYNC_DIR = auto()
    CREATE = auto()
    RENAME = auto()
    DELETE = auto()


class Survival(Enum):
    """What becomes of everything not synced when the power fails."""

    BY_CHANCE = auto()
    NOTHING = auto()
    EVERYTHING = auto()


class _Fault:
    __slots__ = ("countdown", "error", "path_end")

    def __init__(self, countdown: int, error: int, path_end: str) -> None:
        self.countdown = countdown
        self.error = error
        self.path_end = path_end


class SimFile:
    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self.path = path
        self.size = inode.size
        self._disk = disk
        self._inode = inode
        self._deleted = False
        self._sync_error: OSError | None = None
        self._syncing = False
        self._sync_waiting: list[SyncDone] = []

    def __repr__(self) -> str:
        return f"<SimFile {self.path} size={self.size}>"

    def append(self, parts: Sequence[Buffer]) -> None:
        inode = self._check()
        assert self.size == inode.size, f"{self.path} has two writers"
        data = b"".join(parts)
        error = self._disk.operate(Operation.APPEND, self.path)
        room = self._disk.free_bytes()
        if error is None and len(data) > room:
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if error is not None:
            # Part of it was written and cut off again; a crash can bring it back.
            inode.append(data[: min(room, self._disk.world.random.randint(0, len(data)))])
            inode.truncate(self.size)
            raise _storage_error(self.path, error) from error
        inode.append(data)
        self.size += len(data)
        if self._disk.used_bytes is not None:
            self._disk.used_bytes += len(data)

    def read(self, position: int, size: int) -> bytes:
        assert position >= 0
        assert size >= 0
        inode = self._check()
        self._disk.operate_or_raise(Operation.READ, self.path)
        return inode.read(position, max(0, min(size, self.size - position)))

    def truncate(self, size: int) -> None:
        assert 0 <= size <= self.size
        inode = self._check()
        self._disk.operate_or_raise(Operation.TRUNCATE, self.path)
        inode.truncate(size)
        self.size = size

    def is_warm(self, position: int, size: int) -> bool:
        return self._check().is_warm(position, size)

    def warm_then(self, position: int, size: int, done: Callable[[], None]) -> None:
        self._disk.check_power()

        def warmed() -> None:
            self._inode.warm(position, size)
            done()

        self._disk.later(self._disk.world.delay_us(least=WARM_US_LEAST, most=WARM_US_MOST), warmed)

    def evict(self) -> None:
        self._check().evict()

    def sync(self) -> None:
        self._disk.check_power()
        if self._sync_error is not None:
            raise _storage_error(self.path, self._sync_error) from self._sync_error
        if self._deleted:
            return
        inode = self._check()
        error = self._disk.operate(Operation.SYNC, self.path)
        self._settle(inode, inode.capture(), error)
        if error is not None:
            raise _storage_error(self.path, error) from error

    def sync_then(self, done: SyncDone) -> None:
        self._disk.check_power()
        self._sync_waiting.append(done)
        if not self._syncing:
            self._start_sync()

    def _start_sync(self) -> None:
        self._syncing = True
        waiting, self._sync_waiting = self._sync_waiting, []
        error, captured = self._sync_error, None
        if error is None and not self._deleted:
            if self._disk.tree.find(self.path) is not self._inode:
                error = OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            else:
                error, captured = self._disk.operate(Operation.SYNC, self.path), self._inode.capture()

        def finish() -> None:
            self._syncing = False
            if captured is not None:
                self._settle(self._inode, captured, error)
            if self._sync_waiting:
                self._start_sync()
            for done in waiting:
                self._disk.call_if_on(partial(done, error))

        self._disk.later(self._disk.sync_us(), finish)

    def _settle(self, inode: Inode, captured: Capture, error: OSError | None) -> None:
        if error is None:
            inode.commit(captured)
        else:
            inode.lose(captured, self._disk.world.random)
            self._sync_error = error

    def rename(self, path: str) -> None:
        self._check()
        self._disk.operate_or_raise(Operation.RENAME, self.path)
        self._disk.tree.move(self.path, path)
        self.path = path

    def delete(self) -> None:
        self._disk.check_power()
        if self._deleted:
            return
        if self._disk.tree.find(self.path) is self._inode:
            self._disk.operate_or_raise(Operation.DELETE, self.path)
            self._disk.tree.remove(self.path)
        self._deleted = True

    def close(self) -> None:
        self._disk.check_power()

    def _check(self) -> Inode:
        self._disk.check_power()
        if self._deleted or self._disk.tree.find(self.path) is not self._inode:
            raise StorageError(f"{self.path}: no longer the file that was opened")
        return self._inode


class SimDisk:
    def __init__(self, world: World, *, capacity_bytes: int | None = None) -> None:
        self.world = world
        self.capacity_bytes = capacity_bytes
        self.sync_us_most = SYNC_US_MOST
        # How often each kind of operation was tried, and how many of them could change anything.
        self.counts: Counter[Operation] = Counter()
        self.changes = 0
        # Counted when first asked for, and kept while nothing but appends happens.
        self.used_bytes: int | None = None
        self._power_lost_at: int | None = None
        self._power_lost_near: tuple[Operation, int] | None = None
        self._off = False
        self._faults: dict[Operation, list[_Fault]] = {operation: [] for operation in Operation}
        self.tree = Tree()

    # The port.

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.check_power()
        node = self.tree.find(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.operate_or_raise(Operation.CREATE, path)
            node = Inode()
            self.tree.put(path, node)
        if not isinstance(node, Inode):
            raise StorageError(f"{path}: not a file")
        return SimFile(self, path, node)

    def list(self, path: str) -> list[str]:
        self.check_power()
        node = self.tree.find(path)
        if isinstance(node, Inode):
            raise StorageError(f"{path}: not a directory")
        return [] if node is None else sorted(node.entries)

    def exists(self, path: str) -> bool:
        self.check_power()
        return self.tree.find(path) is not None

    def make_dir(self, path: str) -> None:
        self.check_power()
        below = ""
        for name in split(path):
            below = f"{below}/{name}"
            node = self.tree.find(below)
            if isinstance(node, Inode):
                raise StorageError(f"{path}: {name} is a file")
            if node is None:
                self.operate_or_raise(Operation.CREATE, below)
                self.tree.put(below, Directory())

    def rename_dir(self, path: str, to: str) -> None:
        self.operate_or_raise(Operation.RENAME, path)
        self.tree.move(path, to)

    def remove_tree(self, path: str) -> None:
        self.check_power()
        node = self.tree.find(path)
        if node is None:
            return
        if isinstance(node, Directory):
            for name in sorted(node.entries):
                self.remove_tree(f"{path}/{name}")
        self.operate_or_raise(Operation.DELETE, path)
        self.tree.remove(path)

    def sync_dir(self, path: str) -> None:
        self.check_power()
        directory = self.tree.find(path)
        if not isinstance(directory, Directory):
            raise StorageError(f"{path}: {os.strerror(errno.ENOENT)}")
        self.operate_or_raise(Operation.SYNC_DIR, path)
        self.tree.make_durable(directory, self.tree.pending())

    def sync_dir_then(self, path: str, done: SyncDone) -> None:
        self.check_power()
        directory = self.tree.find(path)
        error: OSError | None
        if isinstance(directory, Directory):
            error = self.operate(Operation.SYNC_DIR, path)
        else:
            error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        captured = self.tree.pending()

        def finish() -> None:
            if isinstance(directory, Directory) and error is None:
                self.tree.make_durable(directory, captured)
            done(error)

        self.later(self.sync_us(), finish)

    def read_file(self, path: str) -> bytes | None:
        if not self.exists(path):
            return None
        file = self.open(path)
        return file.read(0, file.size)

    def replace_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        file = self.open(f"{path}.tmp", create=True)
        try:
            file.truncate(0)
            file.append((data,))
            if sync:
                file.sync()
            file.rename(path)
        except StorageError:
            file.delete()
            raise
        if sync:
            self.sync_dir("/".join(split(path)[:-1]))

    def free_bytes(self) -> int:
        self.check_power()
        if self.capacity_bytes is None:
            return _UNLIMITED_BYTES
        if self.used_bytes is None:
            self.used_bytes = sum(node.size for _, node in self.tree.walk() if isinstance(node, Inode))
        return max(0, self.capacity_bytes - self.used_bytes)

    def total_bytes(self) -> int:
        self.check_power()
        return _UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes

    # Faults, ordered in advance.

    def fail(self, operation: Operation, *, nth: int = 1, error: int = errno.EIO, path_end: str = "") -> None:
        """Let the n-th operation of this kind from now on fail, counting paths that end like this."""
        assert nth >= 1
        self._faults[operation].append(_Fault(nth, error, path_end))

    def lose_power_at(self, change: int) -> None:
        """Raise `PowerLost` instead of making this change, counted as `changes` counts, from zero.

        A test runs once to learn how many changes there are, and then once for each of them.
        """
        assert change >= self.changes
        self._power_lost_at = change

    def lose_power_near(self, operation: Operation, *, changes: int) -> None:
        """Raise `PowerLost` so many changes behind the next operation of a kind; instead of it where that is none.

        Most operations are appends and syncs: a moment chosen among all of them hardly ever meets a rename.
        """
        assert operation is not Operation.READ
        self._power_lost_near = operation, changes

    def evict(self) -> None:
        """Leave nothing in the page cache but what is dirty."""
        for _, node in self.tree.walk():
            if isinstance(node, Inode):
                node.evict()

    # Ends, each of which returns the disk that the next process finds.

    def crash(self, survival: Survival = Survival.BY_CHANCE) -> "SimDisk":
        """The power fails. Whoever held this disk is gone."""
        self._off = True
        chance = self.world.random
        written_back = chance.choice(WRITTEN_BACK)
        survives, content = {
            Survival.BY_CHANCE: (
                lambda: chance.random() < written_back,
                lambda inode: inode.kept_by(chance, written_back=written_back),
            ),
            Survival.NOTHING: (lambda: False, Inode.kept_synced),
            Survival.EVERYTHING: (lambda: True, Inode.kept_all),
        }[survival]
        after = self._successor(self.tree.crashed(survives=survives, content=content))
        for path, node in after.tree.walk():
            found = zlib.crc32(node.kept_synced()) if isinstance(node, Inode) else "directory"
            self.world.trace(f"survived {path} {found}")
        return after

    def kill(self) -> "SimDisk":
        """The process dies and the kernel lives: nothing is lost, and nothing is more durable than before."""
        self._off = True
        return self._successor(self.tree)

    def copy(self) -> "SimDisk":
        """A disk of its own with the same content, synced or not: for tests that try every cut of a file."""
        return self._successor(copy.deepcopy(self.tree))

    def cut(self, path: str, size: int) -> None:
        """Make the device hold only the first bytes of a file, as if it had been torn there."""
        self._replace_content(path, self._content(path)[:size])

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Make the device hold other bytes in the middle of a file, as if it had rotted."""
        content = self._content(path)
        assert position + len(data) <= len(content)
        self._replace_content(path, content[:position] + data + content[position + len(data) :])

    # The rest serves SimFile.

    def check_power(self) -> None:
        if self._off:
            raise PowerLost

    def operate(self, operation: Operation, path: str) -> OSError | None:
        """Count an operation; it may end in the error that was ordered for it, or in the dark."""
        self.check_power()
        if operation is not Operation.READ:
            if self._power_lost_near is not None and operation is self._power_lost_near[0]:
                self._power_lost_at = self.changes + self._power_lost_near[1]
                self._power_lost_near = None
            if self.changes == self._power_lost_at:
                self._off = True
                raise PowerLost
            self.changes += 1
            if operation is not Operation.APPEND:
                self.used_bytes = None
        self.counts[operation] += 1
        self.world.trace(f"{operation.name} {path}")
        error = None
        for fault in tuple(self._faults[operation]):
            if path.endswith(fault.path_end):
                fault.countdown -= 1
                if fault.countdown == 0:
                    self._faults[operation].remove(fault)
                    error = OSError(fault.error, os.strerror(fault.error))
        return error

    def operate_or_raise(self, operation: Operation, path: str) -> None:
        if (error := self.operate(operation, path)) is not None:
            raise _storage_error(path, error) from error

    def sync_us(self) -> int:
        """How long the next sync takes."""
        return self.world.delay_us(least=SYNC_US_LEAST, most=self.sync_us_most)

    def call_if_on(self, call: Callable[[], None]) -> None:
        if not self._off:
            call()

    def later(self, delay_us: int, call: Callable[[], None]) -> None:
        self.world.after(delay_us, partial(self.call_if_on, call))

    def _successor(self, tree: Tree) -> "SimDisk":
        after = SimDisk(self.world, capacity_bytes=self.capacity_bytes)
        after.sync_us_most = self.sync_us_most
        after.tree = tree
        return after

    def _content(self, path: str) -> bytes:
        node = self.tree.find(path)
        assert isinstance(node, Inode)
        return node.kept_all()

    def _replace_content(self, path: str, content: bytes) -> None:
        self.tree.put_durably(path, Inode(content))


def _storage_error(path: str, error: OSError) -> StorageError:
    kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(f"{path}: {error.strerror}")
