"""One Spark for all tests of the pipeline, begun when the first asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.session import spark_session
from headrace.testing import Broker, BrokerPool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that asks for Spark pays for its start."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that knows `format("headrace")`. Tests keep apart by their topics, paths and query names."""
    # The state of windows and joins is kept in as many parts as are shuffled into, and each takes its time.
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "1"}
    session = spark_session(app="headrace-tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def broker(headrace_pool: BrokerPool) -> Iterator[Broker]:
    with headrace_pool.broker() as broker:
        yield broker


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"
