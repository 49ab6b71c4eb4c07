"""Rates out of counts per second: as Kafka reports them, as they are, and whether they hold.

Kafka's one-minute rate is an average weighted exponentially, moved every five seconds: a minute after a step it has
come 63% of the way, after three minutes 95%. It is what published figures show. Steadiness is judged on true rates
alone: the average is smooth whatever happens, and its climb after the start is not the system's. How fast they rise or
fall is known with an error, the larger the fewer the readings: where the limit lies within it, nothing is told.

Plain numbers in, plain numbers out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final

from headrace.lab.intervals import Interval, slope_interval

TICK_S: Final = 5
MINUTE_S: Final = 60
ALPHA: Final = 1 - math.exp(-TICK_S / MINUTE_S)

VARIATION_MAX: Final = 0.05
SLOPE_PER_MIN_MAX: Final = 0.01
# Of fewer readings neither number is worth a verdict, whatever they are.
_READINGS_MIN: Final = 10


class OneMinuteRate:
    """Kafka's. `initial_per_s` is what it showed before: 0 for a meter that has seen an idle broker, None for one that
    begins with the first count, which then takes the first tick as it is."""

    def __init__(self, initial_per_s: float | None = 0.0) -> None:
        self.per_s = initial_per_s
        self._second = 0
        self._uncounted = 0.0

    def add_second(self, count: float) -> float | None:
        """Count one more second; what it shows then, which is None before the first tick where nothing was before."""
        self._uncounted += count
        self._second += 1
        if self._second % TICK_S == 0:
            tick_per_s = self._uncounted / TICK_S
            self._uncounted = 0.0
            self.per_s = tick_per_s if self.per_s is None else self.per_s + ALPHA * (tick_per_s - self.per_s)
        return self.per_s


def one_minute_rates(counts: Sequence[float], *, initial_per_s: float | None = 0.0) -> list[float | None]:
    """What Kafka would show at the end of each second."""
    meter = OneMinuteRate(initial_per_s)
    return [meter.add_second(count) for count in counts]


def window_rates(counts: Sequence[float], *, window_s: int = MINUTE_S) -> Iterator[float | None]:
    """The true rate of the last `window_s` seconds at the end of each second; None before there are so many."""
    if window_s < 1:
        raise ValueError(f"{window_s=} is no window")
    total = 0.0
    for second, count in enumerate(counts):
        total += count
        if second >= window_s:
            total -= counts[second - window_s]
        yield total / window_s if second + 1 >= window_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """How rates behave over the last half of a run. Both numbers are shares of the mean."""

    variation: float  # The coefficient of variation.
    slope_per_min: Interval  # Of the nearest line.
    readings: int

    @property
    def is_steady(self) -> bool | None:
        """None where the run was too short to tell: as much as it varies, its slope may be within the limit or not."""
        slope = self.slope_per_min
        if self.readings < _READINGS_MIN:
            return None
        if self.variation > VARIATION_MAX or slope.low > SLOPE_PER_MIN_MAX or slope.high < -SLOPE_PER_MIN_MAX:
            return False
        return True if slope.low >= -SLOPE_PER_MIN_MAX and slope.high <= SLOPE_PER_MIN_MAX else None

    def __str__(self) -> str:
        return steadiness_text(
            self.is_steady,
            variation=self.variation,
            slope_per_min=self.slope_per_min.value,
            low=self.slope_per_min.low,
            high=self.slope_per_min.high,
        )


def steadiness_text(is_steady: bool | None, *, variation: float, slope_per_min: float, low: float, high: float) -> str:
    """A verdict with its evidence. The interval is left out where it is not known."""
    word = {True: "steady", False: "not steady", None: "too short to tell"}[is_steady]
    varies = f"by {variation:.1%}" if math.isfinite(variation) else "without bound"
    between = f" [{low:+.1%}, {high:+.1%}]" if math.isfinite(low) and math.isfinite(high) else ""
    return f"{word}: varies {varies}, slope {slope_per_min:+.1%}{between} a minute"


def steadiness(rates_per_s: Sequence[float], *, step_s: float = 1.0) -> Steadiness:
    """Of rates read every `step_s` seconds. Nothing at all is neither steady nor not: it varies without bound."""
    half = rates_per_s[len(rates_per_s) // 2 :]
    mean = fmean(half) if half else 0.0
    if mean == 0:
        none = Interval(value=0.0, low=0.0, high=0.0, count=len(half))
        return Steadiness(variation=math.inf, slope_per_min=none, readings=len(half))
    slope = slope_interval([rate * MINUTE_S / step_s / mean for rate in half])
    return Steadiness(variation=pstdev(half) / mean, slope_per_min=slope, readings=len(half))
