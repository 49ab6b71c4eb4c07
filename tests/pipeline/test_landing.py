"""A stream's results in a table: once, over repeats of a batch, and only of its own checkpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace.pipeline import landing, streams
from headrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def clicks(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("headrace").options(**options).load()
    return records.select(sf.col("value").cast("string").alias("page"), "timestamp")


def count_pages(pages: DataFrame, table: Path, state: Path) -> None:
    counted = streams.counted(pages, streams.Tumbling("1 day"), by=["page"])
    query = landing.to_table(
        counted, table, name="pages", checkpoint=state, keys=["window_start", "page"], every="once"
    )
    query.awaitTermination()


def rows(table: Path) -> dict[str, int]:
    return {row["page"]: row["count"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()}


def test_counts_are_put_right_batch_by_batch(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    table, state = tmp_path / "table", tmp_path / "state"
    broker.create_topic("counts", 2)
    for page in (b"a", b"a", b"b"):
        broker.produce("counts", page, timestamp_ms=1_000)
    count_pages(clicks(spark, broker, "counts"), table, state)
    assert rows(table) == {"a": 2, "b": 1}
    first = landing.landed(table)
    broker.produce("counts", b"a", timestamp_ms=2_000)
    count_pages(clicks(spark, broker, "counts"), table, state)
    assert rows(table) == {"a": 3, "b": 1}
    assert landing.landed(table) > first


def test_a_batch_that_is_repeated_is_not_written_again(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Spark forgets that its last batch was done, as after a crash between our commit and its own."""
    table, state = tmp_path / "table", tmp_path / "state"
    broker.create_topic("repeats", 1)
    broker.produce("repeats", b"a")

    def append() -> None:
        query = landing.to_table(clicks(spark, broker, "repeats"), table, name="raw", checkpoint=state, every="once")
        query.awaitTermination()

    append()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1
    for done in (state / "commits").iterdir():
        done.unlink()
    version = DeltaTable(table).version()
    append()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1
    assert DeltaTable(table).version() == version


def test_another_checkpoint_is_refused(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    table = tmp_path / "table"
    broker.create_topic("owners", 1)
    broker.produce("owners", b"a")
    count_pages(clicks(spark, broker, "owners"), table, tmp_path / "state")
    with pytest.raises(StreamingQueryException, match="holds the results of another checkpoint"):
        count_pages(clicks(spark, broker, "owners"), table, tmp_path / "another")
    assert rows(table) == {"a": 1}


def test_each_batch_sees_a_changing_table_as_it_is_then(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    table, state, titles = tmp_path / "table", tmp_path / "state", tmp_path / "titles"
    broker.create_topic("titles", 1)

    def named(batch: DataFrame) -> DataFrame:
        known = spark.read.schema("page string, title string").json(str(titles))
        return streams.with_table(batch, known, on="page")

    titles.mkdir()
    for title in ("Home", "Start"):
        (titles / "titles.json").write_text(f'{{"page": "a", "title": "{title}"}}\n')
        broker.produce("titles", b"a")
        query = landing.to_table(
            clicks(spark, broker, "titles"), table, name="titles", checkpoint=state, transform=named, every="once"
        )
        query.awaitTermination()
    assert sorted(row["title"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()) == ["Home", "Start"]


def test_a_stream_is_written_back_to_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("in", 1)
    broker.create_topic("out", 1)
    for page in (b"a", b"b"):
        broker.produce("in", page)
    shouted = clicks(spark, broker, "in").select(sf.upper("page").alias("value"))
    landing.to_topic(
        shouted, "out", bootstrap=broker.bootstrap, name="shout", checkpoint=tmp_path / "state", every="once"
    ).awaitTermination()
    assert sorted(broker.log("out", 0).values) == [b"A", b"B"]


def test_a_batch_is_written_once_whoever_commits_before_it(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Somebody changes the table between our look at it and our commit."""
    table, state = tmp_path / "table", tmp_path / "state"
    broker.create_topic("meddled", 1)
    meddled = []

    def meddle(batch: DataFrame) -> DataFrame:
        if (table / "_delta_log").exists():
            version = DeltaTable(table).version()
            DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
            meddled.append(DeltaTable(table).version() > version)
        return batch

    for page in (b"a", b"b"):
        broker.produce("meddled", page)
        landing.to_table(
            clicks(spark, broker, "meddled"), table, name="meddled", checkpoint=state, transform=meddle, every="once"
        ).awaitTermination()
    assert any(meddled)
    assert sorted(row["page"] for row in DeltaTable(table).to_pyarrow_table().to_pylist()) == ["a", "b"]
