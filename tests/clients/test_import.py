"""`headrace import`: rows of files become records, and an interrupted import goes on."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from headrace import columnar
from headrace.cli import import_file
from headrace.testing import Broker
from tests.clients.command_line import Headrace, command
from tests.clients.exported import rows_of_topic, strange_rows

SUFFIXES = (".parquet", ".csv", ".jsonl", ".arrow", ".arrows")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("strange", partitions=3)
        columnar.write(broker.bootstrap, "strange", strange_rows(500, seed=2))
        yield broker


@pytest.fixture
def headrace(broker: Broker) -> Headrace:
    return Headrace(broker.bootstrap)


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    broker.create_topic(topic_name, partitions=3)
    return topic_name


def without_place(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted(
        [(row["timestamp"], row["key"], row["value"], row["headers"]) for row in rows], key=lambda row: row[0]
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_exported_comes_back_as_it_was(headrace: Headrace, topic: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out{suffix}"
    headrace("export", "strange", file)
    told = headrace.json("import", file, topic, "--keep-partitions", "-z", "zstd")
    assert (told["rows"], told["acknowledged"], told["resumed_rows"]) == (500, 500, None)
    assert list(tmp_path.iterdir()) == [file]
    there, here = rows_of_topic(headrace.bootstrap, "strange"), rows_of_topic(headrace.bootstrap, topic)
    assert [row | {"topic": ""} for row in here] == [row | {"topic": ""} for row in there]


def test_without_their_partitions_keys_decide(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    headrace("export", "strange", file, "--columns", "key,value,headers,timestamp")
    headrace("import", file, topic)
    there, here = rows_of_topic(headrace.bootstrap, "strange"), rows_of_topic(headrace.bootstrap, topic)
    assert without_place(here) == without_place(there)
    places = {row["key"]: row["partition"] for row in there if row["key"]}
    assert all(places[row["key"]] == row["partition"] for row in here if row["key"])


ANY = pa.table(
    {
        "id": [1, 2],
        "name": ["Zoë", None],
        "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
        "raw": [b"text", b"\xff"],
        "size": [1.5, float("nan")],
        "tags": [["a", "b"], []],
    }
)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_any_other_table_is_an_object_for_each_row(headrace: Headrace, topic: str, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"any{suffix}"
    if suffix == ".parquet":
        pq.write_table(ANY, file)
    else:
        with pa.ipc.new_file(file, ANY.schema) as out:
            out.write_table(ANY)
    headrace("import", file, topic, "--key", "id")
    rows = sorted(rows_of_topic(headrace.bootstrap, topic), key=lambda row: bytes(row["key"]))
    assert [row["key"] for row in rows] == [b"1", b"2"]
    assert [json.loads(row["value"]) for row in rows] == [
        {"id": 1, "name": "Zoë", "at": "2026-01-01T00:00:00+00:00", "raw": "text", "size": 1.5, "tags": ["a", "b"]},
        {"id": 2, "name": None, "at": "2026-01-01T00:00:00+00:00", "raw": {"base64": "/w=="}, "size": None, "tags": []},
    ]


def test_csv_is_read_as_it_looks_or_as_text(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("id,name\n007,James\n")
    headrace("import", file, topic)
    headrace("import", file, topic, "--text")
    headrace("import", file, topic, "--value", "name", "--key", "id", "--text")
    values = {row["value"] for row in rows_of_topic(headrace.bootstrap, topic)}
    assert values == {b'{"id":7,"name":"James"}', b'{"id":"007","name":"James"}', b"James"}


def test_other_lines_of_json_stay_as_they_are(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "any.jsonl"
    lines = [b'{"user": "a",  "n": 1}', b'{"user": null, "n": {"deep": [2]}}']
    file.write_bytes(b"\n".join(lines))
    headrace("import", file, topic)
    assert {row["value"] for row in rows_of_topic(headrace.bootstrap, topic)} == set(lines)
    headrace("import", file, topic, "--value", "n", "--key", "user")
    rows = [(row["key"], row["value"]) for row in rows_of_topic(headrace.bootstrap, topic)]
    assert (b"a", b"1") in rows
    assert (None, b'{"deep":[2]}') in rows


# --- Interruptions -------------------------------------------------------------------------------------------------


def test_it_goes_on_behind_the_rows_that_it_noted(
    headrace: Headrace, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in the third lot of rows, with every lot noted: the first two are not written again, the third is."""
    file = tmp_path / "many.jsonl"
    numbers = range(12_000)
    file.write_bytes(b"".join(b'{"n":%d}\n' % number for number in numbers))
    monkeypatch.setattr(import_file, "_NOTE_S", 0.0)
    writes = 0
    write = columnar.Writer.write

    def failing(writer: columnar.Writer, batch: pa.RecordBatch) -> None:
        nonlocal writes
        writes += 1
        if writes == 3:
            raise OSError("out of luck")
        write(writer, batch)

    monkeypatch.setattr(columnar.Writer, "write", failing)
    assert "out of luck" in headrace("import", file, topic, status=1).stderr
    told = headrace.json("import", file, topic)
    assert (told["rows"], told["resumed_rows"], told["acknowledged"]) == (12_000, 10_000, 2_000)
    values = [json.loads(row["value"])["n"] for row in rows_of_topic(headrace.bootstrap, topic)]
    assert sorted(values) == list(numbers)
    assert list(tmp_path.iterdir()) == [file]


def test_told_to_stop_it_repeats_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    count = 100_000
    file.write_bytes(b"".join(b'{"n":%d}\n' % number for number in range(count)))
    with broker.faults.delay(api="Produce", seconds=0.05, times=None):
        stopped = command(broker.bootstrap, "import", str(file), topic)
        deadline_s = time.monotonic() + 60
        while not sum(len(broker.log(topic, partition)) for partition in range(3)):
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        stopped.send_signal(signal.SIGTERM)
        _, errors = stopped.communicate(timeout=60)
    assert stopped.returncode == 128 + signal.SIGTERM, errors
    assert b"the same command goes on" in errors
    told = Headrace(broker.bootstrap).json("import", file, topic)
    assert 0 < told["resumed_rows"] < count
    rows = columnar.read(broker.bootstrap, topic, columns=["value"]).read_all()["value"].to_pylist()
    assert sorted(json.loads(value)["n"] for value in rows) == list(range(count))


def test_another_file_does_not_go_on_with_this_ones_note(headrace: Headrace, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "any.csv"
    file.write_text("id\n1\n")
    note = tmp_path / f"any.csv.{topic}.import.json"
    note.write_text(json.dumps({"file": {"bytes": 0, "modified_ns": 0}, "rows": 1}))
    assert "the file changed" in headrace("import", file, topic, status=1).stderr
    note.write_text("{")
    assert "--restart" in headrace("import", file, topic, status=1).stderr
    assert headrace.json("import", file, topic, "--restart")["rows"] == 1


# --- Bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "arguments", "words"),
    [
        ("a.parquet", b"PAR1 no", (), "cannot be read as parquet"),
        ("a.arrow", b"ARROW1 no", (), "cannot be read as arrow"),
        ("a.arrows", b"no", (), "cannot be read as arrows"),
        ("a.csv", b"a,b\n1,2\n1\n", (), "cannot be read as csv"),
        ("a.csv", b"", (), "cannot be read as csv"),
        ("a.jsonl", b'{"a":1}\n{"a":\n', (), "line 2: not JSON"),
        ("a.jsonl", b'{"value":"x"}\n{"value":7}\n', (), "line 2: value is 7"),
        ("a.xls", b"", (), "--format"),
        ("a.csv", b"a\n1\n", ("--value", "b"), "--value b"),
        ("a.csv", b"a\n1\n", ("--keep-partitions",), "no column 'partition'"),
        ("a.csv", b"value,partition\nx,77\n", ("--keep-partitions",), "77 is none"),
        ("a.csv", b'value,headers\nx,"no"\n', (), "not JSON"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line(
    headrace: Headrace, topic: str, tmp_path: Path, name: str, content: bytes, arguments: tuple[str, ...], words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    (line,) = headrace("import", file, topic, *arguments, status=1).stderr.strip().splitlines()
    assert words in line


def test_a_topic_and_a_file_have_to_be_there(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a\n1\n")
    assert "no topic 'nowhere'" in headrace("import", file, "nowhere", status=1).stderr
    headrace("import", tmp_path / "b.csv", "strange", status=2)
