"""Frames written to topics by a real Spark, and read back from the broker itself."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.columnar.partitioning import partition_by_key
from headrace.testing import Broker
from tests.pipeline.topics import fill

HEADERS = "array<struct<key: string, value: binary>>"


def save(frame: DataFrame, broker: Broker, **options: Any) -> None:
    writer = frame.write.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).mode("append").save()


def test_every_column(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    rows = [("k", "one", [("a", b"1"), ("b", None)]), (None, None, None), ("", "", [])]
    frame = spark.createDataFrame(rows, f"key string, value string, headers {HEADERS}").coalesce(1)
    save(frame, headrace_broker, topic=headrace_topic, includeHeaders="true")
    found = [(each.key, each.value, list(each.headers)) for each in headrace_broker.log(headrace_topic)]
    assert found == [(b"k", b"one", [("a", b"1"), ("b", None)]), (None, None, []), (b"", b"", [])]


def test_bytes_are_not_touched(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    anything = bytes(range(256))
    frame = spark.createDataFrame([(bytearray(anything), bytearray(anything))], "key binary, value binary")
    save(frame, headrace_broker, topic=headrace_topic)
    (record,) = headrace_broker.log(headrace_topic)
    assert (record.key, record.value) == (anything, anything)


def test_the_topic_of_each_row_unless_the_option_names_one(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str
) -> None:
    other = f"{headrace_topic}-too"
    headrace_broker.create_topic(other)
    rows = [(headrace_topic if number % 3 else other, str(number)) for number in range(30)]
    frame = spark.createDataFrame(rows, "topic string, value string").coalesce(1)
    save(frame, headrace_broker)
    for topic in (headrace_topic, other):
        assert headrace_broker.log(topic).values == [value.encode() for name, value in rows if name == topic]
    save(frame, headrace_broker, topic=other)
    assert len(headrace_broker.log(other)) == 10 + 30


@pytest.mark.headrace_topic(partitions=4)
def test_the_partition_of_a_row_and_of_one_that_names_none(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str
) -> None:
    rows = [(f"key-{number}", str(number), number % 2 if number < 50 else None) for number in range(100)]
    save(spark.createDataFrame(rows, "key string, value string, partition int"), headrace_broker, topic=headrace_topic)
    by_key = partition_by_key(pa.array([key for key, _, _ in rows]), 4)
    wanted = {
        value.encode(): int(by_key[number]) if partition is None else partition
        for number, (_, value, partition) in enumerate(rows)
    }
    found = {
        value: partition for partition in range(4) for value in headrace_broker.log(headrace_topic, partition).values
    }
    assert found == wanted


def test_what_was_read_is_written_as_it_is(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str, tmp_path: Path
) -> None:
    """A stream from a topic to another: columns that records have no use for are left out."""
    source = f"{headrace_topic}-from"
    headrace_broker.create_topic(source)
    fill(headrace_broker.bootstrap, source, range(100))
    where = {"kafka.bootstrap.servers": headrace_broker.bootstrap}
    stream = spark.readStream.format("headrace").options(**where, subscribe=source, startingOffsets="earliest").load()
    writer = stream.writeStream.format("headrace").options(**where, topic=headrace_topic)
    for _ in range(2):  # The second time nothing is left to do.
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
    assert headrace_broker.log(headrace_topic).values == headrace_broker.log(source).values


def test_compression_is_in_force(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    frame = spark.range(2000).selectExpr("'the same again and again' AS value").coalesce(1)
    save(frame, headrace_broker, topic=headrace_topic, **{"kafka.compression.type": "zstd"})
    log = headrace_broker.log(headrace_topic)
    assert len(log) == 2000
    assert log.size_bytes < 2000 * 10


@pytest.mark.parametrize(("acks", "is_idempotent"), [("0", False), ("all", True)])
def test_acks_are_in_force(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str, acks: str, is_idempotent: bool
) -> None:
    save(spark.range(5).selectExpr("'x' AS value"), headrace_broker, topic=headrace_topic, **{"kafka.acks": acks})
    assert len(headrace_broker.wait_for_records(headrace_topic, 5)) == 5
    assert bool(headrace_broker.log(headrace_topic).producers) == is_idempotent


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("'x' AS value, 1L AS partition", {}, "column 'partition' is bigint, not int"),
        ("'x' AS value", {"kafka.retries": "5"}, r"kafka\.retries would have no effect"),
    ],
)
def test_what_is_refused(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str, columns: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(AnalysisException, match=text):
        save(spark.sql(f"SELECT {columns}"), headrace_broker, topic=headrace_topic, **options)
    assert len(headrace_broker.log(headrace_topic)) == 0


def test_stamps_are_for_streams(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    with pytest.raises(PySparkException, match="stamps name the batch of a stream, and this is none"):
        save(spark.range(1).selectExpr("'x' AS value"), headrace_broker, topic=headrace_topic, stamps="true")
    assert len(headrace_broker.log(headrace_topic)) == 0


def test_a_topic_cannot_be_overwritten(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    writer = spark.range(1).selectExpr("'x' AS value").write.format("headrace").option("topic", headrace_topic)
    with pytest.raises(AnalysisException, match="a topic cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", headrace_broker.bootstrap).mode("overwrite").save()


@pytest.mark.parametrize(
    ("column", "text"),
    [("CAST(NULL AS string) AS topic", "1 rows have no topic"), ("'nobody' AS topic", "there is no topic 'nobody'")],
)
def test_rows_that_lead_nowhere(spark: SparkSession, headrace_broker: Broker, column: str, text: str) -> None:
    frame = spark.range(1).selectExpr("'x' AS value", column)
    with pytest.raises(PySparkException, match=text):
        save(frame, headrace_broker, **{"kafka.default.api.timeout.ms": "300"})
