"""Kafka's throttle: how long to pause after a record so that a rate is not exceeded. Sleeps nowhere itself.

Kafka's looks at a clock of milliseconds. A sender that begins at once would send many records within the first, which
are never made up for; so this one looks at nanoseconds.
"""

from typing import Final

# A pause shorter than this is not worth it; it is owed until it is this long.
_PAUSE_NS_MIN: Final = 2_000_000


class Throttle:
    def __init__(self, rate_per_s: float, *, start_ns: int) -> None:
        assert rate_per_s > 0
        self._rate_per_s = rate_per_s
        self._start_ns = start_ns
        self._step_ns = int(1e9 / rate_per_s)
        self._owed_ns = 0

    def pause_s(self, sent: int, *, now_ns: int) -> float:
        """After `sent` records, the last of them at `now_ns`: nothing while behind, else by and by a record's time."""
        elapsed_s = (now_ns - self._start_ns) / 1e9
        if elapsed_s <= 0 or sent / elapsed_s <= self._rate_per_s:
            return 0.0
        self._owed_ns += self._step_ns
        if self._owed_ns < _PAUSE_NS_MIN:
            return 0.0
        pause_ns, self._owed_ns = self._owed_ns, 0
        return pause_ns / 1e9
