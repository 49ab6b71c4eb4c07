"""The real disk, without waiting for the device, and with errors where a test wants them.

Nothing is made durable: what a killed process wrote is in the page cache, and no test of this broker cuts the power.
That is why it starts, creates topics and clears itself in milliseconds, and needs no helper process.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence

from headrace.errors import DiskFull, StorageError
from headrace.ports import Buffer, SyncDone
from headrace.server.disk import Syncable, SystemDisk, SystemFile
from headrace.testing.inside.fault_table import FaultTable


class EmbeddedFile(SystemFile):
    __slots__ = ()
    _disk: "EmbeddedDisk"

    def append(self, parts: Sequence[Buffer]) -> None:
        number = self._disk.faults.disk_errno("append", self.path)
        if number is not None:
            self._disk.append_errors += 1
            kind = DiskFull if number in (errno.ENOSPC, errno.EDQUOT) else StorageError
            raise kind(f"{self.path}: {os.strerror(number)}")
        super().append(parts)

    def sync(self) -> None:
        error = self._disk.sync_error(self)
        if error is not None:
            raise StorageError(f"{self.path}: {error.strerror}") from error


class EmbeddedDisk(SystemDisk):
    file_type = EmbeddedFile

    def __init__(self, root: str, *, loop: asyncio.AbstractEventLoop, faults: FaultTable, descriptors_max: int) -> None:
        super().__init__(root, helper=_AtOnce(self, loop), descriptors_max=descriptors_max)
        self.faults = faults

    def sync_error(self, file: Syncable) -> OSError | None:
        """What making this file durable comes to; a failure is for good."""
        if file.sync_error is None and isinstance(file, SystemFile) and not file.deleted:
            number = self.faults.disk_errno("sync", file.path)
            if number is not None:
                file.sync_error = OSError(number, os.strerror(number))
        return file.sync_error

    def sync_dir(self, path: str) -> None:
        pass

    def replace_file(self, path: str, data: bytes, *, sync: bool = True) -> None:
        super().replace_file(path, data, sync=False)


class _AtOnce:
    """In the place of the disk helper: it has nothing to wait for."""

    def __init__(self, disk: EmbeddedDisk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop

    def sync_then(self, file: Syncable, done: SyncDone) -> None:
        self._loop.call_soon(done, self._disk.sync_error(file))

    def warm_then(self, file: Syncable, position: int, size: int, done: Callable[[], None]) -> None:
        self._loop.call_soon(done)
