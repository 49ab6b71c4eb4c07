"""A real node on a real socket for every client test.

`node` is fresh for each test and may be killed and restarted; `shared_node` is one for the whole run, for
tests that only create topics of their own.
"""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture(scope="session")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    # Records of years ago are sent to it, and retention, five minutes after the start, falls in the midst of a test.
    for_ever = {"log.retention.ms": "-1"}
    with NodeProcess(tmp_path_factory.mktemp("shared-node") / "data", settings=for_ever) as process:
        yield process
        process.stop()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A legal name of its own for each test, so that tests can share a node."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:200]


@pytest.fixture(autouse=True)
def forgotten_sockets_of_clients() -> Iterator[None]:
    """Third-party clients leave sockets to the collector; collected here, they do not fail somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
