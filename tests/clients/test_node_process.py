"""The node as a subprocess: what every other client test stands on."""

import re
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess, NodeProcessError


def test_a_node_keeps_its_port_over_a_kill_and_a_stop(node: NodeProcess) -> None:
    address = node.bootstrap
    assert not address.endswith(":0")
    node.kill()
    node.start()
    node.stop()
    node.start()
    assert node.bootstrap == address


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(NodeProcessError, match=r"(?s)exit status 1 before it was ready.*no\.such\.setting"),
        NodeProcess(tmp_path, settings={"no.such.setting": "1"}),
    ):
        pass


def test_data_in_use_is_refused(node: NodeProcess) -> None:
    with pytest.raises(NodeProcessError, match="in use"), NodeProcess(node.data):
        pass


def test_a_node_can_be_killed_before_it_is_ready(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data")
    try:
        node.launch()
        assert not node.has_ended
        node.kill()
        node.start()
        node.stop()
    finally:
        node.close()


def test_a_node_runs_inside_the_limits_of_its_wrapper(tmp_path: Path) -> None:
    wrapper = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
    with NodeProcess(tmp_path / "data", wrapper=wrapper) as node:
        limits = Path(f"/proc/{node.pid}/limits").read_text()
    assert re.search(r"Max open files\s+256\s+256\s", limits)
