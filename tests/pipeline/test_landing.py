"""A stream's results in a table: once, over repeats of a batch, and only of its own checkpoint."""

from collections import Counter
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


def stream_of(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format("headrace").options(**options, includeHeaders="true").load()


def records_in(broker: Broker, topic: str) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each."""
    return [list(record.headers) for partition in range(2) for record in broker.log(topic, partition)]


def forget(state: Path) -> None:
    """Spark does not know any more what was done, as after a crash before its own note of it."""
    for done in (state / "commits").iterdir():
        done.unlink()


def clicks(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    return stream_of(spark, broker, topic).select(sf.col("value").cast("string").alias("page"), "timestamp")


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
    forget(state)
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


def test_what_a_repeated_batch_writes_to_a_topic_again_is_known_by_its_stamps(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Counts go to a topic in three tasks, and from it to another. Both write a batch twice, and each is taken once."""
    for topic in ("in", "counts-out", "copied"):
        broker.create_topic(topic, 2)
    for number in range(40):
        broker.produce("in", f"page-{number % 20}".encode(), partition=number % 2, timestamp_ms=1_000 + number)

    def write() -> None:
        counted = streams.counted(clicks(spark, broker, "in"), streams.Tumbling("1 day"), by=["page"])
        # Three tasks, and some of their rows are alike.
        records = counted.repartition(3, "page").select(sf.col("count").cast("string").alias("value"))
        state = tmp_path / "out.state"
        landing.to_topic(
            records,
            "counts-out",
            bootstrap=broker.bootstrap,
            name="counts-out",
            checkpoint=state,
            mode="update",
            every="once",
        ).awaitTermination()

    def copy() -> None:
        """With the stamps of what is copied in front of its own."""
        records = stream_of(spark, broker, "counts-out").select("value", "headers")
        state = tmp_path / "copied.state"
        landing.to_topic(
            records, "copied", bootstrap=broker.bootstrap, name="copied", checkpoint=state, every="once"
        ).awaitTermination()

    for go, state in ((write, tmp_path / "out.state"), (copy, tmp_path / "copied.state")):
        go()
        forget(state)
        go()
    stamps = Counter(value for record in records_in(broker, "counts-out") for _, value in record)
    assert len(stamps) == 20
    assert set(stamps.values()) == {2}, "the repeat has the stamps of what it repeats"
    assert {len(headers) for headers in records_in(broker, "copied")} == {2}
    assert len(records_in(broker, "copied")) == 80

    def once(records: DataFrame) -> DataFrame:
        return streams.without_resends(records).select(sf.col("value").cast("string").alias("page"))

    table = tmp_path / "once"
    for topic, expected in (("counts-out", 20), ("copied", 40)):
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "includeHeaders": "true"}
        at_once = once(spark.read.format("headrace").options(**options).load())
        assert [row.page for row in at_once.collect()] == ["2"] * expected
    query = landing.to_table(
        once(stream_of(spark, broker, "counts-out")), table, name="once", checkpoint=tmp_path / "once.s", every="once"
    )
    query.awaitTermination()
    assert DeltaTable(table).to_pyarrow_table()["page"].to_pylist() == ["2"] * 20


def test_options_of_the_client_reach_it(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A node that has no TLS cannot be written to with it."""
    broker.create_topic("plain", 1)
    broker.produce("plain", b"a")
    records = clicks(spark, broker, "plain").select(sf.col("page").alias("value"))
    options = {"kafka.security.protocol": "SSL", "kafka.default.api.timeout.ms": "1000"}
    query = landing.to_topic(
        records,
        "plain",
        bootstrap=broker.bootstrap,
        name="secret",
        checkpoint=tmp_path / "state",
        every="once",
        options=options,
    )
    with pytest.raises(StreamingQueryException, match=r"(?i)tls|ssl"):
        query.awaitTermination()
    assert len(broker.log("plain", 0)) == 1


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
