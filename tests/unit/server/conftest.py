"""Nodes behind real sockets, on either loop; what reached the loop unhandled fails the test."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.server.served_node import LOOPS, Serve, ServedNode


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serve]:
    loop: asyncio.AbstractEventLoop = request.param()
    nodes: list[ServedNode] = []

    def make(**settings: str) -> ServedNode:
        served = ServedNode(loop, tmp_path, {key.replace("_", "."): value for key, value in settings.items()})
        nodes.append(served)
        return served

    yield make
    for served in nodes:
        served.close()
    loop.close()
    assert [served.faults for served in nodes] == [[]] * len(nodes)


@pytest.fixture
def served(serve: Serve) -> ServedNode:
    node = serve()
    node.create("t")
    return node
