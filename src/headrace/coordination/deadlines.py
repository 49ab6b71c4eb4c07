"""Deadlines by name, cheap to put off: almost all of them are, by every heartbeat.

A deadline that moves back costs one dictionary entry. The heap still holds its earlier time; when that comes, the entry
is put back at the true one. What was cancelled, or moved forward, leaves an entry behind that is thrown away when its
time comes, or when such entries are the most of the heap.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from headrace.coordination.decision import Timer

_STALE_MIN: Final = 64


class Deadlines:
    __slots__ = ("_at_us", "_count", "_heap", "_queued_us")

    def __init__(self) -> None:
        self._at_us: dict[Timer, int] = {}
        self._queued_us: dict[Timer, int] = {}  # Where in the heap the one entry is that counts.
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0  # Of two due at once, the one that was queued first comes first.

    def __len__(self) -> int:
        return len(self._at_us)

    def set(self, timer: Timer, at_us: int) -> None:
        self._at_us[timer] = at_us
        queued_us = self._queued_us.get(timer)
        if queued_us is None or at_us < queued_us:
            self._queue(timer, at_us)

    def cancel(self, timer: Timer) -> None:
        self._at_us.pop(timer, None)

    def next_us(self) -> int | None:
        """When the next one is due."""
        timer = self._first()
        return None if timer is None else self._at_us[timer]

    def due(self, now_us: int) -> Timer | None:
        """The first that is due. It stays so until it is cancelled or put off."""
        timer = self._first()
        return timer if timer is not None and self._at_us[timer] <= now_us else None

    def _first(self) -> Timer | None:
        while self._heap:
            queued_us, _, timer = self._heap[0]
            at_us = self._at_us.get(timer)
            if self._queued_us.get(timer) != queued_us:
                heappop(self._heap)  # Another entry counts by now, or none.
            elif at_us is None:
                heappop(self._heap)
                del self._queued_us[timer]
            elif at_us > queued_us:
                heappop(self._heap)
                self._queue(timer, at_us)
            else:
                return timer
        return None

    def _queue(self, timer: Timer, at_us: int) -> None:
        self._queued_us[timer] = at_us
        self._count += 1
        heappush(self._heap, (at_us, self._count, timer))
        if len(self._heap) > 2 * len(self._at_us) + _STALE_MIN:
            self._rebuild()

    def _rebuild(self) -> None:
        self._queued_us = dict(self._at_us)
        self._heap = [(at_us, count, timer) for count, (timer, at_us) in enumerate(self._at_us.items())]
        self._count = len(self._heap)
        heapify(self._heap)
