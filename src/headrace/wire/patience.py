"""How long to go on trying, and how long to wait in between.

Waits grow as Kafka's do: from `retry.backoff.ms` on, twice as long each time, up to `retry.backoff.max.ms`, give or
take a fifth so that many clients do not come back at once. Knows nothing of what is tried.
"""

import random
import threading
import time
from typing import Final

from headrace.wire.settings import ClientSettings

_JITTER: Final = 0.2


class Patience:
    def __init__(self, settings: ClientSettings, *, timeout_s: float | None, over: threading.Event) -> None:
        """`over` ends a wait early: whoever sets it has no use for what is waited for."""
        self.timeout_s = settings.api_timeout_s if timeout_s is None else timeout_s
        self.pauses = 0
        self._deadline_s = time.monotonic() + self.timeout_s
        self._settings = settings
        self._over = over

    @property
    def left_s(self) -> float:
        return max(0.0, self._deadline_s - time.monotonic())

    @property
    def spent_s(self) -> float:
        return self.timeout_s - self.left_s

    def answer_s(self) -> float:
        """How long to wait for one answer."""
        return min(self.left_s, self._settings.request_timeout_s)

    def next_wait_s(self) -> float:
        """How long to wait before the next try, for those who have something else to do meanwhile."""
        wait_s: float = min(self._settings.retry_backoff_s_max, self._settings.retry_backoff_s * 2**self.pauses)
        self.pauses = min(self.pauses + 1, 30)
        return wait_s * random.uniform(1 - _JITTER, 1 + _JITTER)

    def pause(self) -> bool:
        """Wait a little; false where there is no time left to try again."""
        wait_s = self.next_wait_s()
        if wait_s >= self.left_s:
            return False
        return not self._over.wait(wait_s)
