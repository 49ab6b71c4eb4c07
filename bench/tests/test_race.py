"""The race is consistent with itself and with the programs that run it."""

import pytest

from bench.run import asked_for, parse_arguments
from bench.table import JUDGED
from headrace.errors import ConfigError
from headrace.lab.programs import PROGRAMS
from headrace.lab.race import Race
from headrace.lab.results import UNITS


def names(race: Race) -> list[str]:
    return [name for name, _, _ in race.rows()]


def test_names_are_unique(race: Race) -> None:
    assert len(names(race)) == len(set(names(race)))


def test_every_requirement_is_about_a_known_metric_that_the_table_has(race: Race) -> None:
    asked = {requirement.metric for _, _, cell in race.rows() for requirement in cell.require}
    assert asked <= set(UNITS)
    assert asked <= JUDGED


def test_every_rival_races(race: Race) -> None:
    rivals = {requirement.rival for _, _, cell in race.rows() for requirement in cell.require}
    assert rivals == {None, *(target.name for target in race.targets[1:])}


def test_every_row_asks_for_something_and_has_a_title_of_its_own(race: Race) -> None:
    assert all(cell.require for _, _, cell in race.rows())
    titles = [cell.title for _, _, cell in race.rows()]
    assert len(titles) == len(set(titles))


def test_a_case_has_its_own_bounds_beside_those_of_all(race: Race) -> None:
    asked = {name: {each.metric: each.bound_text for each in cell.require} for name, _, cell in race.rows()}
    assert asked["single/acks-1"] == {"rate_per_s": ">= 4 x kafka", "sending_memory_mb_peak": "<= 150"}
    assert asked["single/acks-1-x8"] == {"rate_per_s": ">= 1 x kafka", "sending_memory_mb_peak": "<= 150"}


def test_a_row_brings_the_row_whose_rate_it_needs() -> None:
    assert names(asked_for(parse_arguments(["--rows", "open-loop/80"]))) == ["end-to-end/max", "open-loop/80"]


def test_patterns_choose_workloads_and_rows() -> None:
    assert names(asked_for(parse_arguments(["--rows", "long,java/*/all"]))) == [
        "java/16384/all",
        "java/65536/all",
        "long",
    ]


def test_an_unknown_row_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no such row: nothing; there are start, bulk"):
        asked_for(parse_arguments(["--rows", "nothing"]))


def test_the_smoke_run_reaches_every_program_and_is_small(race: Race) -> None:
    smoke = asked_for(parse_arguments(["--quick"]))
    engines = {engine for _, _, cell in smoke.rows() for engine in (cell.load.engine, cell.load.consumer_engine)}
    assert engines >= set(PROGRAMS)
    assert {workload.repeats for workload in smoke.workloads} == {1}
    assert {workload.attempts for workload in smoke.workloads} == {1}
    (bulk,) = (cell for name, _, cell in smoke.rows() if name == "bulk")
    assert bulk.load.messages == 400_000


def test_a_disturbed_turn_is_made_again_unless_said_otherwise(race: Race) -> None:
    assert {workload.attempts for workload in race.workloads} == {3}
    assert {each.attempts for each in asked_for(parse_arguments(["--attempts", "1"])).workloads} == {1}


def test_alone_a_target_is_its_own_rival() -> None:
    assert asked_for(parse_arguments(["--only", "node"])).rival.name == "node"
