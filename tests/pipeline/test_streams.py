"""Windows, joins and deduplication, on frames read once; test_stream_restarts.py has them as streams."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import ConfigError
from headrace.pipeline import streams


def at(minute: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 16, 12, minute, second, tzinfo=UTC)


def utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.astimezone(UTC)


@pytest.fixture
def clicks(spark: SparkSession) -> DataFrame:
    rows = [("a", 1, at(0, 10)), ("a", 2, at(0, 50)), ("b", 4, at(0, 55)), ("a", 8, at(1, 5)), ("a", 16, at(9))]
    return spark.createDataFrame(rows, "page string, bytes long, timestamp timestamp")


def told(frame: DataFrame) -> set[tuple[object, ...]]:
    return {tuple(utc(value) if isinstance(value, datetime) else value for value in row) for row in frame.collect()}


def test_tumbling_windows_count_each_event_once(clicks: DataFrame) -> None:
    assert told(streams.counted(clicks, streams.Tumbling("1 minute"), by=["page"], sums=["bytes"])) == {
        (at(0), at(1), "a", 2, 3),
        (at(0), at(1), "b", 1, 4),
        (at(1), at(2), "a", 1, 8),
        (at(9), at(10), "a", 1, 16),
    }


def test_hopping_windows_overlap(clicks: DataFrame) -> None:
    counted = told(streams.counted(clicks, streams.Hopping("2 minutes", "1 minute")))
    assert {(start.minute, count) for start, _, count in counted if start >= at(0)} == {(0, 4), (1, 1), (8, 1), (9, 1)}  # type: ignore[attr-defined, operator]
    assert sum(count for *_, count in counted) == 10  # type: ignore[misc]


def test_sessions_last_until_their_gap(clicks: DataFrame) -> None:
    assert told(streams.counted(clicks, streams.Session("1 minute"), by=["page"])) == {
        (at(0, 10), at(2, 5), "a", 3),
        (at(0, 55), at(1, 55), "b", 1),
        (at(9), at(10), "a", 1),
    }


def test_a_table_tells_what_it_knows(spark: SparkSession, clicks: DataFrame) -> None:
    titles = spark.createDataFrame([("a", "Home")], "page string, title string")
    joined = streams.with_table(clicks, titles, on="page")
    assert {(row.page, row.title) for row in joined.collect()} == {("a", "Home"), ("b", None)}
    assert {row.page for row in streams.with_table(clicks, titles, on="page", keep_unmatched=False).collect()} == {"a"}


def test_an_event_is_followed_by_those_within_the_bound(spark: SparkSession) -> None:
    shown = spark.createDataFrame([("x", at(0)), ("y", at(0)), ("z", at(0))], "ad string, timestamp timestamp")
    clicked = spark.createDataFrame(
        [("x", at(0)), ("x", at(2)), ("y", at(2, 1)), ("z", at(0)), ("w", at(1))], "ad string, timestamp timestamp"
    ).where("ad != 'z'")
    pairs = streams.followed_by(shown, clicked, on="ad", within="2 minutes")
    assert told(pairs.select("ad", "then_timestamp")) == {("x", at(0)), ("x", at(2))}
    alone = streams.followed_by(shown, clicked, on="ad", within="2 minutes", keep_unmatched=True).where(
        "then_ad is null"
    )
    assert {row.ad for row in alone.collect()} == {"y", "z"}


def test_repeats_of_a_key_are_left_out(clicks: DataFrame) -> None:
    assert sorted(row.page for row in streams.without_repeats(clicks, by="page").collect()) == ["a", "b"]


def test_records_are_told_apart_by_the_stamp_of_their_sender(spark: SparkSession) -> None:
    def record(offset: int, stamp: bytes | None) -> tuple[object, ...]:
        headers = [] if stamp is None else [("other", b"1"), ("stamp", stamp)]
        return "t", 0, offset, at(0), headers

    records = spark.createDataFrame(
        [record(0, b"7"), record(1, b"8"), record(2, b"7"), record(3, None), record(4, None)],
        "topic string, partition int, offset long, timestamp timestamp,"
        " headers array<struct<key: string, value: binary>>",
    )
    kept = streams.without_resends(records, stamp="stamp")
    assert kept.columns == records.columns
    offsets = {row.offset for row in kept.collect()}
    assert len(offsets) == 4
    assert {1, 3, 4} < offsets


def test_a_column_that_is_not_there_is_named(clicks: DataFrame) -> None:
    with pytest.raises(ConfigError, match="no column host; there are page, bytes, timestamp"):
        streams.counted(clicks, streams.Tumbling("1 minute"), by=["host"])
