"""Loads and replays killed between the commits of two tables: a record is a row or a dead letter in the end, and once.

The schema may be put right before the next try: what a record is then, it is in both tables.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipeline.json_decoding import JsonDecoder
from headrace.pipeline.lake_table import LakeTable, LostRace
from headrace.pipeline.load import Loaded
from headrace.pipeline.location import parse_location
from headrace.pipeline.tasks import TaskOutcome
from headrace.pipeline.upkeep import compact
from headrace.testing import Broker
from tests.pipeline.loading import STRANGE_MS, create_clicks, load, run_here
from tests.pipeline.test_load_replay import clicks, replay

MOMENT_MS = 1_763_208_000_000
PAGE = {"page": "string"}
COUNT = {"page": "string", "count": "long"}


def write(broker: Broker, *values: str) -> None:
    for value in values:
        broker.produce("clicks", value, timestamp_ms=MOMENT_MS)


def declared(fields: dict[str, Any]) -> dict[str, Any]:
    return {"decoder": JsonDecoder(json.dumps(fields)), "kind": "json"}


def json_load(broker: Broker, lake: Path, fields: dict[str, Any], **more: Any) -> Loaded:
    return load(broker, lake, **declared(fields), **more)


def json_replay(broker: Broker, lake: Path, fields: dict[str, Any], first: int, end: int) -> Loaded:
    return replay(broker, lake, clicks(0, first, end), **declared(fields))


def rows(lake: Path) -> list[int]:
    found: list[int] = DeltaTable(lake).to_pyarrow_table(columns=["offset"])["offset"].to_pylist()
    return sorted(found)


def dead_letters(lake: Path) -> list[tuple[int, str]]:
    found = DeltaTable(lake / "_dead_letters").to_pyarrow_table(columns=["offset", "reason"]).to_pylist()
    return sorted((row["offset"], row["reason"]) for row in found)


def dead(lake: Path) -> list[int]:
    return [offset for offset, _ in dead_letters(lake)]


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Die where a method of the table is called."""

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    @contextmanager
    def killed_before(step: str) -> Iterator[None]:
        with monkeypatch.context() as changed:
            changed.setattr(LakeTable, step, die)
            yield

    return killed_before


Killed = Callable[[str], Any]


# --- Loads --------------------------------------------------------------------------------------------------------


def test_dead_letters_are_written_once_where_a_load_died_between_them_and_its_rows(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    create_clicks(broker)
    broker.produce("clicks", "v", timestamp_ms=STRANGE_MS)
    for _ in range(2):
        with killed("commit"), pytest.raises(RuntimeError, match="killed"):
            load(broker, lake)
    broker.produce("clicks", "v", timestamp_ms=STRANGE_MS + 1)
    assert load(broker, lake).dead_letters == 2
    assert dead(lake) == [0, 1]
    assert load(broker, lake).commits == 0


def test_a_record_that_became_a_row_after_such_a_death_is_no_dead_letter(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    write(broker, '{"page": "/"}', '{"page": "/", "count": 3}', "oops")
    with killed("commit"), pytest.raises(RuntimeError, match="killed"):
        json_load(broker, lake, PAGE)
    assert (rows(lake), dead(lake)) == ([], [1, 2])
    loaded = json_load(broker, lake, COUNT)
    assert (loaded.rows, loaded.dead_letters) == (2, 1)
    assert (rows(lake), dead(lake)) == ([0, 1], [2])
    assert json_load(broker, lake, COUNT).commits == 0


def test_a_record_that_became_a_dead_letter_after_such_a_death_is_one(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    write(broker, '{"page": "/", "count": []}', "oops")
    with killed("commit"), pytest.raises(RuntimeError, match="killed"):
        json_load(broker, lake, PAGE)  # An empty list that is not declared is nothing.
    assert dead(lake) == [1]
    json_load(broker, lake, COUNT)
    assert (rows(lake), dead(lake)) == ([], [0, 1])


def test_dead_letters_of_records_that_were_lost_meanwhile_go(broker: Broker, lake: Path, killed: Killed) -> None:
    """The log was cut, and has other records at their offsets."""
    write(broker, '{"page": "/"}')
    with broker.snapshot() as before:
        write(broker, "oops", "oops")
        with killed("commit"), pytest.raises(RuntimeError, match="killed"):
            json_load(broker, lake, PAGE)
        broker.restore(before)
    write(broker, '{"page": "/a"}', '{"page": "/b"}', '{"page": "/c"}')
    json_load(broker, lake, PAGE)
    assert (rows(lake), dead(lake)) == ([0, 1, 2, 3], [])


def test_a_backlog_in_smaller_steps_after_such_a_death_is_whole_in_the_end(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    write(broker, *(["oops", '{"page": "/"}'] * 10))
    with killed("commit"), pytest.raises(RuntimeError, match="killed"):
        json_load(broker, lake, PAGE)
    with killed("settle"), pytest.raises(RuntimeError, match="killed"):
        json_load(broker, lake, PAGE, offsets_per_commit=3)
    assert json_load(broker, lake, PAGE, offsets_per_commit=3).offsets == 17
    assert (rows(lake), dead(lake)) == ([*range(1, 20, 2)], [*range(0, 20, 2)])
    assert json_load(broker, lake, PAGE).commits == 0


def test_a_load_that_finds_one_half_done_takes_nothing_that_the_other_goes_on_to_commit(
    broker: Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is not dead but slow, and the second has another schema and smaller steps."""
    write(broker, "oops", '{"page": "/", "count": 3}', "oops", '{"page": "/"}')
    commit, seconds = LakeTable.commit, []

    def overtaken(table: LakeTable, *words: Any, **more: Any) -> None:
        if not seconds:
            seconds.append(table)
            json_load(broker, lake, COUNT, offsets_per_commit=2)
        commit(table, *words, **more)

    monkeypatch.setattr(LakeTable, "commit", overtaken)
    with pytest.raises(LostRace, match="another load of topic 'clicks' was first"):
        json_load(broker, lake, PAGE)
    assert (rows(lake), dead(lake)) == ([1, 3], [0, 2])


def test_where_the_slow_one_is_first_after_all_what_the_other_began_is_settled(
    broker: Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(broker, "oops", '{"page": "/", "count": 3}', '{"page": "/", "count": []}')
    commit, lost = LakeTable.commit, []

    def slowly(table: LakeTable, *words: Any, **more: Any) -> None:
        if lost:
            commit(table, *words, **more)
            return

        def run(tasks: Any, tell: Any) -> list[TaskOutcome]:
            commit(table, *words, **more)
            return run_here(tasks, tell)

        lost.append(True)
        with pytest.raises(LostRace):
            json_load(broker, lake, COUNT, run=run)

    with monkeypatch.context() as changed:
        changed.setattr(LakeTable, "commit", slowly)
        json_load(broker, lake, COUNT)
    # The other's dead letters were there as well, until the first looked whether there is more to do.
    assert (rows(lake), dead(lake)) == ([1], [0, 2])
    assert json_load(broker, lake, COUNT).commits == 0


# --- Replays ------------------------------------------------------------------------------------------------------


def fill_wrongly(broker: Broker, lake: Path) -> None:
    """Of four records, one becomes a dead letter by the right schema, and one a row."""
    write(broker, '{"page": "/"}', '{"page": "/", "count": 3}', '{"page": "/", "count": []}', "oops")
    json_load(broker, lake, PAGE)
    assert (rows(lake), dead(lake)) == ([0, 2], [1, 3])


def test_a_replay_killed_before_its_rows_were_committed_has_changed_nothing_once_a_load_came_by(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    fill_wrongly(broker, lake)
    with killed("commit"), pytest.raises(RuntimeError, match="killed"):
        json_replay(broker, lake, COUNT, 0, 4)
    assert set(rows(lake)) | set(dead(lake)) == {0, 1, 2, 3}
    json_load(broker, lake, COUNT)
    assert (rows(lake), dead(lake)) == ([0, 2], [1, 3])
    assert json_load(broker, lake, COUNT).commits == 0
    json_replay(broker, lake, COUNT, 0, 4)
    assert (rows(lake), dead(lake)) == ([0, 1], [2, 3])


def test_a_replay_killed_after_its_rows_were_committed_is_finished_by_the_next_load(
    broker: Broker, lake: Path, killed: Killed
) -> None:
    fill_wrongly(broker, lake)
    with killed("settle"), pytest.raises(RuntimeError, match="killed"):
        json_replay(broker, lake, COUNT, 0, 4)
    assert (rows(lake), set(dead(lake))) == ([0, 1], {1, 2, 3})
    write(broker, '{"page": "/more"}', "more")
    json_load(broker, lake, COUNT)
    assert (rows(lake), dead(lake)) == ([0, 1, 4], [2, 3, 5])
    assert json_load(broker, lake, COUNT).commits == 0


@pytest.mark.parametrize("step", ["commit", "settle"])
def test_a_replay_that_was_killed_is_run_again_or_another_one(
    broker: Broker, lake: Path, killed: Killed, step: str
) -> None:
    fill_wrongly(broker, lake)
    with killed(step), pytest.raises(RuntimeError, match="killed"):
        json_replay(broker, lake, COUNT, 0, 3)
    json_replay(broker, lake, COUNT, 3, 4)
    assert (rows(lake), dead(lake)) == (([0, 2], [1, 3]) if step == "commit" else ([0, 1], [2, 3]))
    json_replay(broker, lake, COUNT, 0, 3)
    assert (rows(lake), dead(lake)) == ([0, 1], [2, 3])
    assert json_load(broker, lake, COUNT).commits == 0


def test_a_compaction_of_dead_letters_beside_a_replay_costs_none_of_them(
    broker: Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts the fresh ones into one file with those that they replace."""
    fill_wrongly(broker, lake)
    settle = LakeTable.settle

    def meanwhile(table: LakeTable, *words: Any, **more: Any) -> None:
        compact(parse_location(lake))
        settle(table, *words, **more)

    monkeypatch.setattr(LakeTable, "settle", meanwhile)
    json_replay(broker, lake, COUNT, 0, 4)
    assert (rows(lake), dead(lake)) == ([0, 1], [2, 3])
    assert json_load(broker, lake, COUNT).commits == 0


def test_a_replay_that_lost_a_race_is_no_hindrance(broker: Broker, lake: Path) -> None:
    fill_wrongly(broker, lake)

    def overtaken(tasks: Any, tell: Any) -> list[TaskOutcome]:
        DeltaTable(lake).delete("offset = 0")
        return run_here(tasks, tell)

    with pytest.raises(LostRace, match="no row was committed"):
        replay(broker, lake, clicks(0, 0, 4), run=overtaken, **declared(COUNT))
    json_load(broker, lake, COUNT)
    assert (rows(lake), dead(lake)) == ([2], [1, 3])
