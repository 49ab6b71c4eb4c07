"""The pytest plugin: `headrace_broker`, `headrace_topic` and `headrace_pool`, wherever Headrace is installed.

    def test_orders_are_kept(headrace_broker, headrace_topic):
        place_order(headrace_broker.bootstrap, headrace_topic)
        assert headrace_broker.wait_for_records(headrace_topic, 1)

One broker serves a whole session; under pytest-xdist every worker has its own. Tests keep apart by their topics.
Settings for the broker come from the ini option `headrace_config`, one `name=value` a line, under Kafka's names.

Nothing is imported or started before a test asks for it.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.testing import Broker, BrokerPool

_numbers = count(1)
_MARKER = "headrace_topic(partitions=1, **config): how the topic of the fixture headrace_topic is made"
_NAME_CHARS_MAX = 180


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("headrace_config", "settings of the fixture headrace_broker, one name=value a line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def headrace_config(pytestconfig: pytest.Config) -> dict[str, str]:
    """The broker's settings. A suite that needs more than the ini option can say overrides this fixture."""
    settings = {}
    for line in pytestconfig.getini("headrace_config"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"headrace_config: {line!r} is not name=value")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def headrace_broker(headrace_config: dict[str, str]) -> "Iterator[Broker]":
    """A broker for the whole session. What a test changes beside topics of its own, it changes for the next."""
    from headrace.testing import Broker

    with Broker(headrace_config) as broker:
        yield broker


@pytest.fixture
def headrace_topic(headrace_broker: "Broker", request: pytest.FixtureRequest) -> str:
    """The name of a topic of this test's own; `@pytest.mark.headrace_topic(partitions=3)` says what it is like."""
    test = re.sub(r"[^a-zA-Z0-9.-]+", "-", request.node.name).strip("-")[:_NAME_CHARS_MAX]
    name = f"{test}-{next(_numbers)}"
    marker = request.node.get_closest_marker("headrace_topic")
    headrace_broker.create_topic(name, **(_said_by(marker) if marker is not None else {}))
    return name


def _said_by(marker: pytest.Mark) -> dict[str, Any]:
    if not marker.args:
        return dict(marker.kwargs)
    partitions, *others = marker.args
    if others or not isinstance(partitions, int) or "partitions" in marker.kwargs:
        raise pytest.UsageError(f"{_MARKER.partition(':')[0]} is not to be given {marker.args!r}, {marker.kwargs!r}")
    return {"partitions": partitions, **marker.kwargs}


@pytest.fixture(scope="session")
def headrace_pool() -> "Iterator[BrokerPool]":
    """For tests that want a broker of their own: `with headrace_pool.broker() as broker`."""
    from headrace.testing import BrokerPool

    with BrokerPool() as pool:
        yield pool
