"""One Spark for all tests of the pipeline, begun when the first asks for it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that knows `format("headrace")`. Tests keep apart by their topics, paths and query names."""
    # The state of windows and joins is kept in as many parts as are shuffled into, and each takes its time.
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}
    session = spark_session(app="headrace-tests", settings=settings)
    yield session
    session.stop()
