"""What a sender holds for a set of messages until all of them are acknowledged, or given up."""

import asyncio
import itertools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Final

from headrace.client.errors import DeliveryFailed
from headrace.client.message import Written


class Receipt(Future[tuple[Written, ...]]):
    """A future, for threads as for `await`: where each message of the set is, or DeliveryFailed.

    It cannot be cancelled, because what was sent cannot be taken back.
    """

    def __init__(self, topic: str, count: int) -> None:
        super().__init__()
        self.topic: Final = topic
        self.is_looked_at = False
        self._written: list[Written | None] = [None] * count
        self._failures: dict[int, str] = {}
        self._numbers = itertools.count(1)  # Counts in one step, because answers come in whichever thread polls.
        self._last = count
        self.set_running_or_notify_cancel()
        if count == 0:
            self.set_result(())

    def note_written(self, number: int, written: Written) -> None:
        self._written[number] = written
        self._count()

    def note_failure(self, number: int, why: str) -> None:
        self._failures[number] = why
        self._count()

    def _count(self) -> None:
        if next(self._numbers) < self._last:
            return
        if self._failures:
            self.set_exception(DeliveryFailed(self.topic, self._written, self._failures))
        else:
            self.set_result(tuple(one for one in self._written if one is not None))

    def result(self, timeout: float | None = None) -> tuple[Written, ...]:
        self.is_looked_at = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.is_looked_at = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[tuple[Written, ...]]], Any]) -> None:
        self.is_looked_at = True
        super().add_done_callback(fn)

    def __await__(self) -> Generator[Any, None, tuple[Written, ...]]:
        return asyncio.wrap_future(self).__await__()
