"""A Spark session that says nothing where all is well, on a Java that Spark runs on.

A process has one: where there is one already it is given back as it is, whatever was asked for. Settings are Spark's
own, and win over those that are chosen here.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.spark.java import find_java_home

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


def quiet_session(*, master: str, app: str, settings: Mapping[str, str] = {}) -> SparkSession:
    """This process's session, begun if there is none; `NoJava` where Spark could not run."""
    return SparkSession.getActiveSession() or _begin(master, app, session_settings(master, settings))


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
