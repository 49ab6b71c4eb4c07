"""Consumer groups of three Python clients, alone and together, on one node.

What a life is, and what is held against it, is in `group_lives.py`.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess
from tests.clients.group_clients import (
    PYTHON_CLIENTS,
    comings_and_goings,
    mixed_companies,
    position_changes,
    static_restarts,
)
from tests.clients.group_lives import BROKER_SETTINGS, broker_restart
from tests.clients.group_pool import LivesAtOnce, named, wanted

COMINGS_AND_GOINGS = comings_and_goings(PYTHON_CLIENTS.values())
MIXED = mixed_companies(PYTHON_CLIENTS, ("kafka-python", "confluent-kafka", "aiokafka"))
STATIC = static_restarts(PYTHON_CLIENTS.values())
POSITIONS = position_changes(PYTHON_CLIENTS.values())


def outlive(bootstrap: str, name: str, *, how: str) -> None:
    """On a node of their own, which is stopped or killed, and started again."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-groups-") as directory,
        NodeProcess(Path(directory) / "data", settings=BROKER_SETTINGS) as node,
    ):

        def interrupt() -> None:
            getattr(node, how)()
            node.start()

        groups = [(f"{name}-{client}", one, one.assignors[-1]) for client, one in PYTHON_CLIENTS.items()]
        broker_restart(node.bootstrap, groups, interrupt, unnoticed=True)
        node.stop()


RESTARTS = named("restart", ((how, partial(outlive, how=how)) for how in ("stop", "kill")))

# All lives begin with the first test that asks for one, and the last may have to wait for its turn.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivesAtOnce]:
    directory: Path = tmp_path_factory.mktemp("groups")
    with NodeProcess(directory / "data", settings=BROKER_SETTINGS) as node:
        all_lives = wanted(request, RESTARTS | COMINGS_AND_GOINGS | MIXED | STATIC | POSITIONS)
        with LivesAtOnce(node.bootstrap, all_lives, at_once=8) as begun:
            yield begun
        node.stop()


@pytest.mark.parametrize("life", [*COMINGS_AND_GOINGS, *MIXED])
def test_members_come_and_go_and_every_partition_has_one_owner(life: str, lives: LivesAtOnce) -> None:
    lives.end_of(life)


@pytest.mark.parametrize("life", STATIC)
def test_a_static_member_comes_back_and_nobody_notices(life: str, lives: LivesAtOnce) -> None:
    lives.end_of(life)


@pytest.mark.parametrize("life", POSITIONS)
def test_members_commit_seek_pause_and_resume(life: str, lives: LivesAtOnce) -> None:
    lives.end_of(life)


@pytest.mark.parametrize("life", RESTARTS)
def test_groups_outlive_their_broker(life: str, lives: LivesAtOnce) -> None:
    lives.end_of(life)
