"""Ranges loaded once more, and tables compacted and vacuumed: rows and offsets stay what they have to be."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.json_decoding import JsonDecoder
from headrace.pipeline.lake_table import SchemaRefused
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.load import Load, Loaded
from headrace.pipeline.location import parse_location
from headrace.pipeline.plan import LogDiverged
from headrace.pipeline.replacing import NotLoaded
from headrace.pipeline.splitting import OffsetRange
from headrace.pipeline.tasks import TaskFailed, TaskOutcome
from headrace.pipeline.upkeep import compact, vacuum
from headrace.testing import Broker
from headrace.wire.errors import Unavailable
from tests.pipeline.loading import check_ledger, load, records_of, request, rows_of, run_here, write_clicks


def clicks(partition: int, first: int, end: int) -> OffsetRange:
    return OffsetRange(TopicPartition(TopicName("clicks"), partition), first, end)


def replay(broker: Broker, lake: Path, *ranges: OffsetRange, **more: Any) -> Loaded:
    run = more.pop("run", run_here)
    with Load(request(broker.bootstrap, lake, **more), run=run) as work:
        return work.replay(ranges)


# --- Replay -----------------------------------------------------------------------------------------------------


def test_a_range_is_replaced_in_one_commit_and_everything_else_stays(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 3_000)
    load(broker, lake, offsets_per_commit=700)
    spoil(lake, "partition = 1 and offset >= 100 and offset < 400")
    before = DeltaTable(lake).version()
    loaded = replay(broker, lake, clicks(1, 90, 410))
    assert (loaded.rows, loaded.commits) == (320, 1)
    assert DeltaTable(lake).version() == before + 1
    assert rows_of(lake) == records_of(broker)
    assert load(broker, lake).commits == 0
    last = read_ledger(parse_location(lake)).to_pylist()[-1]
    assert (last["kind"], last["partition"], last["first"], last["end"], last["rows"]) == ("replay", 1, 90, 410, 320)


def spoil(lake: Path, where: str) -> None:
    """As a program with a mistake might have."""
    changed = DeltaTable(lake).update(updates={"topic_id": "topic_id", "value": "key"}, predicate=where)
    assert changed["num_updated_rows"] > 0


def test_a_replay_that_dies_before_its_commit_changed_nothing(
    broker: Broker, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_clicks(broker, 300)
    load(broker, lake)
    with monkeypatch.context() as killed:
        killed.setattr("headrace.pipeline.delta.Delta.try_commit", _die)
        with pytest.raises(RuntimeError, match="killed"):
            replay(broker, lake, clicks(0, 0, 50))
    assert rows_of(lake) == records_of(broker)
    replay(broker, lake, clicks(0, 0, 50))
    assert rows_of(lake) == records_of(broker)


def test_a_broker_that_restarts_while_tasks_run_is_waited_for(lake: Path) -> None:
    failed = 0
    with Broker() as broker:
        write_clicks(broker, 300)
        load(broker, lake)
        spoil(lake, "partition = 0 and offset < 50")

        def with_a_restart(tasks: Any, tell: Any) -> list[TaskOutcome]:
            nonlocal failed
            if failed:
                return run_here(tasks, tell)
            broker.kill()
            outcomes = run_here(tasks, tell)
            broker.start()
            failed = sum(isinstance(outcome, TaskFailed) for outcome in outcomes)
            return outcomes

        loaded = replay(broker, lake, clicks(0, 0, 60), run=with_a_restart)
        assert failed == 1
        assert (loaded.rows, loaded.commits) == (60, 1)
        assert rows_of(lake) == records_of(broker)


def test_a_broker_that_only_the_driver_can_reach_is_no_matter_of_time(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 300)
    load(broker, lake)
    before, tried = DeltaTable(lake).version(), 0

    def fail(tasks: Any, tell: Any) -> list[TaskOutcome]:
        nonlocal tried
        tried += 1
        return [TaskFailed(task.range, "nobody there", may_pass=True) for task in tasks]

    with pytest.raises(Unavailable, match="nobody there"):
        replay(broker, lake, clicks(0, 0, 60), run=fail)
    assert tried == 3
    assert DeltaTable(lake).version() == before


def _die(*_: object, **__: object) -> None:
    raise RuntimeError("killed")


def test_a_replay_beside_a_compaction_loses_the_race_and_no_row(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 900)
    load(broker, lake, offsets_per_commit=300)

    def compacted(tasks: Any, tell: Any) -> list[TaskOutcome]:
        compact(parse_location(lake))
        return run_here(tasks, tell)

    with pytest.raises(Exception, match="the table was changed meanwhile; no row was committed, run it again"):
        replay(broker, lake, clicks(0, 0, 50), run=compacted)
    assert rows_of(lake) == records_of(broker)


def test_a_log_that_lost_records_is_mended_by_a_replay(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 50, partitions=1)
    with broker.snapshot() as before:
        write_clicks(broker, 50, partitions=1)
        load(broker, lake)
        broker.restore(before)
    for _ in range(200):
        broker.produce("clicks", "another", timestamp_ms=1_763_208_000_000)
    with pytest.raises(LogDiverged, match="--replay clicks/0:50-100 replaces them"):
        load(broker, lake)
    replay(broker, lake, clicks(0, 50, 100))
    assert load(broker, lake).rows == 150
    assert rows_of(lake) == records_of(broker)


def test_without_a_table_there_is_nothing_to_replace(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    with pytest.raises(NotLoaded, match="is no table yet"):
        replay(broker, lake, clicks(0, 0, 1))
    assert not lake.exists()


# --- JSON -------------------------------------------------------------------------------------------------------


def json_load(broker: Broker, lake: Path, **declared: Any) -> Loaded:
    return load(broker, lake, decoder=JsonDecoder(json.dumps(declared)), kind="json")


def dead_letters(lake: Path) -> dict[int, str]:
    rows = DeltaTable(lake / "_dead_letters").to_pyarrow_table().to_pylist()
    assert len({row["offset"] for row in rows}) == len(rows)
    return {row["offset"]: row["reason"] for row in rows}


def test_a_wrong_schema_is_put_right_and_its_dead_letters_become_rows(broker: Broker, lake: Path) -> None:
    broker.create_topic("clicks")
    for value in ('{"page": "/"}', '{"page": "/", "count": 3}', "oops", '{"count": 4}'):
        broker.produce("clicks", value, timestamp_ms=1_763_208_000_000)
    loaded = json_load(broker, lake, page="string")
    assert (loaded.rows, loaded.dead_letters) == (1, 3)
    assert dead_letters(lake)[1] == "field count is not declared"
    declared = JsonDecoder(json.dumps({"page": "string", "count": "long"}))
    replayed = replay(broker, lake, clicks(0, 0, 4), decoder=declared, kind="json")
    assert (replayed.rows, replayed.dead_letters) == (3, 1)
    assert set(dead_letters(lake)) == {2}
    rows = DeltaTable(lake).to_pyarrow_table(columns=["offset", "page", "count"]).sort_by("offset").to_pylist()
    assert [tuple(row.values()) for row in rows] == [(0, "/", None), (1, "/", 3), (3, None, 4)]


def test_a_schema_grows_by_columns_that_may_be_null_and_in_no_other_way(broker: Broker, lake: Path) -> None:
    broker.produce("clicks", '{"page": "/"}', timestamp_ms=1_763_208_000_000)
    json_load(broker, lake, page="string")
    broker.produce("clicks", '{"page": "/", "count": 3}', timestamp_ms=1_763_208_000_000)
    json_load(broker, lake, page="string", count="long")
    rows = DeltaTable(lake).to_pyarrow_table(columns=["offset", "count"]).sort_by("offset").to_pylist()
    assert [row["count"] for row in rows] == [None, 3]
    version = DeltaTable(lake).version()
    with pytest.raises(SchemaRefused, match="column count is int64, and would be string"):
        json_load(broker, lake, page="string", count="string")
    with pytest.raises(SchemaRefused, match="has a column count, which is not declared any more"):
        json_load(broker, lake, page="string")
    with pytest.raises(SchemaRefused, match="was made with --format json, not raw"):
        load(broker, lake)
    assert DeltaTable(lake).version() == version


# --- Upkeep -----------------------------------------------------------------------------------------------------


def test_compaction_keeps_rows_and_offsets_and_loads_go_on(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 1_000)
    load(broker, lake, offsets_per_commit=100)
    compacted = compact(parse_location(lake))
    assert compacted.files_after < compacted.files_before
    assert len(DeltaTable(lake).file_uris()) == 2  # Two hours.
    assert rows_of(lake) == records_of(broker)
    assert load(broker, lake).commits == 0
    write_clicks(broker, 100)
    assert load(broker, lake).rows == 100
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_compaction_and_vacuum_beside_a_load_lose_nothing(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 1_000)
    load(broker, lake, offsets_per_commit=100)
    write_clicks(broker, 500)

    def kept_up(tasks: Any, tell: Any) -> list[TaskOutcome]:
        outcomes = run_here(tasks, tell)
        compact(parse_location(lake))
        vacuum(parse_location(lake), older_than=timedelta(0))
        vacuum(parse_location(lake), older_than=timedelta(hours=24), with_orphans=True)
        return outcomes

    load(broker, lake, run=kept_up)
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_vacuum_takes_what_killed_loads_left_once_it_is_old_enough(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 300)

    def run_twice(tasks: Any, tell: Any) -> list[TaskOutcome]:
        run_here(tasks, tell)
        return run_here(tasks, tell)

    load(broker, lake, run=run_twice)
    location = parse_location(lake)
    alive = {Path(uri) for uri in DeltaTable(lake).file_uris()}
    orphans = set(lake.glob("event_date=*/**/*.parquet")) - alive
    assert orphans
    assert vacuum(location, older_than=timedelta(hours=24), with_orphans=True) == []
    long_ago_s = time.time() - 25 * 3600
    for path in (*orphans, *alive):
        os.utime(path, (long_ago_s, long_ago_s))
    would_go = vacuum(location, older_than=timedelta(hours=24), with_orphans=True, dry_run=True)
    assert {Path(path) for path in would_go} == orphans
    assert all(path.exists() for path in orphans)
    vacuum(location, older_than=timedelta(hours=24), with_orphans=True)
    assert set(lake.glob("event_date=*/**/*.parquet")) == alive
    assert rows_of(lake) == records_of(broker)
    assert load(broker, lake).commits == 0
    check_ledger(lake)


def test_vacuum_takes_what_was_being_written_when_a_load_was_killed(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    load(broker, lake)
    whole, old, new = (lake / "event_date=2025-11-15" / name for name in ("a#b", "a.parquet#1", "b.parquet#12"))
    for path in (whole, old, new):
        path.write_bytes(b"PAR1")
    long_ago_s = time.time() - 25 * 3600
    for path in (whole, old):
        os.utime(path, (long_ago_s, long_ago_s))
    assert str(old) in vacuum(parse_location(lake), older_than=timedelta(hours=24), with_orphans=True, dry_run=True)
    assert old.exists()
    vacuum(parse_location(lake), older_than=timedelta(hours=24), with_orphans=True)
    assert (old.exists(), new.exists()) == (False, True)


def test_orphans_cannot_be_taken_from_under_a_load_at_work(lake: Path) -> None:
    with pytest.raises(ConfigError, match="orphans younger than 24 hours may be files of a load at work"):
        vacuum(parse_location(lake), older_than=timedelta(hours=23), with_orphans=True)
