"""Loads on a real Spark: its tasks, its retries, and tables read back without jars.

Drivers are killed with their Spark in `tests/interop/test_spark_cluster.py`.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import headrace
from headrace.pipeline import lake as lakes
from headrace.pipeline.decoding import Decoded, RawDecoder
from headrace.pipeline.delta import LakeError
from headrace.pipeline.location import parse_location
from headrace.pipeline.origins import Origin
from headrace.pipeline.spark_tasks import SparkTasks, SparkTrouble
from headrace.pipeline.transforming import transformed
from headrace.pipeline.upkeep import compact
from headrace.testing import Broker
from tests.pipeline.loading import check_ledger, load, records_of, rows_of, write_clicks


def test_tasks_on_spark_load_the_topic(spark: SparkSession, broker: Broker, lake: Path) -> None:
    write_clicks(broker, 40_000)
    loaded = load(broker, lake, run=SparkTasks(lambda: spark))
    assert loaded.rows == 40_000
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


class DyingDecoder(RawDecoder):
    """Kills the process that it is first used in, and works in the next."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded:
        rows = super().decode(batch, origin)
        if not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rows


class RaisingDecoder(RawDecoder):
    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded:
        raise ZeroDivisionError("of no use")


cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(
    spark: SparkSession, broker: Broker, lake: Path, tmp_path: Path
) -> None:
    write_clicks(broker, 3_000)
    mark = tmp_path / "killed"
    load(broker, lake, run=SparkTasks(lambda: spark), decoder=DyingDecoder(mark))
    assert mark.exists()
    assert rows_of(lake) == records_of(broker)


def test_a_task_that_fails_again_and_again_is_told_in_one_line(spark: SparkSession, broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    with pytest.raises(SparkTrouble, match="again and again: ZeroDivisionError: of no use"):
        load(broker, lake, run=SparkTasks(lambda: spark), decoder=RaisingDecoder())
    assert not rows_of(lake)


def test_a_transform_need_not_be_installed_where_tasks_run(
    spark: SparkSession, broker: Broker, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "web_rows.py").write_text(
        "import pyarrow.compute as pc\n"
        "def sized(rows):\n"
        "    return rows.drop_columns(['value']).append_column('size', pc.binary_length(rows['value']))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    write_clicks(broker, 100)
    load(broker, lake, run=SparkTasks(lambda: spark), decoder=transformed(RawDecoder(), "web_rows:sized"))
    table = DeltaTable(lake).to_pyarrow_table(columns=["partition", "offset", "size"]).to_pylist()
    sizes = Counter((record[1], record[2], len(record[5])) for record in records_of(broker).elements())
    assert Counter(tuple(row.values()) for row in table) == sizes


# --- Reading back -----------------------------------------------------------------------------------------------


def test_a_frame_is_the_table(spark: SparkSession, broker: Broker, lake: Path) -> None:
    write_clicks(broker, 2_000)
    load(broker, lake)
    broker.produce("clicks", "timeless", timestamp_ms=-1)
    load(broker, lake)
    compact(parse_location(lake))
    frame = lakes.frame(spark, lake)
    assert frame.count() == 2_001
    assert dict(frame.dtypes) == {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestamp_type": "int",
        "key": "binary",
        "value": "binary",
        "headers": "array<struct<key:string,value:binary>>",
        "cluster_id": "string",
        "topic_id": "string",
        "event_date": "date",
        "event_hour": "int",
    }
    hours = Counter(
        {
            (row.event_date, row.event_hour): row["count"]
            for row in frame.groupBy("event_date", "event_hour").count().collect()
        }
    )
    by_reader = DeltaTable(lake).to_pyarrow_table(columns=["event_date", "event_hour"]).to_pylist()
    assert hours == Counter((row["event_date"], row["event_hour"]) for row in by_reader)
    assert (date(2025, 11, 15), 12) in hours
    found = Counter(
        (row.partition, row.offset, bytes(row.value)) for row in frame.select("partition", "offset", "value").collect()
    )
    assert found == Counter((record[1], record[2], record[5]) for record in records_of(broker).elements())


def test_a_frame_of_an_empty_table_and_of_an_older_version(spark: SparkSession, broker: Broker, lake: Path) -> None:
    broker.create_topic("clicks")
    load(broker, lake)
    assert lakes.frame(spark, lake).count() == 0
    write_clicks(broker, 10)
    load(broker, lake)
    assert (lakes.frame(spark, lake).count(), lakes.frame(spark, lake, version=1).count()) == (10, 0)


def test_what_is_no_table_is_no_frame(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="is no Delta table"):
        lakes.frame(spark, tmp_path)


def test_every_reader_of_the_page_reads_the_same(
    spark: SparkSession, broker: Broker, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines as they are, on a table some of whose files were taken out again: by a compaction and by a deletion."""
    write_clicks(broker, 1_000)
    load(broker, lake / "clicks", offsets_per_commit=300)
    broker.produce("clicks", "timeless", timestamp_ms=-1)
    load(broker, lake / "clicks")
    compact(parse_location(lake / "clicks"))
    DeltaTable(lake / "clicks").delete('"partition" = 1 and "offset" < 50')
    assert len(list((lake / "clicks").rglob("*.parquet"))) > len(DeltaTable(lake / "clicks").file_uris())
    wanted = Counter(
        (partition, offset, value, *date_and_hour(time_ms))
        for _, partition, offset, time_ms, _, value in records_of(broker).elements()
        if partition != 1 or offset >= 50
    )
    assert wanted.total() == 951
    monkeypatch.chdir(tmp_path)
    names = {"headrace": headrace, "spark": spark, "deltalake": deltalake, "polars": polars, "duckdb": duckdb}
    for reader, line in page_lines():
        found = eval(line, names)
        assert Counter(map(plain, ROWS_BY[reader](found))) == wanted, reader


COLUMNS = ["partition", "offset", "value", "event_date", "event_hour"]
ROWS_BY: dict[str, Callable[[Any], Iterable[Sequence[Any]]]] = {
    "Spark": lambda frame: frame.select(*COLUMNS).collect(),
    "pandas": lambda frame: frame[COLUMNS].itertuples(index=False, name=None),
    "polars": lambda frame: frame.select(COLUMNS).rows(),
    "DuckDB": lambda relation: relation.select(*COLUMNS).fetchall(),
}


def page_lines() -> list[tuple[str, str]]:
    """The lines of docs/lake.md for reading a table, each with whose it is."""
    page = (Path(__file__).parents[2] / "docs" / "lake.md").read_text()
    block = page.partition("## Reading it back")[2].partition("```python")[2].partition("```")[0]
    lines = [line.rpartition("#") for line in block.strip().splitlines()]
    assert {reader.strip() for *_, reader in lines} == set(ROWS_BY)
    return [(reader.strip(), line.strip()) for line, _, reader in lines]


def date_and_hour(time_ms: int | None) -> tuple[date | None, int | None]:
    if time_ms is None or time_ms < 0:
        return None, None
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.date(), moment.hour


def plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """Spark has arrays of bytes, and pandas no number for null in a column of numbers."""
    partition, offset, value, day, hour = row
    return partition, offset, bytes(value), day, None if hour != hour else hour
