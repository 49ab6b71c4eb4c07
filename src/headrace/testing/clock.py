"""The broker's two clocks, moved by hand.

`advance_wall` is about what records and files are stamped with: retention, tombstones, offsets of groups that nobody
uses. `advance_mono` is about what elapses: sessions of group members, rebalances, waits of fetches, delays. Moving one
does not move the other; `advance` moves both, as time itself does. Whatever has become due is done before the call
returns.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.broker import Broker


class BrokerClock:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def wall_ms(self) -> int:
        """What the broker takes the time to be, in milliseconds since the epoch."""
        wall_ms: int = self._broker.command("clock")[0]
        return wall_ms

    def mono_us(self) -> int:
        """The clock that only rises, in microseconds since no particular moment."""
        mono_us: int = self._broker.command("clock")[1]
        return mono_us

    def advance_wall(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Set the wall clock forward, or back where the sum is negative; then look for what has expired."""
        moved = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        self._broker.command("advance", wall_us=moved // _US, mono_us=0)

    def advance_mono(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Let time elapse: every timer that has become due fires."""
        moved = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        if moved < timedelta():
            raise ValueError("a monotonic clock does not go back")
        self._broker.command("advance", wall_us=0, mono_us=moved // _US)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Both."""
        moved = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        if moved < timedelta():
            raise ValueError("a monotonic clock does not go back")
        self._broker.command("advance", wall_us=moved // _US, mono_us=moved // _US)


_US = timedelta(microseconds=1)
