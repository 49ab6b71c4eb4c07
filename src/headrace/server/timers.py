"""The Timers port over an event loop: one heap of ours, one timer of the loop's.

A loop timer per parked fetch would cost more than the fetch; here a timer is a heap entry, and most are cancelled
before they ever matter.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

from headrace.ports import Cancel, Clock

# Cancelled timers stay in the heap until their time comes, or until they are most of it and more than this many.
_COMPACT_AT: Final = 1024


class _Timer:
    __slots__ = ("fire",)

    def __init__(self, fire: Callable[[], None]) -> None:
        self.fire: Callable[[], None] | None = fire


class LoopTimers:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, *, after: Callable[[], None]) -> None:
        """`after` runs once behind every bunch of timers that fired."""
        self._loop = loop
        self._clock = clock
        self._after = after
        self._heap: list[tuple[int, int, _Timer]] = []
        self._count = 0
        self._cancelled = 0
        self._armed_us = 0
        self._handle: asyncio.TimerHandle | None = None
        self._closed = False

    def at(self, mono_us: int, fire: Callable[[], None]) -> Cancel:
        timer = _Timer(fire)
        self._count += 1
        heapq.heappush(self._heap, (mono_us, self._count, timer))
        if self._handle is None or mono_us < self._armed_us:
            self._arm()

        def cancel() -> None:
            if timer.fire is not None:
                timer.fire = None
                self._cancelled += 1
                if self._cancelled > _COMPACT_AT and self._cancelled * 2 > len(self._heap):
                    self._compact()

        return cancel

    def _compact(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2].fire is not None]
        heapq.heapify(self._heap)
        self._cancelled = 0

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap and not self._closed:
            self._armed_us = self._heap[0][0]
            delay_s = max(0, self._armed_us - self._clock.mono_us()) / 1_000_000
            # Loops keep time in whole milliseconds and may wake early; one more keeps us from spinning.
            self._handle = self._loop.call_later(delay_s + 0.001, self._run)

    def _run(self) -> None:
        self._handle = None
        now_us = self._clock.mono_us()
        last = self._count
        added = []  # What firing adds has its turn after everybody else's, however long it is due.
        fired = False
        try:
            while self._heap and self._heap[0][0] <= now_us:
                entry = heapq.heappop(self._heap)
                if entry[1] > last:
                    added.append(entry)
                    continue
                timer = entry[2]
                fire = timer.fire
                if fire is None:
                    self._cancelled -= 1
                    continue
                timer.fire = None
                fired = True
                fire()
        finally:
            for entry in added:
                heapq.heappush(self._heap, entry)
            # Also where one failed: the others have not.
            if fired:
                self._after()
            self._arm()

    def catch_up(self) -> None:
        """The clock was moved: fire what is due by now, and wait anew for the rest."""
        if self._handle is not None:
            self._handle.cancel()
        self._run()

    def close(self) -> None:
        """Nothing fires any more, not even what is asked for later."""
        self._closed = True
        self._arm()
        self._heap.clear()
