"""Top pages per minute from a web server's log, one line per record, in a table that grows minute by minute.

    python top_pages.py localhost:9092 access lake/pages

Each line is the common log format. The time of an event is the record's; the pages of a minute are put right while it
lasts and for ten seconds longer.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from headrace.pipeline import landing, streams
from headrace.pipeline.session import spark_session

_REQUEST = r'"[A-Z]+ (\S+)[^"]*" (\d{3}) (\d+|-)'


def requests(records: DataFrame) -> DataFrame:
    """The page, the status and the bytes of each answer; lines that are none are left out."""
    line = sf.col("value").cast("string")
    parts = [sf.regexp_extract(line, _REQUEST, number) for number in (1, 2, 3)]
    found = records.select(
        "timestamp",
        parts[0].alias("page"),
        parts[1].try_cast("int").alias("status"),
        parts[2].try_cast("long").alias("bytes"),
    )
    return found.where(sf.col("page") != "")


def pages_per_minute(records: DataFrame) -> DataFrame:
    return streams.counted(
        requests(records), streams.Tumbling("1 minute"), by=["page"], sums=["bytes"], late="10 seconds"
    )


def top(pages: DataFrame, count: int) -> DataFrame:
    """The pages of each minute that were asked for most."""
    by_minute = Window.partitionBy("window_start").orderBy(sf.desc("count"), "page")
    ranked = pages.withColumn("rank", sf.row_number().over(by_minute)).where(sf.col("rank") <= count)
    return ranked.select("window_start", "rank", "page", "count").orderBy("window_start", "rank")


def run(spark: SparkSession, bootstrap: str, topic: str, table: str, *, every: str) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("headrace").options(**options).load()
    return landing.to_table(
        pages_per_minute(records),
        table,
        name="pages-per-minute",
        checkpoint=f"{table}.state",
        keys=["window_start", "page"],
        every=every,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("table")
    parser.add_argument("--every", default="1 second", help='how often, or "once" for what is there now')
    given = parser.parse_args()
    run(spark_session(app="top-pages"), given.bootstrap, given.topic, given.table, every=given.every).awaitTermination()


if __name__ == "__main__":
    main()
