"""How a figure is written in a cell of a table: the median, and under or behind it the least and the greatest."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from bench.metrics import Metric
from bench.results import MET, SHORT, Spread, Verdict

_STYLES: Final = {MET: "green", SHORT: "red"}


def rich_cell(metric: Metric, spread: Spread | None) -> Text:
    if spread is None:
        return Text("")
    cell = Text(metric.write(spread.median))
    if spread.count > 1:
        cell.append("\n" + _range(metric, spread), style="dim")
    return cell


def rich_verdicts(verdicts: Sequence[Verdict]) -> Text:
    return Text("\n").join(Text(one.text(), style=_STYLES.get(one.result, "")) for one in verdicts)


def markdown_cell(metric: Metric, spread: Spread | None) -> str:
    if spread is None:
        return ""
    median = metric.write(spread.median)
    return f"{median} ({_range(metric, spread)})" if spread.count > 1 else median


def markdown_verdicts(verdicts: Sequence[Verdict]) -> str:
    return "<br>".join(one.text() for one in verdicts)


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _range(metric: Metric, spread: Spread) -> str:
    return f"{metric.write(spread.least)}..{metric.write(spread.greatest)}"
