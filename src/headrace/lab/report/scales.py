"""Where a value lies along an axis, which values deserve a tick, and how a number is written short.

Plain numbers in, plain numbers and text out. A share is a place along the axis: 0 at its beginning, 1 at its end.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LARGE: Final = ((1e9, "G"), (1e6, "M"), (1e3, "K"))
# A logarithmic axis of fewer decades than this has ticks at 2 and 5, too.
_SPARSE_DECADES: Final = 2.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    share: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    ticks: tuple[Tick, ...]
    share_of: Callable[[float], float]


def linear_scale(values: Iterable[float], *, ticks_about: int = 6, from_zero: bool = True) -> Scale:
    """Ends on round numbers. `from_zero` for whatever is compared by length."""
    found = [value for value in values if math.isfinite(value)]
    low = min(found, default=0.0)
    high = max(found, default=1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        high = low + (abs(low) or 1.0)
    step = _step((high - low) / max(1, ticks_about - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    begin, span = first * step, (last - first) * step
    return Scale(
        ticks=tuple(
            Tick(share=(number - first) / (last - first), text=short_number(number * step))
            for number in range(first, last + 1)
        ),
        share_of=lambda value: (value - begin) / span,
    )


def extent_scale(values: Iterable[float], *, ticks_about: int = 5) -> Scale:
    """Ends where the values end, as time does: ticks are round, the ends need not be."""
    found = [*values] or [0.0]
    low, high = min(found), max(found)
    if high == low:
        high = low + 1.0
    step = _step((high - low) / max(1, ticks_about - 1))
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return Scale(
        ticks=tuple(
            Tick(share=(number * step - low) / (high - low), text=short_number(number * step)) for number in numbers
        ),
        share_of=lambda value: (value - low) / (high - low),
    )


def log_scale(values: Iterable[float]) -> Scale:
    """For what differs by factors. Nothing at or below zero has a place: it is put at the beginning."""
    found = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = _round_down(min(found)), _round_up(max(found))
    if high <= low:
        high = low * 10
    begin, span = math.log10(low), math.log10(high / low)
    return Scale(
        ticks=tuple(
            Tick(share=math.log10(value / low) / span, text=short_number(value)) for value in _decades(low, high)
        ),
        share_of=lambda value: (math.log10(value) - begin) / span if value > 0 else 0.0,
    )


def percentile_scale(share_max: float) -> Scale:
    """Shares of messages, with each further nine as wide as the last: the tail is what is looked at."""
    nines = min(6, max(2, math.ceil(-math.log10(1 - min(share_max, 1 - 1e-7)) - 1e-9)))
    marks = [0.0, 0.5, 0.9, *(1 - 10.0**-nine for nine in range(2, nines + 1))]

    def share_of(value: float) -> float:
        return min(1.0, -math.log10(max(1 - value, 1e-9)) / nines)

    ticks = (Tick(share=share_of(mark), text=f"{mark * 100:.6g}%") for mark in marks)
    return Scale(ticks=tuple(ticks), share_of=share_of)


def short_number(value: float) -> str:
    """Four figures at most, and a letter for thousands: 420 K, 1.25 M, 0.4."""
    for size, letter in _LARGE:
        if abs(value) >= size * 0.99995:
            return f"{value / size:.4g} {letter}"
    return f"{value:.4g}"


def figures(value: float) -> str:
    """For tables: whole where it is large, three figures and more where it is small."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.2f}"


def margin_text(low: float, high: float) -> str:
    """How sure a value is: two figures are enough for that."""
    half = (high - low) / 2
    return f"± {half:,.0f}" if half >= 100 else f"± {half:.2g}"


def _step(least: float) -> float:
    """The next round number."""
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(step * magnitude for step in _STEPS if step * magnitude >= least * (1 - 1e-9))


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    between = (1, 2, 5) if math.log10(high / low) < _SPARSE_DECADES else (1,)
    found = [10.0**power * digit for power in range(first, last + 1) for digit in between]
    return [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def _round_down(value: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return max((digit for digit in (1, 2, 5) if digit * magnitude <= value * (1 + 1e-9)), default=1) * magnitude


def _round_up(value: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return min(digit for digit in (1, 2, 5, 10) if digit * magnitude >= value * (1 - 1e-9)) * magnitude
