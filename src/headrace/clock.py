"""The real clocks. Logic is given one; it never reads time by itself."""

import time


class SystemClock:
    """Wall time for stamps and retention, monotonic time for everything that elapses."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def mono_us(self) -> int:
        return time.monotonic_ns() // 1_000
