"""Dead letters decoded once more from what the table keeps of them: rows where they are some now, and once."""

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from headrace.pipeline.decoding import RawDecoder
from headrace.pipeline.json_decoding import JsonDecoder
from headrace.pipeline.lake_table import LakeTable, LostRace
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.load import Load, Loaded
from headrace.pipeline.location import parse_location
from headrace.pipeline.plan import OffsetsExpired
from headrace.pipeline.replacing import NotLoaded
from headrace.pipeline.tasks import RunTasks, TaskOutcome
from headrace.pipeline.upkeep import compact
from headrace.testing import Broker
from tests.pipeline.loading import STRANGE_MS, create_clicks, load, request, rows_of, run_here, write_clicks
from tests.pipeline.test_load_replay import clicks, replay
from tests.pipeline.topics import cut, delete

MOMENT_MS = 1_763_208_000_000
PAGE = {"page": "string"}
COUNT = {"page": "string", "count": "long"}


def write(broker: Broker, *values: str, partition: int = 0) -> None:
    for value in values:
        broker.produce("clicks", value, key="k", partition=partition, timestamp_ms=MOMENT_MS)


def declared(fields: dict[str, str]) -> dict[str, Any]:
    return {"decoder": JsonDecoder(json.dumps(fields)), "kind": "json"}


def retry(broker: Broker, lake: Path, fields: dict[str, str] | None = None, *, run: RunTasks = run_here) -> Loaded:
    more = {} if fields is None else declared(fields)
    with Load(request(broker.bootstrap, lake, **more), run=run) as work:
        return work.retry()


def rows(lake: Path, *columns: str) -> list[tuple[Any, ...]]:
    names = ["partition", "offset", *columns]
    return sorted(tuple(row.values()) for row in DeltaTable(lake).to_pyarrow_table(columns=names).to_pylist())


def dead(lake: Path) -> list[tuple[int, int, str]]:
    return rows(lake / "_dead_letters", "reason")


def fill(broker: Broker, lake: Path) -> None:
    """Two partitions of JSON, loaded by a schema that lacks a field; then the topic has lost all of it."""
    broker.create_topic("clicks", 2)
    write(broker, '{"page": "/"}', '{"page": "/a", "count": 1}', '{"page": 7, "count": 2}', '{"page": "/b"}')
    write(broker, '{"page": "/c", "count": 3}', partition=1)
    assert load(broker, lake, **declared(PAGE)).dead_letters == 3
    for partition, end in ((0, 4), (1, 1)):
        cut(broker.bootstrap, "clicks", end, partition=partition)


RIGHT_ROWS = [(0, 0, "/", None), (0, 1, "/a", 1), (0, 3, "/b", None), (1, 0, "/c", 3)]
RIGHT_DEAD = [(0, 2, "field page is 7, not a string")]


def test_what_decodes_now_becomes_a_row_and_what_does_not_says_why_anew(broker: Broker, lake: Path) -> None:
    fill(broker, lake)
    before = rows_of_source(lake, "_dead_letters", 0, 1)
    loaded = retry(broker, lake, COUNT)
    assert (loaded.rows, loaded.dead_letters, loaded.commits) == (2, 1, 1)
    assert (rows(lake, "page", "count"), dead(lake)) == (RIGHT_ROWS, RIGHT_DEAD)
    assert rows_of_source(lake, "", 0, 1) == before
    told = read_ledger(parse_location(lake)).to_pylist()[-2:]
    assert [(one["kind"], one["partition"], one["first"], one["end"], one["rows"]) for one in told] == [
        ("retry", 0, 1, 3, 1),
        ("retry", 1, 0, 1, 1),
    ]
    assert load(broker, lake, **declared(COUNT)).commits == 0
    again = retry(broker, lake, COUNT)
    assert (again.rows, again.dead_letters) == (0, 1)
    assert (rows(lake, "page", "count"), dead(lake)) == (RIGHT_ROWS, RIGHT_DEAD)


def rows_of_source(lake: Path, table: str, partition: int, offset: int) -> list[dict[str, Any]]:
    """What is told of the record beside its value."""
    names = ["topic", "key", "headers", "timestamp_type", "cluster_id", "topic_id"]
    where = (pc.field("partition") == partition) & (pc.field("offset") == offset)
    found: list[dict[str, Any]] = DeltaTable(lake / table).to_pyarrow_table(columns=names, filters=where).to_pylist()
    assert found[0]["key"] == b"k"
    return found


@pytest.mark.parametrize("step", ["commit", "settle"])
def test_one_that_is_killed_between_its_commits_is_run_again(
    broker: Broker, lake: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fill(broker, lake)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as killed:
        killed.setattr(LakeTable, step, die)
        with pytest.raises(RuntimeError, match="killed"):
            retry(broker, lake, COUNT)
    held = {row[:2] for row in (*rows(lake), *dead(lake))}
    assert held == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)}
    retry(broker, lake, COUNT)
    assert (rows(lake, "page", "count"), dead(lake)) == (RIGHT_ROWS, RIGHT_DEAD)
    assert load(broker, lake, **declared(COUNT)).commits == 0


def test_one_beside_a_load_loses_the_race_or_wins_it(broker: Broker, lake: Path) -> None:
    fill(broker, lake)
    write(broker, '{"page": "/d"}')

    def overtaken(tasks: Any, tell: Any) -> list[TaskOutcome]:
        load(broker, lake, **declared(COUNT))
        return run_here(tasks, tell)

    with pytest.raises(LostRace, match="another load of topic 'clicks' was first"):
        retry(broker, lake, COUNT, run=overtaken)
    retry(broker, lake, COUNT)
    assert (rows(lake, "page", "count"), dead(lake)) == (
        [*RIGHT_ROWS[:3], (0, 4, "/d", None), RIGHT_ROWS[3]],
        RIGHT_DEAD,
    )


def test_tables_that_were_compacted_hold_the_same_dead_letters(broker: Broker, lake: Path) -> None:
    fill(broker, lake)
    write(broker, '{"count": "many"}')
    load(broker, lake, **declared(PAGE))
    compact(parse_location(lake))
    retry(broker, lake, COUNT)
    assert rows(lake, "page", "count") == RIGHT_ROWS
    assert dead(lake) == [*RIGHT_DEAD, (0, 4, 'field count is "many", not a long')]


def test_a_time_that_no_table_can_hold_stays_a_dead_letter(broker: Broker, lake: Path) -> None:
    create_clicks(broker)
    broker.produce("clicks", "v", timestamp_ms=STRANGE_MS)
    load(broker, lake)
    before = dead(lake)
    assert retry(broker, lake).dead_letters == 1
    assert (rows(lake), dead(lake)) == ([], before)


def test_without_dead_letters_nothing_is_done(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10, partitions=1)
    with pytest.raises(NotLoaded, match="is no table yet"):
        retry(broker, lake)
    load(broker, lake, decoder=RawDecoder())
    version = DeltaTable(lake).version()
    assert retry(broker, lake).commits == 0
    assert DeltaTable(lake).version() == version
    assert sum(rows_of(lake).values()) == 10
    delete(broker.bootstrap, "clicks")
    write_clicks(broker, 10, partitions=1)
    with pytest.raises(NotLoaded, match="holds nothing of topic 'clicks' as it is now"):
        retry(broker, lake)


def test_a_range_that_the_topic_has_no_longer_is_refused_and_says_what_to_do(broker: Broker, lake: Path) -> None:
    fill(broker, lake)
    with pytest.raises(OffsetsExpired, match="1-3 cannot be read once more and replaced") as refused:
        replay(broker, lake, clicks(0, 1, 3), **declared(COUNT))
    assert "--replay dead-letters makes rows of what the table keeps" in str(refused.value)
