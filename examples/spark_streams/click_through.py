"""Click-through rate: of the advertisements shown in each minute, which share was clicked within ten minutes.

    python click_through.py localhost:9092 shown clicked lake/click_through

Both topics have the advertisement's impression as the record's key; the value of what was shown names the campaign.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from headrace.pipeline import landing, streams
from headrace.pipeline.session import spark_session


def outcomes(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    """Each impression once, with whether it was clicked."""
    impressions = shown.select(
        sf.col("key").cast("string").alias("impression"), sf.col("value").cast("string").alias("campaign"), "timestamp"
    )
    clicks = clicked.select(sf.col("key").cast("string").alias("impression"), "timestamp")
    # Impatient people click twice.
    once = streams.without_repeats(clicks, by="impression", late="10 minutes")
    pairs = streams.followed_by(
        impressions, once, on="impression", within="10 minutes", late="10 minutes", keep_unmatched=True
    )
    return pairs.select("timestamp", "campaign", sf.col("then_impression").isNotNull().cast("long").alias("clicked"))


def rates(outcomes_by_minute: DataFrame) -> DataFrame:
    """Impressions, clicks and their ratio, of each campaign."""
    totals = outcomes_by_minute.groupBy("campaign").agg(
        sf.count(sf.lit(1)).alias("shown"), sf.sum("clicked").alias("clicked")
    )
    return totals.withColumn("rate", sf.col("clicked") / sf.col("shown")).orderBy("campaign")


def run(
    spark: SparkSession, bootstrap: str, shown_topic: str, clicked_topic: str, table: str, *, every: str
) -> StreamingQuery:
    def records(topic: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("headrace").options(**options).load()

    return landing.to_table(
        outcomes(records(shown_topic), records(clicked_topic)),
        table,
        name="click-through",
        checkpoint=f"{table}.state",
        every=every,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("shown")
    parser.add_argument("clicked")
    parser.add_argument("table")
    parser.add_argument("--every", default="1 second", help='how often, or "once" for what is there now')
    given = parser.parse_args()
    spark = spark_session(app="click-through")
    run(spark, given.bootstrap, given.shown, given.clicked, given.table, every=given.every).awaitTermination()


if __name__ == "__main__":
    main()
