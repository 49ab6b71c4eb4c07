"""How a figure is written in a cell of a table: the median, and under or behind it the least and the greatest."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from bench.metrics import Metric
from headrace.lab.intervals import Spread
from headrace.lab.requirements import Result, Verdict

_STYLES: Final = {Result.MET: "green", Result.SHORT: "red"}


class Judged(NamedTuple):
    """A verdict, and what the table calls its metric."""

    verdict: Verdict
    title: str

    def __str__(self) -> str:
        return self.verdict.text(self.title)


def rich_cell(metric: Metric, spread: Spread | None) -> Text:
    if spread is None:
        return Text("")
    cell = Text(metric.write(spread.median))
    if spread.count > 1:
        cell.append("\n" + _range(metric, spread), style="dim")
    return cell


def rich_verdicts(judged: Sequence[Judged]) -> Text:
    return Text("\n").join(Text(str(one), style=_STYLES.get(one.verdict.result, "")) for one in judged)


def markdown_cell(metric: Metric, spread: Spread | None) -> str:
    if spread is None:
        return ""
    median = metric.write(spread.median)
    return f"{median} ({_range(metric, spread)})" if spread.count > 1 else median


def markdown_verdicts(judged: Sequence[Judged]) -> str:
    return "<br>".join(map(str, judged))


def markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _range(metric: Metric, spread: Spread) -> str:
    return f"{metric.write(spread.least)}..{metric.write(spread.greatest)}"
