"""Sessions of Spark one after the other in one process, each on a JVM of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session


@contextmanager
def spark_alone(*, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session whose JVM ends with it: another module's session needs other jars on its class path."""
    session = spark_session(master=master, app="headrace-interop", settings=settings)
    gateway = SparkContext._gateway
    assert gateway is not None
    try:
        yield session
    finally:
        session.stop()
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
        with gateway.proc as jvm:  # It ends when nobody can tell it anything any more.
            jvm.stdin.close()
            jvm.wait(60)
