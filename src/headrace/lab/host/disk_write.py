"""Writing to the disk for good: how long a small write takes that is synced, and how much gets there a second.

Two measurements. *Commits* append 4 KiB and sync, one after the other: what a broker that syncs before it answers has
to wait for. *Bulk* writes 1 MiB at a time, each on the disk before the next begins, as `dd bs=1M oflag=dsync` does. The
file is written anew from the start where it has become large, and is gone afterwards.

A file system in memory has no disk to measure, and says so.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from headrace.lab.histogram import Histogram
from headrace.lab.sent import quantiles_ms

COMMIT_BYTES: Final = 4096
BULK_BYTES: Final = 1 << 20
_FILE_BYTES_MAX: Final = 256 << 20
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskWrite:
    """MB are 10^6 bytes."""

    file_system: str | None  # Its kind; None where the system does not tell.
    commits: Histogram
    bulk: Histogram

    @property
    def commits_per_s(self) -> float:
        return _per_s(self.commits)

    @property
    def bulk_mb_per_s(self) -> float:
        return _per_s(self.bulk) * BULK_BYTES / 1e6

    def to_json(self) -> dict[str, Any]:
        return {
            "file_system": self.file_system,
            "commit_bytes": COMMIT_BYTES,
            "commits_per_s": round(self.commits_per_s, 1),
            "commit_ms": quantiles_ms(self.commits),
            "bulk_bytes": BULK_BYTES,
            "bulk_mb_per_s": round(self.bulk_mb_per_s, 2),
            "bulk_ms": quantiles_ms(self.bulk),
        }


def measure_disk_write(directory: Path, *, duration_s: float) -> DiskWrite | str:
    """For so long, half of it for each; a sentence where there is no disk."""
    kind = file_system(directory)
    if kind in _IN_MEMORY:
        return f"{directory} is a {kind}, in memory"
    commits = _written(directory, COMMIT_BYTES, duration_s=duration_s / 2, write=_committed)
    bulk = _written(directory, BULK_BYTES, duration_s=duration_s / 2, write=_written_through)
    return DiskWrite(file_system=kind, commits=commits, bulk=bulk)


def _written(directory: Path, size_bytes: int, *, duration_s: float, write: Callable[[int, bytes], None]) -> Histogram:
    block = os.urandom(size_bytes)  # A file system may store zeros, or what repeats, in no space at all.
    took_ns = []
    with _scratch_file(directory, is_synchronous=write is _written_through) as file:
        end_ns = time.monotonic_ns() + round(duration_s * 1e9)
        while (began_ns := time.monotonic_ns()) < end_ns:
            write(file, block)
            took_ns.append(time.monotonic_ns() - began_ns)
            if len(took_ns) * size_bytes % _FILE_BYTES_MAX == 0:
                os.lseek(file, 0, os.SEEK_SET)
    found = Histogram()
    found.add(np.array(took_ns, np.int64))
    return found


def _committed(file: int, block: bytes) -> None:
    _write_all(file, block)
    _sync(file)


def _written_through(file: int, block: bytes) -> None:
    """The file was opened so that a write returns when the data is on the disk."""
    _write_all(file, block)


def _write_all(file: int, block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[os.write(file, left) :]


_sync: Final = getattr(os, "fdatasync", os.fsync)  # macOS has none.


@contextmanager
def _scratch_file(directory: Path, *, is_synchronous: bool) -> Iterator[int]:
    made, path = tempfile.mkstemp(prefix="headrace-lab-", dir=directory)
    try:
        os.close(made)
        file = os.open(path, os.O_WRONLY | (os.O_DSYNC if is_synchronous else 0))
        try:
            yield file
        finally:
            os.close(file)
    finally:
        os.unlink(path)


def _per_s(took: Histogram) -> float:
    return took.count / (took.sum_ns / 1e9) if took.sum_ns else 0.0


def file_system(directory: Path) -> str | None:
    """The kind of file system that a directory is on."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
    except OSError:
        return None
    device = directory.stat().st_dev
    return parse_mounts(mounts).get(f"{os.major(device)}:{os.minor(device)}")


def parse_mounts(mountinfo: str) -> dict[str, str]:
    """Kinds of file systems by device, as `major:minor`."""
    found = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")  # Between them is any number of optional fields.
        found[before.split()[2]] = after.split()[0]
    return found
