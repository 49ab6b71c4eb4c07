"""Memory for requests and answers: one budget for all connections, claimed as bytes arrive.

A length field claims nothing. A frame too large for the shared scratch buffer is received into a mapping of its
announced size, of which the kernel backs only the pages that data has reached; the budget counts those. Who finds
the budget spent is put in a line, and goes on when somebody gives back.
"""

import mmap
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

_PAGE_BYTES: Final = mmap.PAGESIZE
# Buffers kept for the next frame of their size: mapped and faulted in already.
_KEPT_BYTES_MAX: Final = 16 << 20
_KEPT_BUFFER_BYTES_MAX: Final = 4 << 20


class BudgetStatistics(NamedTuple):
    used_bytes: int
    budget_bytes: int
    waiting: int
    peak_bytes: int


class MemoryBudget:
    __slots__ = ("_budget_bytes", "_peak_bytes", "_used_bytes", "_waiting")

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._used_bytes = 0
        self._peak_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_spent(self) -> bool:
        return self._used_bytes >= self._budget_bytes

    @property
    def left_bytes(self) -> int:
        return max(0, self._budget_bytes - self._used_bytes)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def claim(self, size: int) -> None:
        """Counted even beyond the budget: the bytes are there already. Whoever asks next has to wait."""
        self._used_bytes += size
        if self._used_bytes > self._peak_bytes:
            self._peak_bytes = self._used_bytes

    def give_back(self, size: int) -> None:
        self._used_bytes -= size
        assert self._used_bytes >= 0
        while self._waiting and not self.is_spent:
            self._waiting.popleft()()

    def wait(self, resume: Callable[[], None]) -> None:
        self._waiting.append(resume)

    def statistics(self) -> BudgetStatistics:
        return BudgetStatistics(self._used_bytes, self._budget_bytes, len(self._waiting), self._peak_bytes)


class FrameBuffers:
    """Mappings for frames, reused by size class."""

    __slots__ = ("_kept", "_kept_bytes")

    def __init__(self) -> None:
        self._kept: dict[int, list[mmap.mmap]] = {}
        self._kept_bytes = 0

    def take(self, size: int) -> mmap.mmap:
        size_class = max(_PAGE_BYTES, 1 << (size - 1).bit_length())
        kept = self._kept.get(size_class)
        if kept:
            self._kept_bytes -= size_class
            return kept.pop()
        return mmap.mmap(-1, size_class)

    def give_back(self, buffer: mmap.mmap) -> None:
        size = len(buffer)
        if size <= _KEPT_BUFFER_BYTES_MAX and self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept.setdefault(size, []).append(buffer)
            self._kept_bytes += size
        else:
            # Where a view of it still lives, the collector unmaps it with the view.
            with suppress(BufferError):
                buffer.close()
