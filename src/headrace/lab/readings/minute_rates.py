"""One-minute rates of many counters at once: as Kafka shows them, and true ones beside them."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from headrace.lab.rates import MINUTE_S, OneMinuteRate


class _Counter:
    def __init__(self) -> None:
        self._ewma = OneMinuteRate(initial_per_s=None)
        self._window: deque[float] = deque(maxlen=MINUTE_S)

    def pass_second(self, count: float) -> None:
        self._ewma.add_second(count)
        self._window.append(count)

    def to_json(self, per_s: float) -> dict[str, Any]:
        is_full = len(self._window) == MINUTE_S
        return {
            "per_s": round(per_s, 3),
            "per_s_one_minute_ewma": None if self._ewma.per_s is None else round(self._ewma.per_s, 3),
            "per_s_60s_window": round(sum(self._window) / MINUTE_S, 3) if is_full else None,
        }


class MinuteRates:
    def __init__(self) -> None:
        self._counters: dict[str, _Counter] = {}

    def add(self, counts: Mapping[str, float], *, seconds: float) -> dict[str, dict[str, Any]]:
        """So much was counted in so much time; what the rates are then. A look that came late stands for the seconds
        that it has missed, each with its part."""
        told = {}
        for name, count in counts.items():
            counter = self._counters.setdefault(name, _Counter())
            per_s = count / seconds
            for _ in range(max(1, round(seconds))):
                counter.pass_second(per_s)
            told[name] = counter.to_json(per_s)
        return told
