"""The page's charts as figures in files, drawn by matplotlib from the same values."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from headrace.lab.report.charts import Axis, BarChart, Chart, LineChart, Series
from headrace.lab.report.scales import Scale, figures, margin_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The page's, on white.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#b85c93", "#b58900", "#3f9fd6", "#444b53")
_DASHES: Final[tuple[Any, ...]] = (
    "-", (0, (6, 2)), (0, (1.5, 2)), (0, (6, 2, 1.5, 2)), (0, (9, 3)), (0, (3, 3)), (0, (1, 3))
)  # fmt: skip
_MUTED: Final = "#5b6570"
_LEVEL: Final = "#7a4b00"
_DPI: Final = 144
_REMARK_CHARACTERS: Final = 110  # A line of them is as wide as the figure.


def write_png(chart: Chart, path: Path) -> None:
    rows = len(chart.bars) if isinstance(chart, BarChart) else 0
    figure = Figure(figsize=(7.2, max(3.4, 1.4 + 0.42 * rows)), dpi=_DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # No window, whatever the machine has.
    axes = figure.add_subplot()
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
    axes.set_title(chart.unit, loc="right", fontsize=9, color=_MUTED)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(colors=_MUTED, labelsize=8.5, length=0)
    match chart:
        case LineChart():
            _draw_lines(axes, chart)
        case BarChart():
            _draw_bars(axes, chart)
    figure.savefig(path)


def _draw_lines(axes: "Axes", chart: LineChart) -> None:
    """In shares of the axes, as on the page, so that both have the same ticks."""
    x_scale, y_scale = chart.x_scale(), chart.y_scale()
    colour = 0
    for series in chart.series:
        _draw_series(axes, series, x_scale, y_scale, colour)
        colour += not series.is_reference
    for level in chart.levels:
        y = y_scale.share_of(level.value)
        axes.axhline(y, color=_LEVEL, linewidth=1.1, linestyle=(0, (4, 2)))
        axes.text(1, y + 0.012, level.text, color=_LEVEL, fontsize=8, ha="right", transform=axes.transAxes)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks([tick.share for tick in x_scale.ticks], [tick.text for tick in x_scale.ticks])
    axes.set_yticks([tick.share for tick in y_scale.ticks], [tick.text for tick in y_scale.ticks])
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(chart.x_text, fontsize=9, color=_MUTED)
    if len(chart.series) > 1 or chart.x_axis is Axis.PERCENTILE:
        axes.legend(fontsize=8, frameon=False, loc="best", labelcolor=_MUTED)


def _draw_series(axes: "Axes", series: Series, x_scale: Scale, y_scale: Scale, colour: int) -> None:
    xs = [x_scale.share_of(x) for x in series.xs]
    shade = _MUTED if series.is_reference else _COLOURS[colour % len(_COLOURS)]
    axes.plot(
        xs,
        [y_scale.share_of(y) for y in series.ys],
        color=shade,
        linewidth=1.6,
        linestyle=_linestyle(series, colour),
        marker=("s" if colour % 2 else "o") if series.has_points or series.is_dots else None,
        markersize=4,
        label=series.name,
        clip_on=False,
    )
    if series.lows:
        lows, highs = ([y_scale.share_of(y) for y in ends] for ends in (series.lows, series.highs))
        axes.fill_between(xs, lows, highs, color=shade, alpha=0.16, linewidth=0)


def _linestyle(series: Series, colour: int) -> Any:
    if series.is_dots:
        return "none"
    return (0, (3, 3)) if series.is_reference else _DASHES[colour % len(_DASHES)]


def _draw_bars(axes: "Axes", chart: BarChart) -> None:
    scale = chart.scale()
    for row, bar in enumerate(chart.bars):
        shade = _COLOURS[bar.group % len(_COLOURS)]
        axes.barh(row, scale.share_of(bar.value), height=0.36, color=shade, alpha=0.45 if bar.note else 1)
        sure = "" if bar.low is None or bar.high is None else f" {margin_text(bar.low, bar.high)}"
        if bar.low is not None and bar.high is not None:
            ends = [max(0.0, scale.share_of(bar.low)), scale.share_of(bar.high)]
            axes.plot(ends, [row, row], color="#16191d", linewidth=1.2, marker="|", markersize=5, clip_on=False)
        note = f" ({bar.note})" if bar.note else ""
        axes.text(0, row - 0.27, f"{bar.name}   {figures(bar.value)}{sure}{note}", fontsize=8.5, va="bottom")
    for number, level in enumerate(chart.levels, 1):
        share, y = scale.share_of(level.value), -0.5 - 0.45 * number
        axes.plot([share, share], [y, len(chart.bars) - 0.5], color=_LEVEL, linewidth=1.1, linestyle=(0, (4, 2)))
        is_right = share > 0.5
        text = f"{level.text} " if is_right else f" {level.text}"
        axes.text(share, y, text, color=_LEVEL, fontsize=8, ha="right" if is_right else "left", va="top")
    axes.set_xlim(0, 1)
    axes.set_ylim(len(chart.bars) - 0.5, -0.7 - 0.45 * len(chart.levels))
    axes.set_xticks([tick.share for tick in scale.ticks], [tick.text for tick in scale.ticks])
    axes.set_yticks([])
    if chart.remarks:
        lines = (textwrap.fill(remark, _REMARK_CHARACTERS) for remark in chart.remarks)
        axes.set_xlabel("\n".join(lines), fontsize=8, color=_MUTED, loc="left")
    axes.grid(axis="x", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
