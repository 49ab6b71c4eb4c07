"""What the machine did meanwhile, out of the readings beside results."""

from pathlib import Path

import pytest

from headrace.lab.report.charts import LineChart
from headrace.lab.report.machine import machine_charts
from headrace.lab.report.subjects import subjects_of
from headrace.lab.results import EndLine, read_results
from tests.result_values import reading, repeat, scenario, seconds, write


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two cells, interleaved, of which the first was run twice."""
    cells = [({"acks": 0}, 0), ({"acks": 1}, 0), ({"acks": 0}, 1)]
    lines = [
        line
        for cell, number in cells
        for line in (*seconds([1, 2], cell=cell, number=number), repeat({"rate_per_s": 1.0}, cell=cell, number=number))
    ]
    return write(tmp_path / "run", [scenario(), *lines, EndLine()])


def charts(run: Path) -> dict[str, LineChart]:
    found = [*machine_charts(subjects_of([read_results(run)]))]
    assert all(isinstance(chart, LineChart) for chart in found)
    return {chart.key: chart for chart in found if isinstance(chart, LineChart)}


def test_each_repeat_has_readings_of_its_own(run: Path) -> None:
    for number, load in enumerate((1.0, 5.0, 3.0)):
        text = "\n".join(['{"type": "readings"}', reading(0, load=load), reading(1, load=load), '{"type": "rea'])
        (run / f"readings-{number}.jsonl").write_text(text)
    load = charts(run)["machine-load-1"]
    first, second = load.series
    assert (first.name, first.xs, first.ys) == ("acks=0", (0.0, 1.0), (2.0, 2.0))
    assert (first.lows, first.highs) == ((1.0, 1.0), (3.0, 3.0))
    assert (second.name, second.ys) == ("acks=1", (5.0, 5.0))


def test_quantities_are_those_of_the_readings(run: Path) -> None:
    (run / "readings-0.jsonl").write_text(reading(0, load=1.0) + "\n")
    values = {chart.unit + " " + chart.title: chart.series[0].ys for chart in charts(run).values()}
    assert values == {
        "processes Load, over one minute": (1.0,),
        "% CPU, of all cores": (50.0,),
        "MB/s Written to disks": (3.0,),
        "MB/s Through loopback": (4.0,),
        "a second Packets received from elsewhere": (30_000.0,),
    }


def test_what_was_read_after_the_repeat_is_not_of_it(run: Path) -> None:
    (run / "readings-0.jsonl").write_text("\n".join([reading(1, load=1.0), reading(60, load=9.0)]))
    assert charts(run)["machine-load-1"].series[0].ys == (1.0,)


def test_a_run_need_not_have_any(run: Path) -> None:
    assert charts(run) == {}
