"""What the options of `headrace load` and `headrace lake` do, by the command line, with tasks that run in this process.

What they mean is tested where it is done; here, that each word reaches it.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.location import parse_location
from headrace.pipeline.tasks import Task, TaskOutcome
from headrace.testing import Broker
from tests.clients.command_line import Headrace
from tests.pipeline.loading import check_ledger, records_of, rows_of, run_here, write_clicks
from tests.pipeline.object_store import BUCKET, ObjectStore, object_store
from tests.pipeline.topics import cut, delete, fill

Load = Callable[..., dict[str, Any]]


class TasksHere:
    """In the place of Spark's."""

    def __init__(self, begin: Callable[[], object]) -> None:
        pass

    def __call__(self, tasks: Sequence[Task], tell: Callable[[int], None]) -> list[TaskOutcome]:
        return run_here(tasks, tell)


@pytest.fixture
def headrace(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Headrace:
    monkeypatch.setattr("headrace.pipeline.spark_tasks.SparkTasks", TasksHere)
    return Headrace(broker.bootstrap)


@pytest.fixture
def load(headrace: Headrace, lake: Path) -> Load:
    """A load of clicks, and what it says of itself."""

    def run(*words: str | Path, into: str | Path = lake) -> dict[str, Any]:
        found: dict[str, Any] = headrace.json("load", "clicks", "--once", "--lake", into, *words)
        return found

    return run


def files_of(lake: Path) -> set[Path]:
    return set(lake.glob("event_date=*/**/*.parquet"))


def live_files(lake: Path) -> set[Path]:
    return {Path(uri) for uri in DeltaTable(lake).file_uris()}


# --- Loading ----------------------------------------------------------------------------------------------------


def test_replay_puts_ranges_in_the_place_of_their_rows(broker: Broker, lake: Path, load: Load) -> None:
    write_clicks(broker, 300)
    load()
    DeltaTable(lake).delete('partition = 0 and "offset" < 20')
    told = load("--replay", "clicks/0:5-15", "--replay", "clicks/1:0-3")
    assert (told["rows"], told["commits"]) == (13, 1)
    assert sum(rows_of(lake).values()) == 290
    load("--replay", "clicks/0:0-20")
    assert rows_of(lake) == records_of(broker)
    kinds = [
        (row["kind"], row["partition"], row["first"], row["end"])
        for row in read_ledger(parse_location(lake)).to_pylist()
    ]
    assert kinds[-3:] == [("replay", 0, 5, 15), ("replay", 1, 0, 3), ("replay", 0, 0, 20)]


def test_replay_makes_rows_of_dead_letters(broker: Broker, lake: Path, load: Load, tmp_path: Path) -> None:
    broker.create_topic("clicks")
    fill(broker.bootstrap, "clicks", ['{"page": "/"}', '{"page": "/", "count": 3}', "oops"])
    schema = tmp_path / "schema.json"
    told = []
    for text, words in (
        ('{"page": "string"}', ()),
        ('{"page": "string", "count": "long"}', ("--replay", "dead-letters")),
    ):
        schema.write_text(text)
        told.append(load("--format", "json", "--schema", schema, *words))
        cut(broker.bootstrap, "clicks", 3)
    assert [(each["rows"], each["dead_letters"]) for each in told] == [(1, 2), (1, 1)]
    assert sorted(DeltaTable(lake).to_pyarrow_table()["offset"].to_pylist()) == [0, 1]
    assert DeltaTable(lake / "_dead_letters").to_pyarrow_table()["offset"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("text", "words"),
    [("clicks/0", "is not"), ("views/0:1-2", "of which topic? There are clicks"), ("clicks/0:2-2", "is not behind")],
)
def test_a_range_that_is_none_is_told_of(headrace: Headrace, lake: Path, text: str, words: str) -> None:
    told = headrace("load", "clicks", "--lake", lake, "--replay", text, status=1)
    assert words in told.stderr
    assert not lake.exists()


def test_transform_finds_a_function_where_one_works(
    broker: Broker, headrace: Headrace, lake: Path, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "sizes_of_clicks", raising=False)
    (tmp_path / "sizes_of_clicks.py").write_text(
        "import pyarrow.compute as pc\n"
        "def sized(rows):\n"
        "    return rows.drop_columns(['value']).append_column('size', pc.binary_length(rows['value']))\n"
    )
    broker.create_topic("clicks")
    fill(broker.bootstrap, "clicks", ["a", "abc"])
    assert load("--transform", "sizes_of_clicks:sized")["rows"] == 2
    table = DeltaTable(lake).to_pyarrow_table()
    assert sorted(table["size"].to_pylist()) == [1, 3]
    assert "value" not in table.schema.names
    told = headrace("load", "clicks", "--once", "--lake", lake, status=1)  # The table remembers.
    assert "was made with --format raw --transform sizes_of_clicks:sized, not raw" in told.stderr
    told = headrace("load", "clicks", "--once", "--lake", lake, "--transform", "sizes_of_clicks:lengths", status=1)
    assert "there is no function 'lengths' in sizes_of_clicks" in told.stderr


def test_a_schema_that_was_suggested_loads_what_it_was_made_of(
    broker: Broker, headrace: Headrace, lake: Path, load: Load, tmp_path: Path
) -> None:
    values = [{"page": "/", "count": 1}, {"page": "/b", "user": {"id": 7}}]
    broker.create_topic("clicks")
    fill(broker.bootstrap, "clicks", map(json.dumps, values))
    told = headrace("load", "clicks", "--suggest-schema")
    assert json.loads(told.stdout) == {"page": "string", "count": "long", "user": {"id": "long"}}
    assert "of 2 records" in told.stderr
    assert not lake.exists()
    (tmp_path / "schema.json").write_text(told.stdout)
    loaded = load("--format", "json", "--schema", tmp_path / "schema.json")
    assert (loaded["rows"], loaded["dead_letters"]) == (2, 0)
    rows = DeltaTable(lake).to_pyarrow_table(columns=["page", "count", "user"]).sort_by("page").to_pylist()
    assert rows == [{"page": "/", "count": 1, "user": None}, {"page": "/b", "count": None, "user": {"id": 7}}]


def test_a_topic_that_was_made_anew_is_loaded_where_that_is_wanted(
    broker: Broker, headrace: Headrace, lake: Path, load: Load
) -> None:
    write_clicks(broker, 30, partitions=1)
    load()
    delete(broker.bootstrap, "clicks")
    write_clicks(broker, 20, partitions=1)
    assert "--accept-new-topic" in headrace("load", "clicks", "--once", "--lake", lake, status=1).stderr
    assert load("--accept-new-topic")["rows"] == 20
    assert len(set(DeltaTable(lake).to_pyarrow_table()["topic_id"].to_pylist())) == 2
    check_ledger(lake)


def test_what_is_missing_is_passed_over_where_that_is_wanted(
    broker: Broker, headrace: Headrace, lake: Path, load: Load
) -> None:
    write_clicks(broker, 100, partitions=1)
    load()
    write_clicks(broker, 40)
    cut(broker.bootstrap, "clicks", 125)
    assert (
        "--missing skip" in headrace("load", "clicks", "--once", "--lake", lake, "--missing", "error", status=1).stderr
    )
    told = headrace("load", "clicks", "--once", "--lake", lake, "--missing", "skip")
    assert "15 rows" in told.stderr
    assert "25 offsets were gone already" in told.stderr
    assert read_ledger(parse_location(lake)).to_pylist()[-1]["missing"] == 25


def test_options_open_an_object_store(broker: Broker, headrace: Headrace, load: Load) -> None:
    lake = f"s3://{BUCKET}/clicks"

    def data_files(store: ObjectStore) -> set[str]:
        found = store.keys()
        return {key for key in found if key.startswith("clicks/event_date=")}

    with object_store() as store:
        words = [word for name, value in store.options.items() for word in ("--lake-option", f"{name}={value}")]
        for _ in range(2):
            write_clicks(broker, 50, partitions=1, spread_s=1000)
            load(*words, into=lake)
        before = data_files(store)
        headrace("lake", "compact", lake, *words)
        headrace("lake", "vacuum", lake, "--older-than", "0h", *words)
        after = data_files(store)
        assert len(after) < len(before)
        assert not after & before
        assert DeltaTable(lake, storage_options=store.options).count() == 100
    told = headrace("load", "clicks", "--lake", lake, "--lake-option", "AWS_REGION", status=1)
    assert "--lake-option 'AWS_REGION' is not KEY=VALUE" in told.stderr


# --- Upkeep -----------------------------------------------------------------------------------------------------


def test_a_table_is_compacted_and_vacuumed_and_loads_go_on(
    broker: Broker, headrace: Headrace, lake: Path, load: Load
) -> None:
    write_clicks(broker, 400)
    load("--commit-offsets", "100")
    small = files_of(lake)
    told = headrace("lake", "compact", lake)
    assert told.stderr.startswith(f"{lake}: ")
    assert " files became " in told.stderr
    large = live_files(lake)
    assert len(large) < len(small)
    assert headrace("lake", "vacuum", lake).stdout == ""  # Older versions can be read for a week.
    would_go = headrace("lake", "vacuum", lake, "--older-than", "0h", "--dry-run")
    assert small <= {Path(line) for line in would_go.stdout.splitlines()}
    assert "files would go" in would_go.stderr
    assert files_of(lake) == small | large
    gone = headrace("lake", "vacuum", lake, "--older-than", "0h")
    assert gone.stdout == would_go.stdout
    assert files_of(lake) == large
    write_clicks(broker, 50)
    assert load()["rows"] == 50
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_orphans_go_when_they_are_old(broker: Broker, headrace: Headrace, lake: Path, load: Load) -> None:
    write_clicks(broker, 10)
    load()
    alive = live_files(lake)
    orphan = next(iter(alive)).with_name("left-by-a-killed-load.parquet")
    orphan.write_bytes(next(iter(alive)).read_bytes())
    long_ago_s = time.time() - 25 * 3600
    os.utime(orphan, (long_ago_s, long_ago_s))
    headrace("lake", "vacuum", lake, "--older-than", "24h")
    assert orphan.exists()
    assert (
        "may be files of a load at work"
        in headrace("lake", "vacuum", lake, "--older-than", "1h", "--orphans", status=1).stderr
    )
    told = headrace("lake", "vacuum", lake, "--older-than", "24h", "--orphans")
    assert told.stdout.splitlines() == [str(orphan)]
    assert files_of(lake) == alive


@pytest.mark.parametrize("words", [("compact",), ("vacuum", "--orphans")])
def test_what_is_no_table_is_not_looked_after(headrace: Headrace, tmp_path: Path, words: tuple[str, ...]) -> None:
    told = headrace("lake", words[0], tmp_path, *words[1:], status=1)
    assert told.stderr == f"headrace: {tmp_path} is no Delta table\n"
