"""One Spark for all tests of the pipeline, begun when the first asks for it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that knows `format("headrace")`. Tests keep apart by their topics, paths and query names."""
    session = spark_session(app="headrace-tests", settings={"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()
