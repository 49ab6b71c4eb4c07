"""Charts as SVG: well formed, with every value in it, and nothing of anybody's text as markup."""

import xml.etree.ElementTree as ElementTree

import pytest

from headrace.lab.report.charts import Axis, Bar, BarChart, Chart, Level, LineChart, Series
from headrace.lab.report.scales import percentile_scale
from headrace.lab.report.svg import figure, fitting_ticks


def lines(*series: Series, levels: tuple[Level, ...] = (), y_axis: Axis = Axis.LINEAR) -> LineChart:
    return LineChart(key="k", title="T", unit="u", x_text="x", series=series, levels=levels, y_axis=y_axis)


def series(name: str = "s", **more: object) -> Series:
    return Series(name=name, xs=(0.0, 1.0, 2.0), ys=(0.1, 1 / 3, 7.0), **more)  # type: ignore[arg-type]


def bars(*found: Bar, levels: tuple[Level, ...] = ()) -> BarChart:
    return BarChart(key="k", title="T", unit="u", bars=found, levels=levels)


def parsed(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(figure(chart).replace("†", "+"))


def found(chart: Chart, kind: str) -> list[ElementTree.Element]:
    return [each for each in parsed(chart).iter() if kind in each.get("class", "").split()]


def test_a_line_has_its_values_exactly() -> None:
    [line] = found(lines(series()), "line")
    assert [float(text) for text in line.attrib["data-y"].split()] == [0.1, 1 / 3, 7.0]
    assert [float(text) for text in line.attrib["data-x"].split()] == [0.0, 1.0, 2.0]
    assert line.attrib["d"].count("L") == 2


def test_series_differ_in_colour_and_in_dash() -> None:
    drawn = [line for line in found(lines(*map(series, "abcdef")), "line") if line.tag == "path"]
    assert len({(line.attrib["style"]) for line in drawn}) == 6
    assert len({line.get("stroke-dasharray") for line in drawn}) == 6


def test_a_reference_takes_no_colour_from_the_others() -> None:
    drawn = found(lines(series("plan", is_reference=True), series("rate")), "line")
    by_name = {line.get("data-series"): line for line in drawn if line.tag == "path"}
    assert "--muted" in by_name["plan"].attrib["style"]
    assert "--series-0" in by_name["rate"].attrib["style"]


def test_a_bar_is_as_long_as_its_value_and_has_its_interval() -> None:
    chart = bars(Bar(name="a", value=50.0, low=40.0, high=60.0), Bar(name="b", value=100.0))
    first, second = found(chart, "bar")
    assert (first.attrib["width"], second.attrib["width"]) == ("50.00%", "100.00%")
    assert (first.attrib["data-low"], first.attrib["data-high"]) == ("40.0", "60.0")
    assert len(found(chart, "whisker")) == 3


def test_a_doubtful_bar_says_so() -> None:
    chart = bars(Bar(name="a", value=1.0, note="not measurable here"))
    assert len(found(chart, "doubtful")) == 1
    assert "not measurable here" in figure(chart)


@pytest.mark.parametrize("chart", [lines(series(), levels=(Level(value=9.0, text="S0: 9"),)), None])
def test_a_level_is_a_labelled_line(chart: Chart | None) -> None:
    chart = chart or bars(Bar(name="a", value=1.0), levels=(Level(value=9.0, text="S0: 9"),))
    [level] = found(chart, "level")
    assert level.attrib["data-level"] == "9.0"
    assert found(chart, "level-text")[0].text == "S0: 9"


def test_names_are_text() -> None:
    name = "<script>alert('a & \"b\"')</script>"
    chart = lines(series(name), series("b"))
    assert "<script" not in figure(chart)
    assert found(chart, "line")[-2].get("data-series") == name
    assert "<script" not in figure(bars(Bar(name=name, value=1.0, note=name)))


def test_one_value_alone_is_a_dot() -> None:
    assert len(found(lines(Series(name="s", xs=(1.0,), ys=(2.0,))), "dots")) == 1


def test_on_a_phone_labels_do_not_touch() -> None:
    ticks = percentile_scale(0.999999).ticks
    fitting = fitting_ticks(ticks, 270)
    assert ticks[-1] in fitting
    assert 3 <= len(fitting) < len(ticks)
    assert fitting_ticks(ticks, 2000) == [*reversed(ticks)]
