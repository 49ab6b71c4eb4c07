"""The two brokers, each started once; the same tests run against both."""

import datetime
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import forgotten_sockets_of_clients  # noqa: F401  # Used by every test here.
from tests.interop.exchange import Exchange
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.subject import Headrace
from tests.oracle.toolbox import ToolMissing, without_tool

# Records with timestamps of long ago must outlive the run.
PROPERTIES = {"log.retention.ms": "-1"}

# Where one test takes seconds: most start programs of Java's, the others measure for a while.
LENGTHY = frozenset(
    {
        "test_bottlenecks.py",
        "test_columnar.py",
        "test_columnar_cluster.py",
        "test_columnar_transactions.py",
        "test_demo_lake.py",
        "test_fleets.py",
        "test_groups.py",
        "test_kafka_scripts.py",
        "test_lab_runs.py",
        "test_load_transactions.py",
        "test_official_connector.py",
        "test_perf_tests.py",
        "test_recorded_requests.py",
        "test_remote.py",
        "test_senders.py",
        "test_spark_cluster.py",
    }
)

_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1, metavar="N", help="of the lengthy tests one in N, by the day")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The first test of a client pays for fetching and building its driver."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
    share: int = config.getoption("--share")
    lengthy = sorted((item for item in items if item.path.name in LENGTHY), key=lambda item: item.nodeid)
    today = datetime.datetime.now(datetime.UTC).toordinal()
    others = [item for number, item in enumerate(lengthy) if (number + today) % share]
    if others:
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]


@pytest.fixture
def topic_name() -> str:
    """A name that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture(scope="session")
def apache() -> Iterator[ApacheKafka]:
    """Apache Kafka, running; a test that stops it starts it again."""
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)
    with ApacheKafka.temporary(properties=PROPERTIES) as broker:
        yield broker


@pytest.fixture(scope="session")
def headrace() -> Iterator[Headrace]:
    broker = Headrace.temporary(properties=PROPERTIES)
    try:
        broker.start()
        yield broker
    finally:
        broker.discard()


@pytest.fixture(scope="session")
def apache_exchange(apache: ApacheKafka) -> Exchange:
    return Exchange(apache)


@pytest.fixture(scope="session")
def headrace_exchange(headrace: Headrace) -> Exchange:
    return Exchange(headrace)


@pytest.fixture(params=["headrace", "apache"])
def exchange(request: pytest.FixtureRequest) -> Exchange:
    """Not itself of session scope: pytest would start and stop brokers as the random order goes to and fro."""
    found: Exchange = request.getfixturevalue(f"{request.param}_exchange")
    return found
