"""A Spark session for what Headrace does with Spark, with `format("headrace")` known to it.

    spark = spark_session(master="local[4,3]")

A process has one: where there is one already it is given back as it is, whatever was asked for. Settings are Spark's
own, and win over those that are chosen here.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headrace import pipeline
from headrace.spark.master import MASTER
from headrace.spark.session import quiet_session


def spark_session(*, master: str = MASTER, app: str = "headrace", settings: Mapping[str, str] = {}) -> SparkSession:
    """This process's session, begun if there is none; `NoJava` where Spark could not run."""
    spark = quiet_session(master=master, app=app, settings=settings)
    pipeline.register(spark)
    return spark
