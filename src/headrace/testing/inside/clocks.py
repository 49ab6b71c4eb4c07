"""Clocks that run as the real ones do, as far ahead of them as they were moved."""

from headrace.clock import SystemClock


class MovableClock(SystemClock):
    __slots__ = ("mono_ahead_us", "wall_ahead_ms")

    def __init__(self) -> None:
        self.wall_ahead_ms = 0
        self.mono_ahead_us = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_ahead_ms

    def mono_us(self) -> int:
        return super().mono_us() + self.mono_ahead_us
