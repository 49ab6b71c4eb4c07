"""What a race asks, and when a turn of it was made often enough."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.lab.load import Share
from headrace.lab.race import Race, read_race
from headrace.lab.racing import suffices
from headrace.lab.results import RepeatLine

FILES = {
    "race.yaml": "{targets: [node, kafka], warm_up: [warm-up], workloads: [acks, max, share], smoke: [acks/1, max]}",
    "workloads/warm-up.yaml": "{rate: 1K, messages: 1000}",
    "workloads/acks.yaml": "{rate: 1K, duration: 100s, warm_up: 10s, repeats: 2, sweep: {acks: [0, 1]}}",
    "workloads/max.yaml": "{rate: max, messages: 1000}",
    "workloads/share.yaml": "{rate: 50% of max, duration: 10s}",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "workloads").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "race.yaml"


@pytest.fixture
def race(path: Path) -> Race:
    return read_race(path)


def names(race: Race) -> list[str]:
    return [name for name, _, _ in race.rows()]


def test_rows_are_the_cells_of_all_workloads(race: Race) -> None:
    assert names(race) == ["acks/0", "acks/1", "max", "share"]
    assert race.rival.name == "kafka"


def test_targets_alternate(race: Race) -> None:
    turns = list(map(str, race.turns()))
    assert turns[:4] == [
        "acks on node, repeat 1",
        "acks on kafka, repeat 1",
        "acks on node, repeat 2",
        "acks on kafka, repeat 2",
    ]
    assert len(turns) == 4 + 6 + 6


def test_a_choice_of_rows_brings_those_whose_rate_they_need(race: Race) -> None:
    assert names(race.chosen(["share"])) == ["max", "share"]
    assert names(race.chosen(["acks"])) == ["acks/0", "acks/1"]
    assert names(race.chosen(["*/1"])) == ["acks/1"]
    with pytest.raises(ConfigError, match="no such row: acks/2; there are acks/0"):
        race.chosen(["acks/2"])


def test_what_results_are_of_is_not_which_rows_or_how_often(race: Race) -> None:
    assert race.chosen(["max"]).repeated(repeats=9, attempts=3).to_json() == race.to_json()
    assert race.scaled(0.5).to_json() != race.to_json()


def test_less_work_is_fewer_messages_and_less_time(race: Race) -> None:
    acks, _, fast, _ = (cell.load for _, _, cell in race.scaled(0.01).rows())
    assert (acks.duration, acks.warm_up, fast.messages) == (1.0, 1.0, 10)
    assert race.scaled(0.01).warm_up[0].cells[0].load.messages == 10


def test_repeats_and_attempts_are_changed_where_they_are_said(race: Race) -> None:
    changed = race.repeated(repeats=7, attempts=None)
    assert {(each.repeats, each.attempts) for each in changed.workloads} == {(7, 1)}


def test_a_share_is_of_a_row_that_is_there(path: Path) -> None:
    (share,) = (cell.load.rate for name, _, cell in read_race(path).rows() if name == "share")
    assert share == Share(50.0, "max")
    (path.parent / "workloads" / "share.yaml").write_text("{rate: 50% of nothing, duration: 10s}")
    with pytest.raises(ConfigError, match="there is no row 'nothing'"):
        read_race(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{targets: [node], workloads: [acks], smoke: [what]}", "there is no row 'what'"),
        ("{targets: [node]}", "workloads is missing"),
        ("{targets: node, workloads: [acks]}", "targets: 'node' is not a list"),
        ("{targets: [node], workloads: [lost]}", "lost.yaml"),
        ("{target: [node], workloads: [acks]}", "there is no key 'target'"),
    ],
)
def test_what_is_wrong_is_told(path: Path, text: str, why: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError, match=why):
        read_race(path)


def test_a_disturbed_turn_is_made_again_as_often_as_may_be() -> None:
    def attempt(name: str, disturbance: float, partial: str | None = None) -> RepeatLine:
        return RepeatLine(cell={"workload": name}, repeat=0, metrics={}, disturbance=disturbance, partial=partial)

    cells = [{"workload": "a"}, {"workload": "b"}]
    assert not suffices([], cells, attempts_max=3)
    once = [attempt("a", 0.0), attempt("b", 5.0)]
    assert not suffices(once, cells, attempts_max=3)
    assert suffices(once, cells, attempts_max=1)
    assert suffices([*once, attempt("a", 5.0), attempt("b", 0.0)], cells, attempts_max=3)
    assert suffices([attempt(each, 5.0) for each in "ababab"], cells, attempts_max=3)
    assert not suffices([attempt("a", 0.0)], cells, attempts_max=3)
    assert not suffices([attempt("a", 0.0), attempt("b", 0.0, "failed")], cells, attempts_max=1)
