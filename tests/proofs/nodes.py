"""Nodes under proof: what they logged is kept beside their data when a proof fails."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.testing.node_process import NodeProcess
from tests.hostile.target import Wire

# Busy machines are slow, and a proof is no race.
ANSWER_S_MAX = 60.0
START_S_MAX = 60.0


@contextmanager
def running(node: NodeProcess) -> Iterator[NodeProcess]:
    """Started on entry; nothing of it runs any more afterwards."""
    try:
        node.start(timeout_s=START_S_MAX)
        yield node
    except BaseException:
        node.data.with_name(f"{node.data.name}.log").write_text(node.log_text())
        raise
    finally:
        node.close()


def connect(node: NodeProcess) -> Wire:
    return Wire(node.bootstrap, timeout_s=ANSWER_S_MAX)
