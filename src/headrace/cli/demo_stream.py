"""Pages per ten seconds, counted by Spark while events come in, as a program of its own. It stops on SIGTERM."""

import signal
import sys
from types import FrameType

from pyspark.sql import functions as sf

from headrace.cli.demo_outcome import WINDOW_S
from headrace.pipeline import landing, streams
from headrace.pipeline.session import spark_session

_PAGE = r'"[A-Z]+ (\S+)'


def count(bootstrap: str, topic: str, table: str) -> None:
    spark = spark_session(app="headrace demo", settings={"spark.sql.shuffle.partitions": "1"})
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format("headrace").options(**options).load()
    pages = records.select("timestamp", sf.regexp_extract(sf.col("value").cast("string"), _PAGE, 1).alias("page"))
    counted = streams.counted(pages, streams.Tumbling(f"{WINDOW_S} seconds"), by=["page"])
    query = landing.to_table(
        counted, table, name="pages", checkpoint=f"{table}.state", keys=["window_start", "page"], every="2 seconds"
    )

    def stop(number: int, frame: FrameType | None) -> None:
        query.stop()

    signal.signal(signal.SIGTERM, stop)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    bootstrap, topic, table = sys.argv[1:]
    count(bootstrap, topic, table)
