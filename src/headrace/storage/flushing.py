"""Which offset of a log is known to be on disk, and the grouping of those who wait for it.

The rule that everything rests on: what is acknowledged is the end captured *before* the sync began. After a sync
failed, what the disk holds is unknown, so the log goes offline and nobody who waited is told yes.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.errors import StorageError

FlushDone = Callable[[StorageError | None], None]
SyncTargets = list[Callable[[Callable[[OSError | None], None]], None]]


class Flushable(Protocol):
    """What a log shows its flusher."""

    @property
    def end_offset(self) -> int: ...

    def sync_targets(self) -> SyncTargets:
        """One `sync_then` per file or directory that holds anything not known to be on disk."""
        ...

    def on_flushed(self, end_offset: int) -> None: ...

    def fail(self, error: StorageError) -> None: ...


class Flusher:
    """At most one flush of a log is under way; all who ask meanwhile share the next."""

    __slots__ = ("_flushing", "_log", "_waiters", "flushed_offset")

    def __init__(self, log: Flushable, *, flushed_offset: int) -> None:
        self._log = log
        self.flushed_offset = flushed_offset
        self._flushing = False
        self._waiters: list[tuple[int, FlushDone]] = []

    def flush_then(self, end_offset: int, done: FlushDone) -> None:
        """Call back once everything before `end_offset` is on disk, or cannot be known to be."""
        if end_offset <= self.flushed_offset:
            done(None)
            return
        self._waiters.append((end_offset, done))
        if not self._flushing:
            self._start()

    def _start(self) -> None:
        self._flushing = True
        captured_end = self._log.end_offset
        targets = self._log.sync_targets()
        assert targets
        outstanding = len(targets)
        failure: OSError | None = None

        def one_done(error: OSError | None) -> None:
            nonlocal outstanding, failure
            outstanding -= 1
            failure = failure or error
            if outstanding == 0:
                self._finish(captured_end, failure)

        for sync_then in targets:
            sync_then(one_done)

    def _finish(self, captured_end: int, failure: OSError | None) -> None:
        self._flushing = False
        if failure is not None:
            error = StorageError(f"sync failed: {failure}")
            error.__cause__ = failure
            waiters, self._waiters = self._waiters, []
            self._log.fail(error)
            for _, done in waiters:
                done(error)
            return
        # A truncation meanwhile may have moved the end back; it lowers `flushed_offset` itself, later.
        self.flushed_offset = max(self.flushed_offset, min(captured_end, self._log.end_offset))
        ready = [done for end_offset, done in self._waiters if end_offset <= captured_end]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > captured_end]
        self._log.on_flushed(self.flushed_offset)
        for done in ready:
            done(None)
        if self._waiters and not self._flushing:
            self._start()
