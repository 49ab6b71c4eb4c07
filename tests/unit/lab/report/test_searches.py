"""The course of a search for the highest rate."""

from pathlib import Path

from headrace.lab.report.charts import LineChart
from headrace.lab.report.searches import search_charts
from headrace.lab.report.subjects import subjects_of
from headrace.lab.report.svg import figure
from headrace.lab.results import EndLine, read_results
from tests.result_values import repeat, scenario, trial, write


def test_what_was_tried_what_was_held_and_what_was_found(tmp_path: Path) -> None:
    cell = {"acks": 1}
    trials = [
        trial(100.0, held=True, cell=cell),
        trial(200.0, held=False, cell=cell),
        {**trial(150.0, held=False, cell=cell), "is_disturbed": True},
        trial(150.0, held=True, cell=cell),
    ]
    other = trial(900.0, held=True, cell={"acks": 0})
    lines = [scenario(), repeat({"max_rate_per_s": 150.0}, cell=cell), EndLine()]
    results = read_results(write(tmp_path / "a", lines, more=[*trials, other]))
    [chart] = search_charts(subjects_of([results]))
    assert isinstance(chart, LineChart)
    tried, held, not_held = chart.series
    assert (tried.ys, tried.is_reference) == ((100.0, 200.0, 150.0, 150.0), True)
    assert (held.name, held.xs, held.ys) == ("held", (1.0, 4.0), (100.0, 150.0))
    assert (not_held.name, not_held.xs, not_held.ys) == ("not held", (2.0,), (200.0,))
    assert [level.value for level in chart.levels] == [150.0]
    drawn = figure(chart)
    assert 'data-series="held" data-x="1.0 4.0" data-y="100.0 150.0"' in drawn
    # Told apart without colours, too.
    assert 'stroke-linecap="round"' in drawn
    assert 'stroke-linecap="square"' in drawn


def test_a_run_without_a_search_has_none(tmp_path: Path) -> None:
    results = read_results(write(tmp_path / "a", [scenario(), repeat({"rate_per_s": 1.0}), EndLine()]))
    assert [*search_charts(subjects_of([results]))] == []
