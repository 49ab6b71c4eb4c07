"""`headrace load` by the command line, where something is wrong with what it is given.

Bad records are dead letters, and the load goes on. Whatever else is wrong is one line and status 1, and nothing has
changed anywhere.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from headrace.pipeline.json_decoding import JsonDecoder
from headrace.testing import Broker
from tests.clients.command_line import Headrace
from tests.pipeline.loading import load, rows_of, write_clicks
from tests.pipeline.topics import cut, delete

MOMENT_MS = 1_763_208_000_000

Refused = Callable[..., str]


def declare(path: Path, **fields: str) -> Path:
    path.write_text(json.dumps(fields))
    return path


def test_records_that_do_not_decode_are_dead_letters_and_the_load_goes_on(
    spark: SparkSession, broker: Broker, lake: Path, tmp_path: Path
) -> None:
    headrace = Headrace(broker.bootstrap)
    words = ("load", "clicks", "--once", "--lake", lake, "--format", "json")
    words += ("--schema", declare(tmp_path / "schema.json", page="string"))
    broker.create_topic("clicks")
    told = []
    for values in (['{"page": "/"}', "oops", '{"page": 7}', '{"page": "/b"}'], ["{}", b"\xff"], []):
        for value in values:
            broker.produce("clicks", value, timestamp_ms=MOMENT_MS)
        told.append(headrace.json(*words))
    assert [(each["rows"], each["dead_letters"], each["commits"]) for each in told] == [(2, 2, 1), (1, 1, 1), (0, 0, 0)]
    dead = DeltaTable(lake / "_dead_letters").to_pyarrow_table(columns=["partition", "offset", "value", "reason"])
    assert [tuple(row.values()) for row in dead.sort_by("offset").to_pylist()] == [
        (0, 1, b"oops", "the value is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (0, 2, b'{"page": 7}', "field page is 7, not a string"),
        (0, 5, b"\xff", "the value is not UTF-8: invalid start byte at byte 0"),
    ]


# --- What is refused --------------------------------------------------------------------------------------------


@pytest.fixture
def refused(broker: Broker, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """What a load says that is refused: one line. No file is another than before, and no Spark was begun for it."""

    def begin(**_: object) -> NoReturn:
        raise AssertionError("a Spark was begun")

    def run(*words: str | Path, into: Path = lake) -> str:
        before = tree(tmp_path)
        with monkeypatch.context() as without:
            without.setattr("headrace.pipeline.session.spark_session", begin)
            told = Headrace(broker.bootstrap)("load", "clicks", "--once", "--lake", into, *words, status=1)
        assert told.stdout == ""
        (line,) = told.stderr.splitlines()
        assert tree(tmp_path) == before
        return line.removeprefix("headrace: ")

    return run


def tree(root: Path) -> dict[Path, bytes | None]:
    """Every file with what is in it, and every directory."""
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def test_what_is_no_table_of_a_load_is_left_as_it_is(broker: Broker, lake: Path, refused: Refused) -> None:
    write_clicks(broker, 10)
    lake.mkdir()
    (lake / "holiday.jpg").write_bytes(b"sun")
    assert refused().startswith(f"{lake} is no Delta table, and there are other files in it (holiday.jpg)")
    assert refused(into=lake / "holiday.jpg").startswith(f"{lake / 'holiday.jpg'} is a file; a lake is a directory")
    below = lake / "holiday.jpg" / "lake"
    assert refused(into=below).startswith(f"{below}: Could not create local directory")


def test_tables_of_others_are_left_as_they_are(broker: Broker, lake: Path, refused: Refused, tmp_path: Path) -> None:
    write_clicks(broker, 10)
    write_deltalake(str(tmp_path / "theirs"), pa.table({"x": [1]}))
    assert refused(into=tmp_path / "theirs").endswith("was not made by a load: name another directory")
    (tmp_path / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "broken" / "_delta_log" / "00000000000000000000.json").write_text("no JSON")
    assert refused(into=tmp_path / "broken").startswith(f"{tmp_path / 'broken'}: Kernel error: Json error")
    load(broker, lake)
    assert "belongs to the loader 'headrace'" in refused("--loader", "other")


def test_a_topic_that_was_made_anew(broker: Broker, lake: Path, refused: Refused, tmp_path: Path) -> None:
    broker.produce("clicks", '{"page": "/"}', timestamp_ms=MOMENT_MS)
    load(broker, lake, decoder=JsonDecoder('{"page": "string"}'), kind="json")
    delete(broker.bootstrap, "clicks")
    broker.produce("clicks", '{"page": "/"}', timestamp_ms=MOMENT_MS)
    # With a column more, which is not added to a table that is not loaded.
    grown = declare(tmp_path / "schema.json", page="string", count="long")
    line = refused("--format", "json", "--schema", grown)
    assert "so that it was deleted and made anew, or is on another cluster. --accept-new-topic loads it as well" in line


def test_offsets_that_expired(broker: Broker, lake: Path, refused: Refused) -> None:
    write_clicks(broker, 100, partitions=1)
    load(broker, lake)
    write_clicks(broker, 40)
    cut(broker.bootstrap, "clicks", 125)
    assert refused() == (
        "clicks-0 begins at offset 125, and the table ends at 100: 25 offsets were deleted before they were loaded. "
        "--missing skip goes on without them"
    )


def test_schemas_that_do_not_fit(broker: Broker, lake: Path, refused: Refused, tmp_path: Path) -> None:
    broker.produce("clicks", '{"page": "/", "count": 3}', timestamp_ms=MOMENT_MS)
    load(broker, lake, decoder=JsonDecoder('{"page": "string", "count": "long"}'), kind="json")
    broker.produce("clicks", '{"page": "/", "count": 4}', timestamp_ms=MOMENT_MS)
    schema = tmp_path / "schema.json"
    words = ("--format", "json", "--schema", schema)
    for fields, text in (
        ({"page": "string", "count": "string"}, "column count is int64, and would be string"),
        ({"page": "string"}, "has a column count, which is not declared any more"),
        ({"page": "text", "count": "long"}, "page"),
    ):
        declare(schema, **fields)
        assert text in refused(*words)
    schema.write_text("page: string")
    assert refused(*words).startswith("the schema is not JSON")
    assert refused().endswith("was made with --format json, not raw")
    assert DeltaTable(lake).count() == 1


def test_a_refusal_is_the_one_thing_that_a_process_says(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    load(broker, lake)
    words = ("load", "clicks", "--bootstrap", broker.bootstrap, "--once", "--lake", str(lake), "--loader", "other")
    ran = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"headrace: {lake} belongs to the loader 'headrace'")
    assert sum(rows_of(lake).values()) == 10
