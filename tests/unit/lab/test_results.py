"""What a run leaves can be read again, also where it was cut short in the middle of a line."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.errors import LabError
from headrace.lab.results import (
    CUT_SHORT,
    FILE_NAME,
    PASSED,
    Bottleneck,
    RepeatLine,
    ResultsWriter,
    ScenarioLine,
    SecondLine,
    Steady,
    buckets_quantile_us,
    calmest,
    find_runs,
    merged_buckets,
    parse_line,
    read_results,
    run_name,
)

SCENARIO = ScenarioLine(
    name="acks",
    workload={"rate": "1K"},
    target={"kind": "node"},
    seed=7,
    versions={"headrace": "1"},
    host={"cores": 2},
    started="2026-01-02T03:04:05.000006+00:00",
)
SECOND = SecondLine(
    cell={"acks": "all", "linger": 5},
    repeat=0,
    at="2026-01-02T03:04:06+00:00",
    planned=10,
    sent=9,
    acknowledged=8,
    failed=1,
    consumed=7,
    bytes=900,
    lateness_ms=0.5,
    more={"steal_share": 0.01},
)
OLDER = {"is_steady": None, "variation": 0.01, "slope_per_minute": 0.001}
REPEAT = RepeatLine(
    cell={"linger": 5, "acks": "all"},
    repeat=0,
    metrics={"rate_per_s": 9.0, "planned_latency_p99_ms": 2.0},
    histograms={"planned_latency": [[100, 1], [200, 8]]},
    steady=Steady(
        is_steady=True,
        variation=0.01,
        slope_per_minute=0.001,
        slope_low_per_minute=-0.002,
        slope_high_per_minute=0.004,
    ),
    gate={"rate_per_s": PASSED, "planned_latency_p99_ms": "the sender was late by more than 10% of it"},
    bottleneck=Bottleneck(verdict="generator", evidence=["it was late"], is_held_up=True),
    events=["broker1 killed at 2 s"],
)


def written(out: Path, *lines: SecondLine | RepeatLine) -> Path:
    with ResultsWriter(out, SCENARIO, workload="acks", target="node") as writer:
        for line in lines:
            writer.write(line)
    return writer.directory


def test_what_was_written_is_read(tmp_path: Path) -> None:
    results = read_results(written(tmp_path, SECOND, REPEAT))
    assert results.scenario == SCENARIO
    assert results.seconds == [SECOND]
    assert results.repeats == [REPEAT]
    assert results.partial is None
    assert results.cells == [{"linger": 5, "acks": "all"}]
    assert results.seconds_of(REPEAT.cell, repeat=0) == [SECOND]
    assert results.seconds_of(REPEAT.cell, repeat=1) == []
    assert results.values(SECOND.cell, "rate_per_s") == [9.0]
    assert results.values(SECOND.cell, "mb_per_s") == []
    assert REPEAT.is_measured("rate_per_s")
    assert not REPEAT.is_measured("planned_latency_p99_ms")
    assert not REPEAT.is_measured("mb_per_s")


def test_the_lines_are_those_of_the_format(tmp_path: Path) -> None:
    text = (written(tmp_path, SECOND, REPEAT) / FILE_NAME).read_text()
    scenario, second, repeat, end = map(json.loads, text.splitlines())
    assert [line["kind"] for line in (scenario, second, repeat, end)] == ["scenario", "second", "repeat", "end"]
    assert scenario["units"]["rate_per_s"] == "messages/s"
    assert second["steal_share"] == 0.01
    assert "more" not in second
    assert repeat["steady"] == {
        "is_steady": True,
        "variation": 0.01,
        "slope_per_minute": 0.001,
        "slope_low_per_minute": -0.002,
        "slope_high_per_minute": 0.004,
    }
    assert repeat["bottleneck"] == {"verdict": "generator", "evidence": ["it was late"], "is_held_up": True}
    assert end == {"kind": "end", "partial": None}


def test_a_verdict_on_steadiness_is_told_with_what_is_known() -> None:
    assert str(REPEAT.steady) == "steady: varies by 1.0%, slope +0.1% [-0.2%, +0.4%] a minute"
    # As older versions wrote it, and where nothing came through.
    older = parse_line({"kind": "repeat", "cell": {}, "repeat": 0, "metrics": {}, "steady": OLDER})
    assert isinstance(older, RepeatLine)
    assert str(older.steady) == "too short to tell: varies by 1.0%, slope +0.1% a minute"
    nothing = Steady(is_steady=False, variation=None, slope_per_minute=0.0)
    assert str(nothing) == "not steady: varies without bound, slope +0.0% a minute"


def test_a_bottleneck_of_an_earlier_version_does_not_say_whether_anything_was_in_the_way() -> None:
    told = {"verdict": "none found", "evidence": []}
    line = parse_line({"kind": "repeat", "cell": {}, "repeat": 0, "metrics": {}, "bottleneck": told})
    assert isinstance(line, RepeatLine)
    assert line.bottleneck is not None
    assert (line.bottleneck.verdict, line.bottleneck.is_held_up) == ("none found", None)


def test_a_file_cut_at_any_byte_is_partial_or_tells_that_it_is_none(tmp_path: Path) -> None:
    whole = (written(tmp_path, SECOND, REPEAT) / FILE_NAME).read_bytes()
    cut = tmp_path / "cut.jsonl"
    scenario_end = whole.index(b"\n") + 1
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        if size < scenario_end:
            with pytest.raises(LabError, match="no run's results"):
                read_results(cut)
        else:
            assert read_results(cut).partial == CUT_SHORT


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(LabError, match="broker is gone"),
        ResultsWriter(tmp_path, SCENARIO, workload="acks", target="node") as writer,
    ):
        raise LabError("the broker is gone")
    assert read_results(writer.path).partial == "the broker is gone"


def test_a_partial_repeat_is_in_no_mean(tmp_path: Path) -> None:
    short = RepeatLine(cell=REPEAT.cell, repeat=1, metrics={"rate_per_s": 1.0}, partial="killed")
    results = read_results(written(tmp_path, REPEAT, short))
    assert len(results.repeats_of(REPEAT.cell)) == 2
    assert results.values(REPEAT.cell, "rate_per_s") == [9.0]


def attempt(number: int, disturbance: float, *, rate: float = 1.0, partial: str | None = None) -> RepeatLine:
    return replace(
        REPEAT, metrics={"rate_per_s": rate}, attempt=number, disturbance=disturbance, partial=partial, gate={}
    )


def test_of_several_attempts_the_calmest_counts_whatever_it_measured(tmp_path: Path) -> None:
    attempts = [attempt(0, 1.5, rate=9.0), attempt(1, 0.5, rate=1.0), attempt(2, 0.9, rate=5.0)]
    results = read_results(written(tmp_path, *attempts))
    assert results.repeats == [attempts[1]]
    assert results.attempts == attempts
    assert results.values(REPEAT.cell, "rate_per_s") == [1.0]


def test_a_whole_attempt_comes_before_one_that_was_cut_short() -> None:
    failed, disturbed = attempt(0, 0.0, partial="failed"), attempt(1, 7.0)
    assert calmest([failed, disturbed]) == calmest([disturbed, failed]) == [disturbed]


def test_results_are_gone_on_with(tmp_path: Path) -> None:
    with ResultsWriter.into(tmp_path / "run", SCENARIO) as writer:
        writer.write(REPEAT)
    with writer.path.open("a") as file:
        file.write('{"kind": "rep')  # Whoever wrote this was killed.
    with ResultsWriter.into(tmp_path / "run", replace(SCENARIO, started="2026-02-02T03:04:05+00:00")) as writer:
        assert read_results(writer.path).partial is None
        writer.write(replace(REPEAT, repeat=1))
        assert read_results(writer.path).partial == CUT_SHORT
    results = read_results(writer.path)
    assert [line.repeat for line in results.repeats] == [0, 1]
    assert (results.partial, results.scenario.started) == (None, SCENARIO.started)


@pytest.mark.parametrize("change", [{"versions": {"headrace": "2"}}, {"workload": {"rate": "2K"}}, {"name": "other"}])
def test_results_of_something_else_are_not_gone_on_with(tmp_path: Path, change: dict[str, Any]) -> None:
    with ResultsWriter.into(tmp_path / "run", SCENARIO):
        pass
    with pytest.raises(LabError, match=f"results of another {next(iter(change))}"):
        ResultsWriter.into(tmp_path / "run", replace(SCENARIO, **change))


def test_lines_and_fields_of_later_versions_do_no_harm(tmp_path: Path) -> None:
    with ResultsWriter(tmp_path, SCENARIO, workload="acks", target="node") as writer:
        writer.write_json({"kind": "reading", "of": "disk"})
        writer.write_json({"kind": "repeat", "cell": {}, "repeat": 0, "metrics": {}, "colour": "red"})
    results = read_results(writer.path)
    assert results.others == [{"kind": "reading", "of": "disk"}]
    assert results.repeats == [RepeatLine(cell={}, repeat=0, metrics={})]


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="JSON"),
        ResultsWriter(tmp_path, SCENARIO, workload="acks", target="node") as writer,
    ):
        writer.write(RepeatLine(cell={}, repeat=0, metrics={"rate_per_s": float("nan")}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 is not a JSON object"),
        ('{"kind": "repeat"}', "a line of kind 'repeat' is not as it should be"),
        ('{"kind": "repeat", "cell": {}, "repeat": 0, "metrics": {}, "steady": 3}', "is not as it should be"),
    ],
)
def test_what_is_no_result_is_told_in_a_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / FILE_NAME
    file.write_text(text + "\n")
    with pytest.raises(LabError, match=why):
        read_results(tmp_path)


def test_no_file_is_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no results in"):
        read_results(tmp_path / "nowhere")


def test_runs_are_found_by_time_and_never_written_over(tmp_path: Path) -> None:
    first = written(tmp_path, REPEAT)
    with pytest.raises(LabError, match="cannot write results"):
        written(tmp_path, REPEAT)
    later = tmp_path / run_name(started=datetime(2027, 1, 1, tzinfo=UTC), workload="a b/c", target="127.0.0.1:9092")
    later.mkdir()
    (later / FILE_NAME).touch()
    assert later.name == "20270101T000000.000000Z-a_b_c-127.0.0.1_9092"
    assert find_runs(tmp_path) == [first, later]
    assert find_runs(tmp_path / "nowhere") == []


def test_buckets_add_up_and_have_quantiles() -> None:
    buckets = merged_buckets([[[100, 1], [200, 8]], [[100, 1], [400, 1]]])
    assert buckets == [[100, 2], [200, 8], [400, 1]]
    assert buckets_quantile_us(buckets, 0.0) == 100
    assert buckets_quantile_us(buckets, 0.5) == 200
    assert buckets_quantile_us(buckets, 1.0) == 400
    assert buckets_quantile_us([], 0.5) is None
