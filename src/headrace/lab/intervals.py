"""How sure a number is, from the repeats that it was measured in.

Of a mean, Student's interval: repeats are few, and means of seconds are near enough to normal. Of a median, that of
order statistics, which assumes nothing about the distribution and says less: of fewer than six repeats, nothing with
95% confidence. Of a ratio of two means, Welch's interval of the logarithms' difference, so that A over B and B over A
say the same. Of a slope, Student's about the nearest line, which takes what is left of each value for chance.

Of ratios that were measured in pairs, that of Wilcoxon's signed ranks, which asks for symmetry alone.

Plain numbers in, plain numbers out. An interval that cannot be told is infinite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations_with_replacement, takewhile, zip_longest
from statistics import fmean, median, variance
from typing import Any, Final

# Of scipy's special functions, not of its stats, which takes a second to import.
from scipy.special import bdtr, stdtrit

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Of few repeats, of which an interval says little: a median never stands without the least and the greatest."""

    median: float
    least: float
    greatest: float
    count: int


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    value: float
    low: float
    high: float
    count: int  # Of repeats: for a ratio, the fewer of the two.

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def share(self) -> float:
        """Half its width as a share of the value: the 5% in 'to 5%'."""
        if not self.is_known:
            return math.inf
        half = (self.high - self.low) / 2
        return half / abs(self.value) if self.value else (0.0 if half == 0 else math.inf)

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "low": self.low if math.isfinite(self.low) else None,
            "high": self.high if math.isfinite(self.high) else None,
            "count": self.count,
        }


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Of one value there is a mean and no telling how sure it is."""
    _check(values, confidence)
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(value=mean, low=-math.inf, high=math.inf, count=1)
    half = _student(confidence, count - 1) * math.sqrt(variance(values) / count)
    return Interval(value=mean, low=mean - half, high=mean + half, count=count)


def slope_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Of the line that is nearest to values one step apart: by how much it rises with each. Through two values there is
    a line, and no telling how sure it is; through one there are all."""
    _check(values, confidence)
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(value=0.0, low=-math.inf, high=math.inf, count=1)
    places = [number - (count - 1) / 2 for number in range(count)]
    reach = math.fsum(place**2 for place in places)
    slope = math.fsum(place * (value - mean) for place, value in zip(places, values, strict=True)) / reach
    if count == 2:
        return Interval(value=slope, low=-math.inf, high=math.inf, count=2)
    left = math.fsum((value - mean - slope * place) ** 2 for place, value in zip(places, values, strict=True))
    half = _student(confidence, count - 2) * math.sqrt(left / (count - 2) / reach)
    return Interval(value=slope, low=slope - half, high=slope + half, count=count)


def median_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """From the innermost pair of values that has the median between them with that confidence."""
    _check(values, confidence)
    ordered, count = sorted(values), len(values)
    outside = -1  # So many values may be left out at each end.
    while 2 * bdtr(outside + 1, count, 0.5) <= 1 - confidence:
        outside += 1
    if outside < 0:
        return Interval(value=median(values), low=-math.inf, high=math.inf, count=count)
    return Interval(value=median(values), low=ordered[outside], high=ordered[count - 1 - outside], count=count)


def ratio_interval(values: Sequence[float], base: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Of the mean of some values to that of others, all of them above zero."""
    _check(values, confidence)
    _check(base, confidence)
    if min(*values, *base) <= 0:
        raise ValueError("a ratio is of values above zero")
    upper, lower = fmean(values), fmean(base)
    ratio, count = upper / lower, min(len(values), len(base))
    if count == 1:
        return Interval(value=ratio, low=0.0, high=math.inf, count=1)
    # Of a mean's logarithm, by the delta method.
    parts = [(variance(some) / len(some) / mean**2, len(some)) for some, mean in ((values, upper), (base, lower))]
    total = sum(part for part, _ in parts)
    if total == 0:
        return Interval(value=ratio, low=ratio, high=ratio, count=count)
    freedom = total**2 / sum(part**2 / (size - 1) for part, size in parts)
    factor = math.exp(_student(confidence, freedom) * math.sqrt(total))
    return Interval(value=ratio, low=ratio / factor, high=ratio * factor, count=count)


def paired_interval(ratios: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """The middle of ratios of which each is of a pair measured together, and either first as often: by Wilcoxon's
    signed ranks, after Hodges and Lehmann.

    Their logarithms then lie symmetrically about the true one, whatever their distribution. So do the means of any two
    of them, and how many of those lie below it is a matter of tossing a coin for each rank.
    """
    _check(ratios, confidence)
    if min(ratios) <= 0:
        raise ValueError("a ratio is of values above zero")
    logarithms = [math.log(ratio) for ratio in ratios]
    means = sorted((one + other) / 2 for one, other in combinations_with_replacement(logarithms, 2))
    middle, count = math.exp(median(means)), len(ratios)
    beyond = means_beyond(count, confidence=confidence)
    if beyond is None:
        return Interval(value=middle, low=0.0, high=math.inf, count=count)
    return Interval(value=middle, low=math.exp(means[beyond]), high=math.exp(means[-1 - beyond]), count=count)


def means_beyond(count: int, *, confidence: float = CONFIDENCE) -> int | None:
    """How many of the means of so many values lie beyond either bound: sums of ranks so low are tossed seldom enough.

    None where even the outermost means are no bounds.
    """
    ways = [1]  # Of tossing each sum, by the sum.
    for rank in range(1, count + 1):
        shifted = [0] * rank + ways
        ways = [one + other for one, other in zip_longest(ways, shifted, fillvalue=0)]
    seldom = takewhile(lambda tossed: tossed <= (1 - confidence) / 2 * 2**count, accumulate(ways))
    found = sum(1 for _ in seldom)
    return found - 1 if found else None


def _student(confidence: float, freedom: float) -> float:
    return float(stdtrit(freedom, (1 + confidence) / 2))


def _check(values: Sequence[float], confidence: float) -> None:
    if not values:
        raise ValueError("of nothing there is no interval")
    if not all(map(math.isfinite, values)):
        raise ValueError("an interval is of finite values")
    if not 0 < confidence < 1:
        raise ValueError(f"{confidence=} is not between 0 and 1")
