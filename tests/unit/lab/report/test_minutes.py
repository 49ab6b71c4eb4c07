"""Kafka's one-minute rate and the true one: of which runs they are drawn, where, and beside each other."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.rates import MINUTE_S
from headrace.lab.report.charts import TOGETHER_MAX, LineChart
from headrace.lab.report.minutes import LONG_S, minute_charts
from headrace.lab.report.sections import charts_of
from headrace.lab.report.subjects import subjects_of
from headrace.lab.results import EndLine, Line, Results, SecondLine, read_results
from tests.result_values import repeat, scenario, seconds, write

WARM_UP_S = 5


def course(rates: Sequence[int], **more: Any) -> list[SecondLine]:
    """With the warm-up first."""
    lines = seconds(rates, **more)
    return [replace(line, more={"is_warm_up": second < WARM_UP_S}) for second, line in enumerate(lines)]


def read(directory: Path, *lines: Line) -> Results:
    return read_results(write(directory, [scenario(), *lines, EndLine()]))


def drawn(results: Results) -> list[LineChart]:
    return [chart for chart in minute_charts(subjects_of([results])) if isinstance(chart, LineChart)]


def test_both_are_where_the_seconds_are_that_they_end_with(tmp_path: Path) -> None:
    [chart] = drawn(read(tmp_path / "a", *course([100] * LONG_S), repeat({"rate_per_s": 100.0})))
    kafkas, true = chart.series
    assert (kafkas.name, true.name) == ("one-minute rate, as Kafka shows it", "true rate of the last 60 s")
    # Kafka's counts from the first second of the warm-up on, before any tick from nothing.
    assert kafkas.xs == tuple(range(-WARM_UP_S, LONG_S - WARM_UP_S))
    assert kafkas.ys[:4] == (0.0,) * 4
    at = dict(zip(kafkas.xs, kafkas.ys, strict=True))
    assert at[MINUTE_S - WARM_UP_S - 1] == pytest.approx(100 * (1 - math.exp(-1)))
    assert at[3 * MINUTE_S - WARM_UP_S - 1] == pytest.approx(100 * (1 - math.exp(-3)))
    # A minute is over with its sixtieth second.
    assert true.xs == tuple(range(MINUTE_S - WARM_UP_S - 1, LONG_S - WARM_UP_S))
    assert {*true.ys} == {100.0}


def test_a_step_reaches_the_true_one_in_a_minute_and_kafkas_later(tmp_path: Path) -> None:
    [chart] = drawn(read(tmp_path / "a", *course([100] * LONG_S + [300] * LONG_S)))
    kafkas, true = (dict(zip(one.xs, one.ys, strict=True)) for one in chart.series)
    step = LONG_S - WARM_UP_S
    assert true[step + MINUTE_S - 2] < true[step + MINUTE_S - 1] == 300.0
    assert kafkas[step + MINUTE_S - 1] == pytest.approx(300 - (300 - kafkas[step - 1]) * math.exp(-1))


def test_repeats_are_a_mean_and_a_band(tmp_path: Path) -> None:
    lines = [line for number in range(2) for line in course([100 + 20 * number] * LONG_S, number=number)]
    [chart] = drawn(read(tmp_path / "a", *lines))
    true = chart.series[1]
    assert ({*true.ys}, {*true.lows}, {*true.highs}) == ({110.0}, {100.0}, {120.0})


def test_a_sweep_has_a_line_for_each_cell_in_two_charts_of_the_same_axes(tmp_path: Path) -> None:
    lines = [line for n in (1, 2, 3) for line in course([100 * n] * (LONG_S + 60), cell={"n": n})]
    kafkas, true = drawn(read(tmp_path / "a", *lines))
    assert (kafkas.key, true.key) == ("minute-kafka-1", "minute-true-1")
    for chart in (kafkas, true):
        assert [one.name for one in chart.series] == ["n=1", "n=2", "n=3"]
    assert [one.ys[-1] for one in true.series] == [100.0, 200.0, 300.0]
    assert [one.ys[-1] for one in kafkas.series] == [pytest.approx(100 * n * (1 - math.exp(-4))) for n in (1, 2, 3)]
    for place in (-WARM_UP_S, 0, LONG_S):
        assert kafkas.x_scale().share_of(place) == true.x_scale().share_of(place)
    assert kafkas.y_scale().ticks == true.y_scale().ticks


def test_many_cells_are_several_pairs(tmp_path: Path) -> None:
    lines = [line for n in range(TOGETHER_MAX + 1) for line in course([10] * LONG_S, cell={"n": n})]
    charts = drawn(read(tmp_path / "a", *lines))
    assert [(chart.key, len(chart.series)) for chart in charts] == [
        ("minute-kafka-1", 3), ("minute-true-1", 3), ("minute-kafka-2", 4), ("minute-true-2", 4),
    ]  # fmt: skip


def test_a_run_of_less_than_three_minutes_has_none(tmp_path: Path) -> None:
    short = course([100] * (LONG_S - 1), cell={"n": 1})
    assert drawn(read(tmp_path / "a", *short)) == []
    results = read(tmp_path / "b", *short, *course([100] * (LONG_S - 1), cell={"n": 2}))
    assert drawn(results) == []
    # Of those that are drawn together only those that are long enough are drawn.
    results = read(tmp_path / "c", *short, *course([100] * LONG_S, cell={"n": 2}))
    assert [chart.key for chart in drawn(results)] == ["minute"]


def test_page_and_figures_have_them(tmp_path: Path) -> None:
    results = read(tmp_path / "a", *(line for n in (1, 2) for line in course([100] * LONG_S, cell={"n": n})))
    keys = [chart.key for chart in charts_of([results], subjects_of([results]))]
    assert {"minute-kafka-1", "minute-true-1"} <= {*keys}
