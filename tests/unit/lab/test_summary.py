"""A run in a few numbers, and how one is found."""

from pathlib import Path

import pytest

from headrace.lab.errors import LabError
from headrace.lab.report.subjects import subjects_of
from headrace.lab.results import FILE_NAME, PASSED, Bottleneck, RepeatLine, Results, ScenarioLine, Steady
from headrace.lab.summary import find_run, results_json, summarise


def repeat(number: int, rate: float, **changes: object) -> RepeatLine:
    made = {
        "cell": {"acks": 1},
        "repeat": number,
        "metrics": {"rate_per_s": rate},
        "gate": {"rate_per_s": PASSED},
        "steady": Steady(is_steady=number > 0, variation=0.0, slope_per_minute=0.0),
        "bottleneck": Bottleneck(verdict="disk"),
        **changes,
    }
    return RepeatLine(**made)  # type: ignore[arg-type]


def results(*repeats: RepeatLine, gate: object = None) -> Results:
    scenario = ScenarioLine(
        name="n", workload={"gate": gate}, target={"name": "t"}, seed=1, versions={}, host={}, started="2026-11-16"
    )
    path = Path("out", "run", FILE_NAME)
    return Results(path=path, scenario=scenario, seconds=[], repeats=repeats, others=[], partial=None)


def test_means_over_whole_repeats_with_what_the_gate_says() -> None:
    found = results(repeat(0, 99.0), repeat(1, 101.0), repeat(2, 5.0, partial="killed"))
    (cell,) = summarise(found)
    assert cell.metrics["rate_per_s"].interval.value == 100
    assert not cell.metrics["rate_per_s"].is_measured
    assert cell.metrics["rate_per_s"].gate.startswith("its 95% interval over 2 repeats is ±12.7%")
    assert (cell.steady, cell.verdicts) == ("2 of 3", ["disk"])
    told = results_json(found)
    assert told["cells"][0]["partial"] == ["killed"]
    assert told["run"] == "run"


def test_repeats_in_which_nothing_was_lost_count_for_the_mean_of_what_was() -> None:
    lossy = repeat(1, 100.0, metrics={"rate_per_s": 100.0, "failed": 90})
    unmeasured = repeat(3, 0.0, metrics={}, gate={"rate_per_s": "not measurable here: no link"})
    found = results(repeat(0, 100.0), lossy, repeat(2, 100.0), unmeasured)
    assert summarise(found)[0].metrics["failed"].interval.value == 30
    lossy_one, other = (each.interval("failed") for each in subjects_of([found, results(repeat(0, 100.0))]))
    assert lossy_one is not None
    assert other is not None
    assert [(each.value, each.count) for each in (lossy_one, other)] == [(30, 3), (0, 1)]
    [alone] = subjects_of([results(repeat(0, 100.0))])
    assert alone.interval("failed") is None


def test_how_many_were_steady_is_told_with_how_many_could_not_be_told() -> None:
    untold = Steady(is_steady=None, variation=0.0, slope_per_minute=0.0)
    for repeats, told in (
        ([repeat(1, 1.0), repeat(0, 1.0), repeat(2, 1.0, steady=untold)], "1 of 2, 1 untold"),
        ([repeat(1, 1.0, steady=untold), repeat(2, 1.0, steady=None)], "too short to tell"),
    ):
        assert summarise(results(*repeats))[0].steady == told


def test_the_limits_are_the_workloads() -> None:
    found = results(repeat(0, 99.0), repeat(1, 101.0), gate={"interval": 0.2})
    assert summarise(found)[0].metrics["rate_per_s"].is_measured
    assert (
        not summarise(results(repeat(0, 99.0), repeat(1, 101.0), gate={"what": 1}))[0].metrics["rate_per_s"].is_measured
    )


def test_a_run_is_found_by_its_name_a_part_of_it_or_as_the_last(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="there are no runs"):
        find_run("last", tmp_path)
    for name in ("1-acks-node", "2-acks-kafka", "3-size-node"):
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE_NAME).touch()
    assert find_run("last", tmp_path).name == "3-size-node"
    assert find_run("2", tmp_path).name == find_run("kafka", tmp_path).name == "2-acks-kafka"
    assert find_run(str(tmp_path / "1-acks-node"), Path("nowhere")).name == "1-acks-node"
    with pytest.raises(LabError, match=r"'node' is 2 runs in .*: 1-acks-node, 3-size-node$"):
        find_run("node", tmp_path)
    with pytest.raises(LabError, match="there is no run 'x'"):
        find_run("x", tmp_path)
