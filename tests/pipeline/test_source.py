"""Batch queries of a real Spark over a real broker."""

import datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace import columnar
from headrace.pipeline.source import schema_of
from headrace.testing import Broker
from tests.pipeline.topics import cut, fill

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 45, 678000, datetime.UTC)


def load(spark: SparkSession, broker: Broker, **options: Any) -> DataFrame:
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


@pytest.mark.headrace_topic(partitions=2)
def test_every_field_of_every_record(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    timestamp_ms = round(MOMENT.timestamp() * 1000)
    headers = [("a", "1"), ("a", None), ("ü", "")]
    headrace_broker.produce(headrace_topic, "one", key="k", headers=headers, timestamp_ms=timestamp_ms)
    headrace_broker.produce(headrace_topic, None, partition=1, timestamp_ms=timestamp_ms)
    headrace_broker.produce(headrace_topic, "", key="", partition=1, timestamp_ms=timestamp_ms)
    frame = load(spark, headrace_broker, subscribe=headrace_topic, includeHeaders="true")
    assert frame.schema == schema_of({"includeHeaders": "true"})
    rows = frame.orderBy("partition", "offset").collect()
    there = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "ü", "value": b""}]
    assert [row.asDict(recursive=True) for row in rows] == [
        {
            "key": key,
            "value": value,
            "topic": headrace_topic,
            "partition": partition,
            "offset": offset,
            "timestamp": MOMENT.astimezone().replace(tzinfo=None),  # PySpark gives local time, and does not say so.
            "timestampType": 0,
            "headers": told,
        }
        for key, value, partition, offset, told in (
            (b"k", b"one", 0, 0, there),
            (None, None, 1, 0, None),
            (b"", b"", 1, 1, None),
        )
    ]


@pytest.mark.headrace_topic(partitions=3)
def test_all_rows_once_however_they_are_split(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str
) -> None:
    for partition, count in enumerate((10, 3000, 20)):
        fill(headrace_broker.bootstrap, headrace_topic, range(count), partition=partition)
    wanted = (
        columnar.read(headrace_broker.bootstrap, headrace_topic).read_all().select(["partition", "offset", "value"])
    )
    for options, tasks in (({}, 3), ({"minPartitions": 8}, 8), ({"maxRecordsPerPartition": 1000}, 5)):
        frame = load(spark, headrace_broker, subscribe=headrace_topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        found = frame.select("partition", "offset", "value").toArrow()
        order = [("partition", "ascending"), ("offset", "ascending")]
        assert found.sort_by(order).to_pydict() == wanted.sort_by(order).to_pydict()


def test_a_frame_that_is_used_twice_and_filtered(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str
) -> None:
    """A source that took filters from Spark would answer the second question with the first one's rows."""
    fill(headrace_broker.bootstrap, headrace_topic, range(100))
    frame = load(spark, headrace_broker, subscribe=headrace_topic)
    low, high = frame.where("offset < 10"), frame.where("offset >= 90")
    assert (low.count(), high.count(), low.union(high).count()) == (10, 10, 20)


def test_between_offsets_and_what_is_gone(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    fill(headrace_broker.bootstrap, headrace_topic, range(20))
    cut(headrace_broker.bootstrap, headrace_topic, 5)
    bounds = {
        "startingOffsets": f'{{"{headrace_topic}": {{"0": 2}}}}',
        "endingOffsets": f'{{"{headrace_topic}": {{"0": 8}}}}',
    }
    with pytest.raises(PySparkException, match="begins at offset 5: 2 and what follows is gone"):
        load(spark, headrace_broker, subscribe=headrace_topic, **bounds).collect()
    lenient = load(spark, headrace_broker, subscribe=headrace_topic, failOnDataLoss="false", **bounds)
    assert [row.value for row in lenient.collect()] == [b"5", b"6", b"7"]


def test_nothing_is_an_empty_frame(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    assert load(spark, headrace_broker, subscribe=headrace_topic).collect() == []
    assert load(spark, headrace_broker, subscribePattern="^nobody-has-this-name$").collect() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafkaConsumer.pollTimeoutMs": "7"}, "kafkaConsumer.pollTimeoutMs means nothing to headrace"),
        ({"kafka.max.poll.records": "7"}, r"kafka\.max\.poll\.records would have no effect"),
    ],
)
def test_no_option_is_ignored(
    spark: SparkSession, headrace_broker: Broker, headrace_topic: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(AnalysisException, match=text):
        load(spark, headrace_broker, subscribe=headrace_topic, **options).collect()


def test_the_schema_is_fixed(spark: SparkSession, headrace_broker: Broker, headrace_topic: str) -> None:
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", headrace_broker.bootstrap)
    with pytest.raises(AnalysisException, match="the schema is fixed"):
        reader.option("subscribe", headrace_topic).schema("value string").load().collect()
