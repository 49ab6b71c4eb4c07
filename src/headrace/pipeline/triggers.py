"""How much of what is waiting a trigger of a streaming query takes.

At most so many offsets (`maxOffsetsPerTrigger`). And nothing while fewer than so many wait (`minOffsetsPerTrigger`),
but not for longer than a delay after the last trigger that took something (`maxTriggerDelay`); the first takes what
there is. Told the time; knows nothing of Spark.
"""

from collections.abc import Sequence
from math import inf

from headrace.pipeline.splitting import OffsetRange, limit


class Triggers:
    def __init__(self, *, least: int | None, most: int | None, delay_ms: int) -> None:
        self._least = least
        self._most = most
        self._delay_ms = delay_ms
        self._taken_ms = -inf  # When the last one took something.

    def take(self, ranges: Sequence[OffsetRange], *, now_ms: float, waits: bool = True) -> list[OffsetRange] | None:
        """What this trigger reads of `ranges`; None where it waits for more, which it never does without `waits`."""
        waiting = sum(each.size for each in ranges)
        if waits and self._is_early(waiting, now_ms):
            return None
        if waiting:
            self._taken_ms = now_ms
        return limit(ranges, self._most)

    def _is_early(self, waiting: int, now_ms: float) -> bool:
        return self._least is not None and waiting < self._least and now_ms - self._taken_ms < self._delay_ms
