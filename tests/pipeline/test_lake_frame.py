"""Tables read back by Spark, from a directory and from an object store: the same rows."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from headrace.audit.lake_tier import count_lake
from headrace.pipeline.audit_job import count_with
from headrace.pipeline.delta import LakeError
from headrace.pipeline.lake import _read_files, frame
from headrace.pipeline.load import Load
from headrace.pipeline.location import parse_location
from headrace.testing import Broker
from tests.clients.audited import audit, send, troubles
from tests.pipeline.loading import request, run_here
from tests.pipeline.object_store import BUCKET, ObjectStore, object_store
from tests.pipeline.test_audit_job import summary

AT = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture(params=["directory", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, store: ObjectStore) -> tuple[str, dict[str, str]]:
    """Where a table may lie, and the options that open it."""
    if request.param == "directory":
        return str(tmp_path / "lake"), {}
    return f"s3://{BUCKET}/{tmp_path.name}", store.options


def rows(first: int, count: int, **more: Any) -> pa.Table:
    """Partitioned by what has to be written in another way in a path, and by what is null."""
    numbers = range(first, first + count)
    columns = {
        "number": pa.array(numbers, pa.int32()),
        "at": pa.array([AT] * count, pa.timestamp("us", "UTC")),
        "headers": pa.array(
            [[{"key": "n", "value": b"%d" % number}] if number % 2 else None for number in numbers],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
        "day": pa.array([date(2026, 11, 1 + number % 2) if number % 3 else None for number in numbers]),
        "word": pa.array(["a b/c=%" if number % 2 else "plain" for number in numbers]),
    }
    return pa.table(columns | more)


def test_all_rows_come_back_with_directories_as_columns(spark: SparkSession, place: tuple[str, dict[str, str]]) -> None:
    path, options = place
    table, more = rows(0, 50), rows(50, 10, added=pa.array(range(10), pa.int64()))
    write_deltalake(path, table, partition_by=["day", "word"], storage_options=options)
    write_deltalake(path, more, mode="append", schema_mode="merge", storage_options=options)
    DeltaTable(path, storage_options=options).delete("number = 7")
    shown = frame(spark, path, options=options)
    assert shown.columns == [*table.column_names, "added"]
    assert shown.schema["day"].dataType.simpleString() == "date"
    added = {row["number"]: row["added"] for row in more.to_pylist()}
    expected = [
        {**row, "at": AT.replace(tzinfo=None), "added": added.get(row["number"])}
        for row in pa.concat_tables([table, more.drop_columns(["added"])]).to_pylist()
        if row["number"] != 7
    ]
    found = [row.asDict(recursive=True) for row in shown.collect()]
    assert [{**row, "headers": as_bytes(row["headers"])} for row in sorted(found, key=number)] == expected
    assert shown.groupBy("word").count().count() == 2
    assert shown.count() == 59
    assert frame(spark, path, version=0, options=options).count() == 50


def test_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    table = rows(0, 2, **{"user.id": pa.array([7, 8]), "a `b`": pa.array([1, None])})
    write_deltalake(path, table)
    shown = frame(spark, path)
    assert shown.columns == table.column_names
    assert {row["number"]: (row["user.id"], row["a `b`"]) for row in shown.collect()} == {0: (7, 1), 1: (8, None)}
    some = frame(spark, path, columns=["a `b`", "user.id"])
    assert sorted(map(tuple, some.collect()), key=str) == [(1, 7), (None, 8)]


def number(row: dict[str, Any]) -> int:
    found: int = row["number"]
    return found


def as_bytes(headers: list[dict[str, Any]] | None) -> object:
    return headers and [{**each, "value": bytes(each["value"])} for each in headers]


def test_columns_that_are_asked_for(spark: SparkSession, place: tuple[str, dict[str, str]]) -> None:
    path, options = place
    write_deltalake(path, rows(0, 9), partition_by=["word"], storage_options=options)
    shown = frame(spark, path, options=options, columns=["word", "number"])
    assert sorted(shown.collect())[0].asDict() == {"word": "a b/c=%", "number": 1}
    assert frame(spark, path, options=options, columns=["word"]).where("word = 'plain'").count() == 5
    with pytest.raises(LakeError, match="has no column 'nobody'"):
        frame(spark, path, options=options, columns=["nobody"])


def test_a_table_without_files(spark: SparkSession, place: tuple[str, dict[str, str]]) -> None:
    path, options = place
    write_deltalake(path, rows(0, 3), storage_options=options)
    DeltaTable(path, storage_options=options).delete()
    assert frame(spark, path, options=options).collect() == []


def test_files_of_an_object_store_are_spread_over_tasks(
    spark: SparkSession, store: ObjectStore, tmp_path: Path
) -> None:
    path = f"s3://{BUCKET}/{tmp_path.name}"
    for first in range(0, 80, 2):
        write_deltalake(path, rows(first, 2), mode="append", storage_options=store.options)
    shown = frame(spark, path, options=store.options)
    assert 1 < shown.rdd.getNumPartitions() <= 40
    assert sorted(row["number"] for row in shown.collect()) == list(range(80))


def test_a_task_reads_a_row_group_after_the_other(tmp_path: Path) -> None:
    whole = rows(0, 40)
    pq.write_table(whole, tmp_path / "some.parquet", row_group_size=15)
    names = pa.record_batch({"path": ["some.parquet", "gone.parquet"], "values": [pickle.dumps(ds.scalar(True))] * 2})
    location = parse_location(tmp_path)
    read = _read_files([names], location=location, whole=whole.schema, asked=whole.select(["number"]).schema)
    assert [batch["number"].to_pylist() for batch in islice(read, 3)] == [
        list(range(15)),
        list(range(15, 30)),
        list(range(30, 40)),
    ]
    with pytest.raises(FileNotFoundError):  # Which it had not come to yet.
        next(read)


def test_a_table_in_an_object_store_is_audited_by_spark(
    spark: SparkSession, broker: Broker, store: ObjectStore, tmp_path: Path
) -> None:
    path = f"s3://{BUCKET}/{tmp_path.name}"
    broker.create_topic("clicks", 2)
    send(broker, "clicks", each=20)
    asked = replace(request(broker.bootstrap, Path(path)), lake=parse_location(path, store.options))
    with Load(asked, run=run_here) as work:
        work.once()
    send(broker, "clicks", each=1, producer_id="web-2")
    DeltaTable(path, storage_options=store.options).delete('"partition" = 0 AND "offset" = 3')
    words = [word for name, value in store.options.items() for word in ("--lake-option", f"{name}={value}")]
    report = audit(broker, "clicks", "--lake", path, "--master", "local[2,3]", *words)  # The session that is there.
    assert sum(found.get("missing", 0) for found in troubles(report).values()) == 1
    assert report["gone"] == {"lake": 1}
    assert {tuple(found) for found in troubles(report).values()} <= {("late",), ("missing", "late")}
    here = count_lake(path, "clicks", options=store.options)
    there = count_lake(path, "clicks", options=store.options, count_rows=count_with(spark, store.options))
    assert summary(there) == summary(here)
