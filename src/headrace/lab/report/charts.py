"""What a chart says, without how it is drawn: the page and the figures in files are drawn from the same values."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from headrace.lab.report.scales import Scale, extent_scale, linear_scale, log_scale, percentile_scale

T = TypeVar("T")

TOGETHER_MAX: Final = 6  # Series that can be told apart.
# Values that are more than this many times each other want a logarithmic axis.
_WIDE: Final = 20


class Axis(StrEnum):
    LINEAR = "linear"  # From zero.
    TIME = "time"  # Ends where its values end.
    LOG = "log"
    PERCENTILE = "percentile"

    def scale(self, values: list[float]) -> Scale:
        match self:
            case Axis.LINEAR:
                return linear_scale(values)
            case Axis.TIME:
                return extent_scale(values)
            case Axis.LOG:
                return log_scale(values)
            case Axis.PERCENTILE:
                return percentile_scale(max(values, default=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A labelled line across the chart: a published value, a limit."""

    value: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    # From where to where repeats of it reach, if there were any.
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    is_reference: bool = False  # What the others are held against: drawn in the colour of text, dashed.
    has_points: bool = False  # Few values, each of which was measured.
    is_dots: bool = False  # Values without a course from one to the next.

    def __post_init__(self) -> None:
        assert len(self.xs) == len(self.ys)
        assert len(self.lows) == len(self.highs)
        assert len(self.lows) in (0, len(self.xs))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    key: str
    title: str
    unit: str
    x_text: str
    series: tuple[Series, ...]
    x_axis: Axis = Axis.TIME
    y_axis: Axis = Axis.LINEAR
    levels: tuple[Level, ...] = ()
    # Of the chart beside it, to be compared with: not drawn here, but both have axes on which both have room.
    beside: tuple[Series, ...] = ()

    def x_scale(self) -> Scale:
        return self.x_axis.scale([x for series in (*self.series, *self.beside) for x in series.xs])

    def y_scale(self) -> Scale:
        return self.y_axis.scale([*self._ys()])

    def _ys(self) -> Iterator[float]:
        for series in (*self.series, *self.beside):
            yield from series.ys
            yield from series.lows
            yield from series.highs
        yield from (level.value for level in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    name: str
    value: float
    low: float | None = None  # Of the confidence interval.
    high: float | None = None
    group: int = 0  # Bars of one group have one colour.
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    key: str
    title: str
    unit: str
    bars: tuple[Bar, ...]
    levels: tuple[Level, ...] = ()
    remarks: tuple[str, ...] = ()  # Sentences below it.

    def scale(self) -> Scale:
        ends = [end for bar in self.bars for end in (bar.value, bar.high) if end is not None]
        return Axis.LINEAR.scale([*ends, *(level.value for level in self.levels)])


Chart = LineChart | BarChart


def chunks(values: Sequence[T], size_max: int) -> Iterator[Sequence[T]]:
    """As few as fit, all of nearly one size: what is left over is in no chart of its own, where nobody named it."""
    count = -(-len(values) // size_max)
    for number in range(count):
        yield values[len(values) * number // count : len(values) * (number + 1) // count]


def axis_for(values: Sequence[float], *, otherwise: Axis = Axis.LINEAR, wide: float = _WIDE) -> Axis:
    positive = [value for value in values if value > 0]
    is_wide = len(positive) == len(values) and len(positive) > 1 and max(positive) > wide * min(positive)
    return Axis.LOG if is_wide and math.isfinite(max(positive)) else otherwise
