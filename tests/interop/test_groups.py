"""Consumer groups of clients in other languages, alone, beside and among Python's, on a node and on Apache Kafka.

The lives are those of `tests/clients`. Where one fails on both brokers, the fault is the test's or the client's.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.clients.forgiven import refused_connections_forgiven
from tests.clients.group_clients import (
    PYTHON_CLIENTS,
    comings_and_goings,
    mixed_companies,
    position_changes,
    static_restarts,
)
from tests.clients.group_lives import BROKER_SETTINGS, GroupClient, broker_restart
from tests.clients.group_pool import Life, LivesAtOnce, wanted
from tests.interop.exchange import Exchange
from tests.interop.group_clients import ALL_CLIENTS, OTHER_CLIENTS
from tests.oracle.kafka import ApacheKafka
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import ToolMissing, without_tool

BROKERS: dict[str, Callable[[], RunningBroker]] = {
    "headrace": lambda: Headrace.temporary(properties=BROKER_SETTINGS),
    "apache": lambda: ApacheKafka.temporary(properties=BROKER_SETTINGS),
}
# A dozen processes at a time keep two cores busy.
AT_ONCE = 5

MIXED = mixed_companies(
    ALL_CLIENTS,
    ("java", "confluent-kafka", "kafka-python"),
    ("franz-go", "java", "aiokafka"),
    ("kcat", "franz-go", "java"),
)


def lives_of(clients: Mapping[str, GroupClient]) -> dict[str, Life]:
    everybody = clients.values()
    return comings_and_goings(everybody) | static_restarts(everybody) | position_changes(everybody)


LIVES = lives_of(OTHER_CLIENTS) | MIXED
# On a node, these are lived in `tests/clients`.
CONTROLS = lives_of(PYTHON_CLIENTS)


@pytest.fixture(scope="module")
def headrace_lives(request: pytest.FixtureRequest) -> Iterator[LivesAtOnce]:
    with begun(request, "headrace") as lives:
        yield lives


@pytest.fixture(scope="module")
def apache_lives(request: pytest.FixtureRequest) -> Iterator[LivesAtOnce]:
    with begun(request, "apache") as lives:
        yield lives


@contextmanager
def begun(request: pytest.FixtureRequest, where: str) -> Iterator[LivesAtOnce]:
    """Every life that is going to be asked for, on a broker of their own."""
    usable(OTHER_CLIENTS)
    with started(where) as broker:
        lives = wanted(request, LIVES | CONTROLS, where=where)
        with LivesAtOnce(broker.bootstrap, lives, at_once=AT_ONCE) as at_once:
            yield at_once


def usable(clients: Mapping[str, GroupClient]) -> dict[str, GroupClient]:
    """Those whose tools are here, with everything built: lives that run at the same time would build it twice."""
    found = {}
    for name, client in clients.items():
        with contextlib.suppress(ToolMissing):
            client.command()
            found[name] = client
    return found


@contextmanager
def started(where: str) -> Iterator[RunningBroker]:
    try:
        broker = BROKERS[where]()
        broker.start()
    except ToolMissing as missing:
        without_tool(missing)
    try:
        yield broker
    finally:
        broker.discard()


def end_of(life: str, where: str, request: pytest.FixtureRequest) -> None:
    lives: LivesAtOnce = request.getfixturevalue(f"{where}_lives")
    try:
        lives.end_of(life)
    except ToolMissing as missing:
        without_tool(missing)


@pytest.mark.parametrize("where", BROKERS)
@pytest.mark.parametrize("life", LIVES)
def test_a_group_lives(life: str, where: str, request: pytest.FixtureRequest) -> None:
    end_of(life, where, request)


@pytest.mark.parametrize("where", ["apache"])
@pytest.mark.parametrize("life", CONTROLS)
def test_a_group_of_python_clients_lives_on_apache_kafka_too(
    life: str, where: str, request: pytest.FixtureRequest
) -> None:
    end_of(life, where, request)


@pytest.mark.parametrize("where", BROKERS)
def test_groups_outlive_their_broker(where: str) -> None:
    # On a node, Python's have been through it in `tests/clients`.
    clients = usable(OTHER_CLIENTS if where == "headrace" else ALL_CLIENTS)
    groups = [(name, client, client.assignors[-1]) for name, client in clients.items()]
    with started(where) as broker, refused_connections_forgiven():
        # Apache Kafka takes its time to come back.
        broker_restart(broker.bootstrap, groups, Exchange(broker).interrupt, unnoticed=where == "headrace")
    missing = sorted(set(OTHER_CLIENTS) - set(clients))
    if missing:
        without_tool(ToolMissing(f"no tools for {', '.join(missing)}"))
