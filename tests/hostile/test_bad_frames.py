"""Hand-made bad frames: each costs its own connection at most."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess
from tests.hostile.frames import BAD_FRAMES, BadFrame, Expect, decode, error_codes
from tests.hostile.target import HonestClient, Wire, under_attack


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory: Path = tmp_path_factory.mktemp("attacked")
    with NodeProcess(directory / "data") as process:
        yield process
        process.stop()


@pytest.fixture(scope="module")
def honest(node: NodeProcess) -> Iterator[HonestClient]:
    with under_attack(node) as client:
        yield client


def test_there_are_enough_of_them() -> None:
    assert len({frame.name for frame in BAD_FRAMES}) == len(BAD_FRAMES) >= 60


@pytest.mark.parametrize("bad", BAD_FRAMES, ids=[frame.name.replace(" ", "-") for frame in BAD_FRAMES])
def test_it_costs_its_sender_alone(bad: BadFrame, node: NodeProcess, honest: HonestClient) -> None:
    with Wire(node.bootstrap, timeout_s=5) as wire:
        wire.send(bad.data)
        answer = wire.receive()
        if bad.expect is Expect.CLOSED:
            assert answer is None
        else:
            assert answer is not None, "closed without an answer"
            codes = error_codes(decode(bad, answer))
            assert (codes - {0} != set()) == (bad.expect is Expect.REFUSED), codes
    assert honest.failure is None
