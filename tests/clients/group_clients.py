"""The Python clients as members of groups, and the lives that each can lead."""

from collections.abc import Iterable, Mapping
from functools import partial

from tests.clients.group_lives import GroupClient, come_and_go, positions, static_restart
from tests.clients.group_pool import Life, named
from tests.clients.group_processes import python_member

PYTHON_CLIENTS: dict[str, GroupClient] = {
    client.name: client
    for client in (
        # librdkafka has no eager sticky assignor, and aiokafka no cooperative one.
        GroupClient(
            "confluent-kafka",
            partial(python_member, "confluent-kafka"),
            assignors=("range", "roundrobin", "cooperative-sticky"),
            static="cooperative-sticky",
        ),
        GroupClient(
            "kafka-python",
            partial(python_member, "kafka-python"),
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            static="cooperative-sticky",
        ),
        GroupClient(
            "aiokafka",
            partial(python_member, "aiokafka"),
            assignors=("range", "roundrobin", "sticky"),
            static="sticky",
        ),
    )
}


def comings_and_goings(clients: Iterable[GroupClient]) -> dict[str, Life]:
    """Of each client with each assignor that it has."""
    return named(
        "come and go",
        (
            (f"{client.name} {assignor}", partial(come_and_go, clients=[client] * 3, assignor=assignor))
            for client in clients
            for assignor in client.assignors
        ),
    )


def mixed_companies(clients: Mapping[str, GroupClient], *companies: tuple[str, str, str]) -> dict[str, Life]:
    """Different clients in one group. What one says when it joins, another's assignor must understand."""
    return named(
        "mixed",
        (
            (" ".join(names), partial(come_and_go, clients=[clients[name] for name in names], assignor="range"))
            for names in companies
        ),
    )


def static_restarts(clients: Iterable[GroupClient]) -> dict[str, Life]:
    return named(
        "static",
        (
            (client.name, partial(static_restart, client=client, assignor=client.static))
            for client in clients
            if client.static is not None
        ),
    )


def position_changes(clients: Iterable[GroupClient]) -> dict[str, Life]:
    return named(
        "positions",
        (
            (client.name, partial(positions, client=client, assignor=client.assignors[0]))
            for client in clients
            if client.positions
        ),
    )
