"""Spark over the log: a source and a sink with the official connector's options, and what is built on them.

    from headrace import pipeline

    pipeline.register(spark)
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}
    frame = spark.read.format("headrace").options(**options).load()

Needs the extra `spark` (`pip install headrace[spark]`). `docs/spark.md` has the options.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Make `format("headrace")` known to this session."""
    from headrace.pipeline.data_source import HeadraceDataSource

    spark.dataSource.register(HeadraceDataSource)
