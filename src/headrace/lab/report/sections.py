"""Which charts a report has, under which titles: the page and the figures in files have the same."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.lab.findings import preset_of
from headrace.lab.report.charts import Chart
from headrace.lab.report.courses import time_charts
from headrace.lab.report.drawings import bar_charts, curve_charts, published_charts
from headrace.lab.report.machine import machine_charts
from headrace.lab.report.minutes import minute_charts
from headrace.lab.report.percentiles import percentile_charts
from headrace.lab.report.searches import search_charts
from headrace.lab.report.subjects import Subject
from headrace.lab.results import Results

SECTIONS: Final[Mapping[str, Callable[[Sequence[Subject]], Iterator[Chart]]]] = {
    "Searches": search_charts,
    "By parameter": curve_charts,
    "Side by side": bar_charts,
    "Over time": time_charts,
    "Over the last minute": minute_charts,
    "The machine meanwhile": machine_charts,
    "Percentiles": percentile_charts,
}


def charts_of(runs: Sequence[Results], subjects: Sequence[Subject]) -> Iterator[Chart]:
    """All of them, those of a published experiment first."""
    if (preset := preset_of(runs)) is not None:
        yield from published_charts(preset, subjects)
    for charts in SECTIONS.values():
        yield from charts(subjects)
