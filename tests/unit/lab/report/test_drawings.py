"""Which charts results have, and that they say what the results say."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.lab.published import PUBLISHED
from headrace.lab.report.charts import TOGETHER_MAX, Axis, BarChart, Chart, LineChart, chunks
from headrace.lab.report.courses import time_charts
from headrace.lab.report.drawings import BARS_MAX, bar_charts, curve_charts, published_charts
from headrace.lab.report.percentiles import percentile_charts
from headrace.lab.report.subjects import Subject, run_names, subjects_of
from headrace.lab.results import EndLine, Line, Results, read_results
from tests.result_values import of_rates, repeat, scenario, seconds, write


def read(directory: Path, *lines: Line, **of_scenario: str) -> Results:
    return read_results(write(directory, [scenario(**of_scenario), *lines, EndLine()]))


def by_key(charts: object) -> dict[str, Chart]:
    return {chart.key: chart for chart in charts}  # type: ignore[attr-defined]


def subjects(results: Results) -> list[Subject]:
    return subjects_of([results])


def test_one_subject_has_its_own_rates_against_the_plan(tmp_path: Path) -> None:
    lines = [*seconds([90, 110], planned=100), *seconds([80, 120], number=1, planned=100)]
    charts = by_key(time_charts(subjects(read(tmp_path / "a", *lines, repeat({"rate_per_s": 100.0})))))
    rates = charts["rates"]
    assert isinstance(rates, LineChart)
    plan, acknowledged, consumed = rates.series
    assert (plan.name, plan.is_reference, plan.ys) == ("planned", True, (100.0, 100.0))
    assert (acknowledged.name, acknowledged.ys) == ("acknowledged", (85.0, 115.0))
    assert (acknowledged.lows, acknowledged.highs) == ((80, 110), (90, 120))
    assert consumed.name == "consumed"
    assert charts["lateness"].series[0].ys == (1.0, 1.1)  # type: ignore[union-attr]


def test_seconds_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    first, _, third = seconds([10, 20, 30])
    charts = by_key(time_charts(subjects(read(tmp_path / "a", first, third))))
    assert charts["rates"].series[1].xs == (0.0, 2.0)  # type: ignore[union-attr]


def test_warming_up_is_before_the_beginning(tmp_path: Path) -> None:
    lines = [replace(line, more={"is_warm_up": number < 2}) for number, line in enumerate(seconds([1, 2, 3, 4]))]
    chart = by_key(time_charts(subjects(read(tmp_path / "a", *lines))))["rates"]
    assert chart.series[1].xs == (-2.0, -1.0, 0.0, 1.0)  # type: ignore[union-attr]


def test_whatever_else_was_read_is_drawn_by_unit(tmp_path: Path) -> None:
    more = {"second": 7, "is_warm_up": False, "broker_cpu_percent": 50.5, "disk_write_mb_per_s": 3.0, "note": "words"}
    lines = [replace(line, more=more) for line in seconds([1, 2])]
    charts = by_key(time_charts(subjects(read(tmp_path / "a", *lines))))
    readings = {chart.unit: chart for key, chart in charts.items() if key.startswith("readings")}
    assert {unit: [one.name for one in chart.series] for unit, chart in readings.items()} == {  # type: ignore[union-attr]
        "%": ["broker CPU"],
        "MB/s": ["disk write"],
    }
    assert readings["%"].title == "Broker CPU"
    assert readings["%"].series[0].ys == (50.5, 50.5)  # type: ignore[union-attr]


def test_what_is_published_is_beside_its_own_cell(tmp_path: Path) -> None:
    repeats = [
        repeat({"rate_per_s": 1.0, "mb_per_s": 1.0}, cell={"acks": acks, "batch_size": size})
        for acks in (0, "1")
        for size in ("16KiB", "64KiB")
    ]
    charts = by_key(published_charts("s0-fig7", subjects(read(tmp_path / "a", *repeats))))
    rates = charts["published-rate_per_s"]
    assert isinstance(rates, BarChart)
    assert [(bar.name, bar.value) for bar in rates.bars] == [
        ("acks=0, batch_size=16KiB", 1.0),
        ("published: acks=0, 16 KiB", 250e3),
        ("acks=0, batch_size=64KiB", 1.0),
        ("published: acks=0, 64 KiB, its maximum", 294e3),
        ("acks=1, batch_size=16KiB", 1.0),
        ("published: acks=1, 16 KiB", 320e3),
        ("acks=1, batch_size=64KiB", 1.0),
        ("published: acks=all, 16 KiB", 320e3),
    ]
    assert [level.value for level in rates.levels] == [340e3, 420e3]
    assert [level.value for level in charts["published-mb_per_s"].levels] == [80]  # type: ignore[union-attr]
    assert "published-load" not in charts  # It was not measured here, and levels alone are no chart.


def test_what_we_remark_on_a_published_value_is_below_it_and_no_word_of_the_papers(tmp_path: Path) -> None:
    results = read(tmp_path / "a", repeat({"mb_per_s": 10.0, "consumed_mb_per_s": 30.0}))
    for chart in published_charts("s2-cku", subjects(results)):
        assert isinstance(chart, BarChart)
        [remark] = chart.remarks
        assert remark.startswith("Our remark: AWS wrote all that it was sent")
        assert "117.2 MB/s" in remark
    assert round(4 * 60_000 * 512 / 2**20, 1) == 117.2
    assert not [each for each in PUBLISHED if each.remark and each.remark in each.source.quote]
    [other] = [each for each in published_charts("s2-tips", subjects(results)) if each.key == "published-mb_per_s"]
    assert isinstance(other, BarChart)
    assert ([level.value for level in other.levels], other.remarks) == ([50, 5], ())


def test_several_are_drawn_together_and_not_too_many(tmp_path: Path) -> None:
    lines = [line for n in range(8) for line in seconds([10, 10], cell={"n": n}, planned=10)]
    charts = by_key(time_charts(subjects(read(tmp_path / "a", *lines))))
    first, second = charts["rates-1"], charts["rates-2"]
    assert isinstance(first, LineChart)
    assert isinstance(second, LineChart)
    names = [one.name for one in (*first.series, *second.series) if not one.is_reference]
    assert names == [f"n={n}" for n in range(8)]
    assert [sum(not one.is_reference for one in chart.series) for chart in (first, second)] == [4, 4]


def test_charts_are_as_few_as_fit_and_none_is_of_what_was_left_over() -> None:
    for count in range(40):
        found = chunks(range(count), TOGETHER_MAX)
        sizes = [len(each) for each in found]
        assert sum(sizes) == count
        assert len(sizes) == math.ceil(count / TOGETHER_MAX)
        assert not sizes or max(sizes) - min(sizes) <= 1
    assert [*chunks(range(7), 6)] == [range(3), range(3, 7)]


def test_a_plan_far_above_all_is_told_in_words(tmp_path: Path) -> None:
    lines = [line for n in range(2) for line in seconds([10, 10], cell={"n": n}, planned=1000)]
    chart = by_key(time_charts(subjects(read(tmp_path / "a", *lines))))["rates-1"]
    assert chart.title == "Acknowledged, of 1 K planned"
    assert not any(one.is_reference for one in chart.series)  # type: ignore[union-attr]


def test_percentiles_are_of_all_repeats(tmp_path: Path) -> None:
    repeats = [
        repeat({}, number=0, histograms={"planned_latency": [[1000, 50], [2000, 50]]}),
        repeat({}, number=1, histograms={"planned_latency": [[1000, 40], [9000, 60]]}),
    ]
    [chart] = percentile_charts(subjects(read(tmp_path / "a", *repeats)))
    assert isinstance(chart, LineChart)
    assert (chart.x_axis, chart.y_axis) == (Axis.PERCENTILE, Axis.LOG)
    [series] = chart.series
    assert series.ys == (1.0, 1.0, 2.0, 9.0)
    assert series.xs == pytest.approx((0.0, 90 / 200, 140 / 200, 1 - 1 / 200))


def test_bars_have_intervals_and_doubts(tmp_path: Path) -> None:
    why = "not measurable here: late"
    repeats = [
        repeat({"rate_per_s": value}, cell={"acks": acks}, number=n, gate={"rate_per_s": why} if acks == "1" else {})
        for acks, values in {"0": (9.99, 10.01), "1": (20.0,)}.items()
        for n, value in enumerate(values)
    ]
    [chart] = bar_charts(subjects(read(tmp_path / "a", *repeats)))
    assert isinstance(chart, BarChart)
    first, second = chart.bars
    assert (first.name, first.value, first.note) == ("acks=0", 10.0, None)
    assert first.low is not None
    assert first.low < 9.99 < 10.01 < (first.high or 0)
    assert (second.value, second.low, second.note) == (20.0, None, "not measurable here")


def test_many_bars_are_several_charts(tmp_path: Path) -> None:
    results = of_rates(tmp_path / "a", {str(n): [float(n + 1)] for n in range(BARS_MAX + 1)})
    assert [len(chart.bars) for chart in bar_charts(subjects(results)) if isinstance(chart, BarChart)] == [6, 7]


def test_a_sweep_over_numbers_is_a_curve(tmp_path: Path) -> None:
    repeats = [repeat({"rate_per_s": 1e6 / size}, cell={"size": size}) for size in (10, 100, 1000)]
    [chart] = curve_charts(subjects(read(tmp_path / "a", *repeats)))
    assert isinstance(chart, LineChart)
    assert chart.series[0].xs == (10.0, 100.0, 1000.0)
    assert (chart.x_axis, chart.y_axis) == (Axis.LOG, Axis.LOG)
    words = of_rates(tmp_path / "b", {"0": [1.0], "1": [2.0], "all": [3.0]})
    assert [*curve_charts(subjects(words))] == []


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    empty = subjects(read(tmp_path / "a"))
    assert [*time_charts(empty), *percentile_charts(empty), *bar_charts(empty), *curve_charts(empty)] == []


def test_runs_have_names_that_tell_them_apart(tmp_path: Path) -> None:
    node, kafka = read(tmp_path / "a"), read(tmp_path / "b", target="apache-kafka")
    assert run_names([node, kafka]) == ["node", "apache-kafka"]
    assert run_names([node, read(tmp_path / "c", name="other")]) == ["steady", "other"]
    assert run_names([node, node]) == ["run 1", "run 2"]
