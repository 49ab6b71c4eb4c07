"""The time of a run: nanoseconds since its start, which is one moment for all its senders.

On one host the monotonic clock is one clock for all processes. The start is told in UTC, so that senders of several
hosts can share it as well as their wall clocks agree, and each fixes it once on its own monotonic clock: a wall clock
that is put right in the middle of a run must not make a message early or late.
"""

import time

import numpy as np
import numpy.typing as npt

_MILLISECOND_NS = 1_000_000


class SenderClock:
    def __init__(self) -> None:
        self.start_at(time.time_ns())

    def start_at(self, start_utc_ns: int) -> None:
        self.start_utc_ns = start_utc_ns
        self.start_ns = time.monotonic_ns() + (start_utc_ns - time.time_ns())

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.start_ns

    def utc_ms(self, moments: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Moments since the start as Kafka's timestamps."""
        return (moments + self.start_utc_ns) // _MILLISECOND_NS

    def wait_start(self) -> None:
        while (early_ns := -self.now_ns()) > 0:
            time.sleep(early_ns / 1e9)
