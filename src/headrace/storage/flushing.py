"""Which offset of a log is known to be on disk, and the grouping of those who wait for it.

The rule that everything rests on: what is acknowledged is the end captured *before* the sync began. After a sync
failed, what the disk holds is unknown, so the log goes offline and nobody who waited is told yes, then or later.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.errors import StorageError

FlushDone = Callable[[StorageError | None], None]
SyncTargets = list[Callable[[Callable[[OSError | None], None]], None]]


class Place(NamedTuple):
    """Where an offset begins: in which segment, and at which position of it."""

    offset: int
    segment_base: int
    position: int


class Flushable(Protocol):
    """What a log shows its flusher."""

    offline: StorageError | None

    def end_place(self) -> Place: ...

    def sync_targets(self) -> SyncTargets:
        """One `sync_then` per file or directory that holds anything not known to be on disk; at least one."""
        ...

    def on_flushed(self, place: Place) -> None:
        """Everything before `place`, and all that `sync_targets` named, is on disk."""
        ...

    def fail(self, error: StorageError) -> None: ...


class Flusher:
    """At most one flush of a log is under way; all who ask meanwhile share the next."""

    __slots__ = ("_again", "_flushing", "_log", "_waiters", "flushed_offset")

    def __init__(self, log: Flushable, *, flushed_offset: int) -> None:
        self._log = log
        self.flushed_offset = flushed_offset
        self._flushing = False
        self._again = False
        self._waiters: list[tuple[int, FlushDone]] = []

    def flush_then(self, end_offset: int, done: FlushDone) -> None:
        """Call back once everything before `end_offset` is on disk, or cannot be known to be."""
        if end_offset <= self.flushed_offset:
            done(None)
        elif self._log.offline is not None:
            done(self._log.offline)
        else:
            self._waiters.append((end_offset, done))
            # One under way may reach that far; whoever is left when it is done begins the next.
            if not self._flushing:
                self._start()

    def flush(self) -> None:
        """Flush what is there now, though nobody may wait for it."""
        if self._flushing:
            self._again = True
        else:
            self._start()

    def _start(self) -> None:
        self._flushing = True
        self._again = False
        captured = self._log.end_place()
        try:
            if self._log.offline is not None:
                raise self._log.offline
            targets = self._log.sync_targets()
        except StorageError as error:
            self._fail(error)
            return
        assert targets
        outstanding = len(targets)
        failure: OSError | None = None

        def one_done(error: OSError | None) -> None:
            nonlocal outstanding, failure
            outstanding -= 1
            failure = failure or error
            if outstanding == 0:
                self._finish(captured, failure)

        for sync_then in targets:
            sync_then(one_done)

    def _finish(self, captured: Place, failure: OSError | None) -> None:
        if failure is not None:
            error = StorageError(f"sync failed: {failure}")
            error.__cause__ = failure
            self._fail(error)
            return
        self._flushing = False
        self.flushed_offset = max(self.flushed_offset, captured.offset)
        ready = [done for end_offset, done in self._waiters if end_offset <= captured.offset]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > captured.offset]
        self._log.on_flushed(captured)
        for done in ready:
            done(None)
        # Whoever was called back may have begun the next one.
        if (self._waiters or self._again) and not self._flushing:
            self._start()

    def _fail(self, error: StorageError) -> None:
        """For good: another sync that succeeds would say nothing about what this one lost."""
        self._flushing = False
        self._log.fail(error)
        waiters, self._waiters = self._waiters, []
        for _, done in waiters:
            done(error)
