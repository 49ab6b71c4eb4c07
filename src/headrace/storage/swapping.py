"""Putting a compacted segment in the place of those it was made from, so that a crash at any moment leaves one or the
other and never both.

    .cleaned    being written; nobody's yet. A start throws it away
    .swap       on disk, and valid: a start puts it in the place of all that it covers
    .deleted    replaced. Readers under way still hold it; it goes a while later, or at the next start

The names are Kafka's, and each brings about what the other left. Between two steps the directory is synced: a crash may
undo any of the renames that were not, whatever their order. A compacted segment keeps the last batch of those that it
replaces, if only empty, and so says itself how far it reaches.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from headrace.errors import CorruptBatch, StorageError
from headrace.ports import Disk, File
from headrace.storage.scan import headers_from
from headrace.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    segment_name,
)

# Given the files that were replaced; None where none was, since they were no longer there or the log went offline.
Swapped = Callable[[list[File] | None], None]


class Swappable(Protocol):
    """What a log shows of itself to a swap."""

    directory: str
    offline: StorageError | None

    def exchange(self, bases: Sequence[int], cleaned: Segment) -> list[Segment] | None: ...

    def holds(self, segment: Segment) -> bool: ...

    def fail(self, error: StorageError) -> None: ...


class Swap:
    """One swap. Whatever becomes of it, it ends with `done`."""

    def __init__(self, disk: Disk, log: Swappable, bases: Sequence[int], cleaned: Segment, done: Swapped) -> None:
        self._disk = disk
        self._log = log
        self._bases = bases
        self._cleaned = cleaned
        self._done = done
        self._replaced: list[File] = []

    def begin(self) -> None:
        """Once the files of the segment are on disk."""
        self._step(lambda: self._cleaned.rename(SWAP_SUFFIX), self._replace)

    def _step(self, rename: Callable[[], object], then: Callable[[], None]) -> None:
        """Do something to the names, and go on once that is on disk."""

        def synced(error: OSError | None) -> None:
            if error is not None:
                self._fail(StorageError(f"{self._log.directory}: sync failed: {error}"))
            elif self._log.offline is not None:
                self._done(None)
            else:
                then()

        try:
            rename()
        except StorageError as error:
            self._fail(error)
        else:
            self._disk.sync_dir_then(self._log.directory, synced)

    def _fail(self, error: StorageError) -> None:
        self._log.fail(error)
        self._done(None)

    def _replace(self) -> None:
        replaced = self._log.exchange(self._bases, self._cleaned)
        if replaced is None:
            self._step(self._discard, lambda: self._done(None))
            return

        def doom() -> None:
            for segment in replaced:
                has_heir = segment.base_offset == self._cleaned.base_offset
                self._replaced += segment.doomed_files(keep_snapshot=has_heir)

        self._step(doom, self._settle)

    def _discard(self) -> None:
        """Retention took some of the segments meanwhile. If a crash brings this one back, it ends where they did."""
        for file in self._cleaned.doomed_files(keep_snapshot=True):
            file.delete()

    def _settle(self) -> None:
        if self._log.holds(self._cleaned):
            self._step(lambda: self._cleaned.rename(""), lambda: self._done(self._replaced))
        else:
            self._done(self._replaced)  # Retention took it, and gave it another name.


def finish_swaps(disk: Disk, directory: str) -> None:
    """At a start: put every `.swap` in its place. What it covers is gone for good before it gets there."""
    names = disk.list(directory)
    for name in names:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _finish_swap(disk, directory, int(name.removesuffix(LOG_SUFFIX + SWAP_SUFFIX)))
    for name in disk.list(directory):
        if name.endswith(SWAP_SUFFIX):
            disk.open(f"{directory}/{name}").delete()  # An index alone; it is made again.


def _finish_swap(disk: Disk, directory: str, base_offset: int) -> None:
    swapped = disk.open(f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}{SWAP_SUFFIX}")
    end_offset = base_offset + 1
    with suppress(CorruptBatch):  # It was whole; if it has rotted since, reading it will tell.
        for _, header in headers_from(swapped, start=0, end=swapped.size):
            end_offset = header.last_offset + 1
    suffixes = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
    for name in disk.list(directory):
        stem, dot, kind = name.partition(".")
        if stem.isdecimal() and dot + kind in suffixes and base_offset <= int(stem) < end_offset:
            disk.open(f"{directory}/{name}").delete()
    disk.sync_dir(directory)
    for suffix in suffixes:
        path = f"{directory}/{segment_name(base_offset)}{suffix}"
        if disk.exists(path + SWAP_SUFFIX):
            disk.open(path + SWAP_SUFFIX).rename(path)
    disk.sync_dir(directory)
