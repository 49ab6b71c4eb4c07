"""Two results beside each other."""

from pathlib import Path

import pytest

from headrace.lab.comparison import Verdict, compare
from headrace.lab.errors import LabError
from headrace.lab.results import EndLine, read_results
from tests.result_values import of_rates, repeat, scenario, write


def test_a_ratio_is_of_the_second_to_the_first_with_its_interval(tmp_path: Path) -> None:
    first = of_rates(tmp_path / "a", [100.0, 101.0, 99.0])
    second = of_rates(tmp_path / "b", [200.0, 201.0, 199.0])
    [row] = compare(first, second).rows
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(2.0)
    assert 1.9 < row.ratio.low < 2.0 < row.ratio.high < 2.1
    assert row.verdict is Verdict.BETTER
    [back] = compare(second, first).rows
    assert back.verdict is Verdict.WORSE
    assert back.ratio is not None
    assert back.ratio.low == pytest.approx(1 / row.ratio.high)


def test_a_longer_latency_is_worse(tmp_path: Path) -> None:
    metric = "planned_latency_p99_ms"
    first = of_rates(tmp_path / "a", [1.0, 1.1, 1.05], metric=metric)
    second = of_rates(tmp_path / "b", [2.0, 2.1, 2.05], metric=metric)
    assert compare(first, second).rows[0].verdict is Verdict.WORSE


def test_what_repeats_do_not_tell_apart_is_no_difference(tmp_path: Path) -> None:
    first = of_rates(tmp_path / "a", [100.0, 110.0, 90.0])
    second = of_rates(tmp_path / "b", [104.0, 95.0, 108.0])
    assert compare(first, second).rows[0].verdict is Verdict.SAME
    assert compare(first, first).rows[0].verdict is Verdict.SAME


def test_one_repeat_tells_a_ratio_and_not_how_sure_it_is(tmp_path: Path) -> None:
    [row] = compare(of_rates(tmp_path / "a", [100.0]), of_rates(tmp_path / "b", [200.0])).rows
    assert row.verdict is Verdict.UNKNOWN
    assert row.to_json()["ratio"] == {"value": 2.0, "low": 0.0, "high": None, "count": 1}


def test_of_nothing_there_is_no_ratio(tmp_path: Path) -> None:
    [row] = compare(of_rates(tmp_path / "a", [0.0, 0.0]), of_rates(tmp_path / "b", [5.0, 6.0])).rows
    assert row.ratio is None
    assert row.verdict is Verdict.NO_RATIO


def test_what_only_one_of_them_lost_is_compared(tmp_path: Path) -> None:
    lossy = [repeat({"rate_per_s": 10.0, **({"failed": 90} if number else {})}, number=number) for number in range(3)]
    first = read_results(write(tmp_path / "a", [scenario(), *lossy, EndLine()]))
    second = of_rates(tmp_path / "b", [10.0, 11.0, 9.0])
    for one, other, means in ((first, second, (60, 0)), (second, first, (0, 60))):
        _, failed = compare(one, other).rows
        assert (failed.metric, failed.verdict) == ("failed", Verdict.NO_RATIO)
        assert (failed.first.value, failed.second.value) == means


def test_cells_are_matched_and_the_others_named(tmp_path: Path) -> None:
    first = of_rates(tmp_path / "a", {"0": [1.0, 1.1], "1": [2.0, 2.1]})
    second = of_rates(tmp_path / "b", {"1": [4.0, 4.1], "all": [3.0, 3.1]})
    found = compare(first, second)
    assert [row.cell for row in found.rows] == [{"acks": "1"}]
    assert found.only_first == [{"acks": "0"}]
    assert found.only_second == [{"acks": "all"}]


def test_two_runs_of_one_cell_are_compared_whatever_it_is(tmp_path: Path) -> None:
    found = compare(of_rates(tmp_path / "a", {"0": [1.0, 1.1]}), of_rates(tmp_path / "b", {"1": [2.0, 2.1]}))
    assert [row.cell for row in found.rows] == [{}]
    assert found.only_first == found.only_second == []


def test_runs_without_anything_in_common_are_refused(tmp_path: Path) -> None:
    first = of_rates(tmp_path / "a", {"0": [1.0], "1": [2.0]})
    with pytest.raises(LabError, match=r"nothing to compare: acks=0; acks=1 in the one, acks=2; acks=3 in the other"):
        compare(first, of_rates(tmp_path / "b", {"2": [1.0], "3": [2.0]}))


def test_what_the_gate_stopped_is_marked_and_what_was_cut_short_said(tmp_path: Path) -> None:
    why = "not measurable here: the sender was late"
    lines = [scenario(), repeat({"rate_per_s": 1.0}, gate={"rate_per_s": why})]
    first = read_results(write(tmp_path / "a", [*lines, EndLine(partial="the broker died")]))
    found = compare(first, of_rates(tmp_path / "b", [2.0]))
    assert found.rows[0].doubt == "the sender was late"
    assert found.partial == [f"{tmp_path}/a/results.jsonl: the broker died"]


def test_repeats_that_were_cut_short_count_for_nothing(tmp_path: Path) -> None:
    repeats = [
        repeat({"rate_per_s": 1.0}, number=0),
        repeat({"rate_per_s": 900.0}, number=1, partial="the broker died"),
    ]
    first = read_results(write(tmp_path / "a", [scenario(), *repeats, EndLine()]))
    assert compare(first, of_rates(tmp_path / "b", [2.0])).rows[0].first.value == 1.0
