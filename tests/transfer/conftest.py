from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.node_process import NodeProcess


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as process:
        yield process
