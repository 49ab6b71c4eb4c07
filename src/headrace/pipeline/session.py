"""A Spark session for what Headrace does with Spark, with `format("headrace")` known to it.

    spark = spark_session(master="local[4,3]")

A process has one: where there is one already it is given back as it is, whatever was asked for. Settings are Spark's
own, and win over those that are chosen here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace import pipeline
from headrace.pipeline.java import find_java_home

# Two tasks at a time, each tried up to three times: without the second number Spark gives up with the first failure.
MASTER: Final = "local[2,3]"

_LOG: Final = Path(__file__).with_name("log4j2.properties")
_EVERYWHERE: Final = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
}


def spark_session(*, master: str = MASTER, app: str = "headrace", settings: Mapping[str, str] = {}) -> SparkSession:
    """This process's session, begun if there is none; `NoJava` where Spark could not run."""
    spark = SparkSession.getActiveSession() or _begin(master, app, session_settings(master, settings))
    pipeline.register(spark)
    return spark


def _begin(master: str, app: str, settings: Mapping[str, str]) -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java_home(os.environ))
    # Tasks run under the Python that has us.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_settings(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings: the given ones, and ours where they say nothing."""
    return _EVERYWHERE | (_LOCAL if master.startswith("local") else {}) | dict(settings)
