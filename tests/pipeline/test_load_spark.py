"""Loads on a real Spark: its tasks, its retries, drivers killed with it, and tables read back without jars."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql import SparkSession

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


def test_others_read_it_in_one_line(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    load(broker, lake)
    clicks = DeltaTable(lake).to_pyarrow_dataset()  # noqa: F841  # DuckDB finds it by its name.
    assert duckdb.sql("select count(*), min(event_date) from clicks").fetchall() == [(100, date(2025, 11, 15))]
    assert len(DeltaTable(lake).to_pandas()) == 100
    assert polars.scan_delta(str(lake)).select(polars.len()).collect().item() == 100


# --- The command ------------------------------------------------------------------------------------------------


def headrace(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "headrace.cli.main", *map(str, words)]


def refused(*words: str | Path) -> str:
    """What a load that is refused says; nothing else, and within a moment, since no Spark is begun for it."""
    ran = subprocess.run(headrace("load", *words), capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    return line


def test_bad_input_is_one_line(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    where = ("--bootstrap", broker.bootstrap, "--once", "--lake", lake)
    lake.mkdir()
    (lake / "holiday.jpg").touch()
    assert "is no Delta table, and there are other files in it" in refused("clicks", *where)
    (lake / "holiday.jpg").unlink()
    assert "there is no topic 'clack'" in refused("clack", *where)
    load(broker, lake)
    assert "belongs to the loader 'headrace'" in refused("clicks", *where, "--loader", "other")
    assert sum(rows_of(lake).values()) == 10


@pytest.mark.timeout(240)
def test_a_continuous_load_killed_with_its_spark_goes_on_where_it_was_until_it_is_told_to_stop(
    broker: Broker, lake: Path
) -> None:
    write_clicks(broker, 6_000)
    words = headrace(
        *("load", "clicks", "--bootstrap", broker.bootstrap, "--lake", lake),
        *("--every", "200ms", "--commit-offsets", "600"),
    )
    with started(words) as driver:
        wait_for_rows(lake, 1)
        os.kill(driver.pid, signal.SIGKILL)  # Its JVM notices and ends; tasks may write a little longer.
        driver.wait()
    table = rows_of(lake)
    assert not table - records_of(broker)
    assert sum(table.values()) < 6_000
    with started(words) as driver:
        wait_for_rows(lake, 6_000)
        write_clicks(broker, 1_000)
        wait_for_rows(lake, 7_000)
        os.kill(driver.pid, signal.SIGINT)
        _, told = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGINT
    assert "stopped: what was committed stays" in told
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A driver, and whatever it began, which is gone afterwards."""
    with subprocess.Popen(
        words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def wait_for_rows(lake: Path, count: int) -> None:
    deadline_s = time.monotonic() + 90
    while not DeltaTable.is_deltatable(str(lake)) or DeltaTable(lake).count() < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
