"""The race's table: what its lines, verdicts and notes say of results that nobody has measured."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.run import asked_for, parse_arguments
from bench.table import RaceTable
from headrace.lab.race import Race
from headrace.lab.results import RepeatLine, Results
from tests.result_values import scenario

BULK = {"workload": "bulk"}


def line(repeat: int, metrics: Mapping[str, float], **more: Any) -> RepeatLine:
    return RepeatLine(cell=BULK, repeat=repeat, metrics=metrics, **more)


def bulk(rate: float, cpu: float) -> dict[str, float]:
    return {
        "rate_per_s": rate,
        "mb_per_s": rate * 200 / 2**20,
        "sending_cpu_s_per_gb": cpu,
        "sending_memory_mb_peak": 47.0,
        "consumed_per_s": 2 * rate,
        "restart_s": 0.3,
    }


def results(*lines: RepeatLine, version: Mapping[str, str]) -> Results:
    made = replace(scenario("race"), versions=version, host={"cpu": "a processor", "cores": 2})
    return Results(path=Path("none"), scenario=made, seconds=[], repeats=lines, others=[], partial=None)


def make(race: Race, *more: RepeatLine) -> RaceTable:
    ours = [line(0, bulk(1_800_000, 1.0)), line(1, bulk(2_000_000, 1.2)), *more]
    theirs = [line(0, bulk(1_000_000, 5.0), disturbance=2.5)]
    return RaceTable(
        race=race,
        results={
            "node": results(*ours, version={"headrace (node)": "0.1.0 (abc)"}),
            "kafka": results(*theirs, version={"Apache Kafka": "4.1.1"}),
        },
        seconds=90.0,
    )


@pytest.fixture
def chosen() -> Race:
    return asked_for(parse_arguments(["--rows", "bulk"]))


def test_sent_consumed_and_restarted_are_lines_of_their_own(chosen: Race) -> None:
    lines = make(chosen).markdown().splitlines()
    assert lines[0] == "node 0.1.0 (abc) against kafka 4.1.1, 2 repeats: median, least..greatest."
    rows = [[cell.strip() for cell in each.split("|")[1:-1]] for each in lines if each.startswith("| 200 B")]
    title = "200 B in large batches, acks=1"
    assert [row[:2] for row in rows] == [
        [title + suffix, target]
        for suffix in ("", ": consumed", ": restarted with a warm cache")
        for target in ("node", "kafka")
    ]
    assert rows[0][2:5] == ["1.90 M (1.80 M..2.00 M)", "362 (343..381)", "1.10 (1.00..1.20)"]
    assert rows[1][2:5] == ["1.00 M", "191", "5.00"]
    assert rows[2][2] == "3.80 M (3.60 M..4.00 M)"
    assert rows[4][10] == "0.30 (0.30..0.30)"


def test_each_line_has_the_verdicts_on_what_it_shows(chosen: Race) -> None:
    table = make(chosen)
    rows = [each for each in table.markdown().splitlines() if each.startswith("| 200 B")]
    verdicts = [each.split("|")[-2].strip().split("<br>") for each in rows]
    assert verdicts[0] == [
        "met: messages/s 1.9 >= 1.5 x kafka",
        "met: CPU-s/GB 0.22 <= 0.5 x kafka",
        "met: peak MB 47 <= 150",
    ]
    assert verdicts[2] == [
        "met: messages/s 1.9 >= 1.25 x kafka",
        "not judged: CPU-s/GB <= 0.5 x kafka",
        "not judged: peak MB <= 150",
    ]
    assert verdicts[4] == ["met: start s 0.3 <= 0.4"]
    assert verdicts[1::2] == [[""], [""], [""]]
    assert not table.any_short()


def test_a_bound_that_was_not_reached_is_short(chosen: Race) -> None:
    assert not make(chosen).any_short()
    table = make(chosen, *(line(repeat, bulk(100_000, 9.0)) for repeat in range(2, 9)))
    assert table.any_short()
    assert "short: messages/s 0.1" in table.markdown()


def test_a_smoke_run_judges_nothing_and_says_so(chosen: Race) -> None:
    table = make(chosen.scaled(0.05))
    assert "met:" not in table.markdown()
    assert any("judges nothing" in note for note in table.notes())


def test_disturbances_and_failures_are_named(chosen: Race) -> None:
    table = make(chosen, line(2, {}, partial="a message was lost"))
    notes = table.notes()
    assert notes[0] == "Machine: cpu a processor, cores 2. Run time 1.5 min."
    assert any("in multiples of what is let pass: bulk on kafka 2.5 x." in note for note in notes)
    assert notes[-1] == "Failed: bulk on node, repeat 3: a message was lost"


@pytest.mark.parametrize(("late", "result"), [(2, "not measurable here"), (1, "met")])
def test_what_the_gate_refuses_mostly_is_not_judged(late: int, result: str) -> None:
    race = asked_for(parse_arguments(["--rows", "end-to-end/low"]))
    why = "the sender itself was late by 1.7 ms at p99"

    def low(repeat: int, p99_ms: float, *, is_late: bool) -> RepeatLine:
        return RepeatLine(
            cell={"workload": "end-to-end", "case": "low"},
            repeat=repeat,
            metrics={"end_to_end_p99_ms": p99_ms, "sending_memory_mb_peak": 47.0},
            gate={"end_to_end_p99_ms": why} if is_late else {},
        )

    ours = [low(repeat, 1.0, is_late=False) for repeat in range(3)]
    theirs = [low(repeat, 5.0, is_late=repeat < late) for repeat in range(3)]
    table = RaceTable(
        race=race, results={"node": results(*ours, version={}), "kafka": results(*theirs, version={})}, seconds=1.0
    )
    verdicts = table.markdown().split("|")
    assert any(f"{result}: p99 ms" in each and (why in each) == (late > 1) for each in verdicts)
    assert any("met: peak MB 47 <= 150" in each for each in verdicts)  # Of others it says nothing.
    assert not table.any_short()


def test_a_terminal_sees_the_same(chosen: Race) -> None:
    out = io.StringIO()
    Console(file=out, width=190).print(make(chosen).rich_table())
    assert "1.90 M" in out.getvalue()
    assert "met: CPU-s/GB 0.22 <= 0.5 x kafka" in out.getvalue()
