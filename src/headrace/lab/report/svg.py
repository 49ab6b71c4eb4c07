"""Charts as inline SVG that fits whatever width it is given, with text that keeps its size.

Nothing is scaled as a picture. The plot is as wide as the page leaves it, with axes in its margins; along its width
everything is placed in per cent, and only the lines lie in a stretched box, with strokes that do not stretch. So one
drawing serves a phone and a wide screen. Colours are the page's variables; beside its colour each series has a dash of
its own, for eyes and printers that do not tell colours apart.

Every value that is drawn is also in a data attribute, exactly.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from headrace.lab.report.charts import Bar, BarChart, Chart, Level, LineChart, Series
from headrace.lab.report.scales import Scale, Tick, figures, margin_text

COLOURS: Final = 7  # Of the page's variables --series-0 and so on.
_DASHES: Final = ("", "9 3", "2 3", "9 3 2 3", "14 4", "5 5", "1 4")
_REFERENCE_DASH: Final = "4 4"

_PLOT_HEIGHT_PX: Final = 190
_LEFT_PX: Final = 54
_RIGHT_PX: Final = 16
_TOP_PX: Final = 12
_BOTTOM_PX: Final = 40
_BOX: Final = 1000  # Of the stretched box, each way.

_MIDDLE_CHARACTERS_MAX: Final = 5
_PHONE_PLOT_PX: Final = 270
_CHARACTER_PX: Final = 6.8
_PHONE_BARS_PX: Final = 300
_BOLD_CHARACTER_PX: Final = 7.2

_ROW_PX: Final = 40
_BAR_PX: Final = 11
_LEVEL_PX: Final = 17


def figure(chart: Chart) -> str:
    match chart:
        case LineChart():
            legend = _legend(chart.series) if len(chart.series) > 1 or chart.series[0].is_reference else ""
            drawn = _line_svg(chart)
        case BarChart():
            legend, drawn = "", _bar_svg(chart) + _notes(chart)
    title = f'<figcaption><b>{escape(chart.title)}</b><span class="unit">{escape(chart.unit)}</span></figcaption>'
    return f'<figure class="chart" data-chart="{escape(chart.key)}">{title}{legend}{drawn}</figure>'


def numbers_text(values: Sequence[float]) -> str:
    """Exactly, for a data attribute."""
    return " ".join(map(repr, values))


# --- Lines -----------------------------------------------------------------------------------------------------------


def _line_svg(chart: LineChart) -> str:
    x_scale, y_scale = chart.x_scale(), chart.y_scale()
    return _plot(
        chart,
        _PLOT_HEIGHT_PX,
        (_TOP_PX, _RIGHT_PX, _BOTTOM_PX, _LEFT_PX),
        *_y_axis(y_scale),
        *_x_axis(x_scale, _PLOT_HEIGHT_PX),
        f'<text class="axis" x="50%" y="{_PLOT_HEIGHT_PX + 34}" text-anchor="middle">{escape(chart.x_text)}</text>',
        f'<svg viewBox="0 0 {_BOX} {_BOX}" preserveAspectRatio="none" width="100%" height="100%" overflow="visible">',
        *(_band(series, x_scale, y_scale, colour) for series, colour in _coloured(chart.series) if series.lows),
        *(_line(series, x_scale, y_scale, colour) for series, colour in _coloured(chart.series)),
        "</svg>",
        *_levels_across(chart.levels, y_scale),
    )


def _plot(chart: Chart, height_px: int, margins_px: tuple[int, int, int, int], *parts: str) -> str:
    """Axes and labels hang over into the margins: above, right, below, left."""
    margins = " ".join(f"{side}px" for side in margins_px)
    return (
        f'<div class="canvas {"bars" if isinstance(chart, BarChart) else "lines"}" style="padding:{margins}">'
        f'<svg class="plot" role="img" aria-label="{escape(_described(chart))}" '
        f'width="100%" height="{height_px}">{"".join(parts)}</svg></div>'
    )


def _described(chart: Chart) -> str:
    match chart:
        case LineChart():
            names = ", ".join(series.name for series in chart.series)
            return f"{chart.title}, {chart.unit}, by {chart.x_text}: {names}"
        case BarChart():
            bars = "; ".join(f"{bar.name} {figures(bar.value)}" for bar in chart.bars)
            return f"{chart.title}, {chart.unit}: {bars}"


def _coloured(series: Sequence[Series]) -> Iterator[tuple[Series, int]]:
    """References have no colour of their own, and take none from the others."""
    colour = 0
    for one in series:
        yield one, colour
        colour += not one.is_reference


def _y_axis(scale: Scale) -> Iterator[str]:
    for tick in scale.ticks:
        y = _percent(1 - tick.share)
        yield f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="-8" y="{y}" dy="0.32em" text-anchor="end">{escape(tick.text)}</text>'


def _x_axis(scale: Scale, height_px: int) -> Iterator[str]:
    fitting = fitting_ticks(scale.ticks, _PHONE_PLOT_PX)
    for tick in scale.ticks:
        x = _percent(tick.share)
        kind = "tick" if tick in fitting else "tick wide"
        yield f'<line class="mark" x1="{x}" x2="{x}" y1="{height_px}" y2="{height_px + 4}"/>'
        place = f'x="{x}" y="{height_px + 17}" text-anchor="{_anchor(tick)}"'
        yield f'<text class="{kind}" {place}>{escape(tick.text)}</text>'


def fitting_ticks(ticks: Sequence[Tick], width_px: float) -> list[Tick]:
    """Those whose labels do not touch in so narrow a plot, the last of them first: ends are what one looks for."""
    found: list[Tick] = []
    free_px = float("inf")
    for tick in reversed(ticks):
        text_px = len(tick.text) * _CHARACTER_PX
        right_px = tick.share * width_px + (0 if _anchor(tick) == "end" else text_px / 2)
        if right_px + _CHARACTER_PX <= free_px:
            found.append(tick)
            free_px = right_px - text_px
    return found


def _anchor(tick: Tick) -> str:
    """A long label at the end of the axis ends where the axis does."""
    return "end" if tick.share > 0.97 and len(tick.text) > _MIDDLE_CHARACTERS_MAX else "middle"


def _line(series: Series, x_scale: Scale, y_scale: Scale, colour: int) -> str:
    places = [_place(x, y, x_scale, y_scale) for x, y in zip(series.xs, series.ys, strict=True)]
    values = (
        f'data-series="{escape(series.name)}" data-x="{numbers_text(series.xs)}" data-y="{numbers_text(series.ys)}"'
    )
    path = "M" + "L".join(places) if places else ""
    line = (
        f'<path class="line" {_stroke(series, colour)} {values} d="{path}"><title>{escape(series.name)}</title></path>'
    )
    if not (series.has_points or series.is_dots) and len(places) > 1:
        return line
    # A line of no length is a dot that the box does not stretch: round, or square for every other series.
    dots = "".join(f"M{place}h0" for place in places)
    drawn = f'class="dots" style="stroke:var(--series-{colour % COLOURS})" stroke-linecap="{_cap(colour)}"'
    if series.is_dots:
        return f'<path {drawn} {values} d="{dots}"><title>{escape(series.name)}</title></path>'
    return line + f'<path {drawn} d="{dots}"/>'


def _cap(colour: int) -> str:
    return "square" if colour % 2 else "round"


def _band(series: Series, x_scale: Scale, y_scale: Scale, colour: int) -> str:
    above = [_place(x, y, x_scale, y_scale) for x, y in zip(series.xs, series.highs, strict=True)]
    below = [_place(x, y, x_scale, y_scale) for x, y in zip(series.xs, series.lows, strict=True)]
    path = "M" + "L".join([*above, *reversed(below)]) + "Z"
    return f'<path class="band" style="fill:var(--series-{colour % COLOURS})" d="{path}"/>'


def _place(x: float, y: float, x_scale: Scale, y_scale: Scale) -> str:
    return f"{x_scale.share_of(x) * _BOX:.1f} {(1 - y_scale.share_of(y)) * _BOX:.1f}"


def _stroke(series: Series, colour: int) -> str:
    if series.is_reference:
        return f'style="stroke:var(--muted)" stroke-dasharray="{_REFERENCE_DASH}"'
    dash = _DASHES[colour % len(_DASHES)]
    return f'style="stroke:var(--series-{colour % COLOURS})"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _levels_across(levels: Sequence[Level], scale: Scale) -> Iterator[str]:
    for level in levels:
        y = _percent(1 - scale.share_of(level.value))
        yield (
            f'<line class="level" x1="0" x2="100%" y1="{y}" y2="{y}" data-level="{level.value!r}"/>'
            f'<text class="level-text" x="100%" y="{y}" dy="-5" text-anchor="end">{escape(level.text)}</text>'
        )


def _legend(series: Sequence[Series]) -> str:
    items = "".join(
        f'<li><svg width="26" height="10" aria-hidden="true">{_sample(one, colour)}</svg>{escape(one.name)}</li>'
        for one, colour in _coloured(series)
    )
    return f'<ul class="legend">{items}</ul>'


def _sample(series: Series, colour: int) -> str:
    if series.is_dots:
        shade = f'style="stroke:var(--series-{colour % COLOURS})"'
        return f'<path class="dots" {shade} stroke-linecap="{_cap(colour)}" d="M13 5h0"/>'
    return f'<line class="line" {_stroke(series, colour)} x1="1" x2="25" y1="5" y2="5"/>'


# --- Bars ------------------------------------------------------------------------------------------------------------


def _bar_svg(chart: BarChart) -> str:
    """Names above their bars: there is room for them on a phone, too."""
    scale = chart.scale()
    levels_px, rows_px = _LEVEL_PX * len(chart.levels), _ROW_PX * len(chart.bars)
    return _plot(
        chart,
        rows_px,
        (levels_px, 24, 26, 2),
        *(
            f'<line class="grid" x1="{_percent(tick.share)}" x2="{_percent(tick.share)}" y1="0" y2="100%"/>'
            for tick in scale.ticks
        ),
        *_x_axis(scale, rows_px),
        *(part for number, bar in enumerate(chart.bars) for part in _bar(bar, scale, number * _ROW_PX)),
        *(part for row, level in enumerate(chart.levels) for part in _level_down(level, scale, row, levels_px)),
    )


def _bar(bar: Bar, scale: Scale, top_px: int) -> Iterator[str]:
    y = top_px + 22
    ends = "" if bar.low is None or bar.high is None else f' data-low="{bar.low!r}" data-high="{bar.high!r}"'
    yield (
        f'<text class="bar-name" x="0" y="{top_px + 15}">{escape(bar.name)}'
        f'<tspan class="bar-value" dx="8">{escape(_bar_text(bar))}</tspan></text>'
    )
    yield (
        f'<rect class="bar{" doubtful" if bar.note else ""}" style="fill:var(--series-{bar.group % COLOURS})" '
        f'x="0" y="{y}" rx="2" width="{_percent(max(0.0, scale.share_of(bar.value)))}" height="{_BAR_PX}" '
        f'data-bar="{escape(bar.name)}" data-value="{bar.value!r}"{ends}><title>{escape(_bar_text(bar))}</title></rect>'
    )
    if bar.low is not None and bar.high is not None and bar.high > bar.low:
        low, high = (_percent(max(0.0, scale.share_of(end))) for end in (bar.low, bar.high))
        middle = y + _BAR_PX / 2
        yield f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
        for end in (low, high):
            yield f'<line class="whisker" x1="{end}" x2="{end}" y1="{y + 2}" y2="{y + _BAR_PX - 2}"/>'


def _bar_text(bar: Bar) -> str:
    sure = "" if bar.low is None or bar.high is None else f" {margin_text(bar.low, bar.high)}"
    return f"{figures(bar.value)}{sure}" + (" †" if bar.note else "")


def _notes(chart: BarChart) -> str:
    notes = dict.fromkeys(bar.note for bar in chart.bars if bar.note)
    return "".join(
        (
            *(f'<p class="note">† {escape(note)}</p>' for note in notes),
            *(f'<p class="remark">{escape(remark)}</p>' for remark in chart.remarks),
        )
    )


def _level_down(level: Level, scale: Scale, row: int, levels_px: int) -> Iterator[str]:
    """Texts on rows of their own, beside their lines where a phone has room for that."""
    share = scale.share_of(level.value)
    line_x, text_y = _percent(share), row * _LEVEL_PX - levels_px + 12
    text_px = len(level.text) * _BOLD_CHARACTER_PX
    if text_px <= (1 - share) * _PHONE_BARS_PX:
        x, anchor, dx = line_x, "start", 5
    elif text_px <= share * _PHONE_BARS_PX:
        x, anchor, dx = line_x, "end", -5
    else:
        x, anchor, dx = "0", "start", 0
    yield f'<line class="level" x1="{line_x}" x2="{line_x}" y1="{text_y - 10}" y2="100%" data-level="{level.value!r}"/>'
    yield f'<text class="level-text" x="{x}" y="{text_y}" dx="{dx}" text-anchor="{anchor}">{escape(level.text)}</text>'


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"
