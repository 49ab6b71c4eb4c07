"""Headrace with the same face as the oracle, so that one test can be given either."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from headrace.testing.node_process import NodeProcess


class RunningBroker(Protocol):
    """What a comparison may do with any broker."""

    name: str
    data_dir: Path

    @property
    def bootstrap(self) -> str: ...
    def partition_dir(self, topic: str, partition: int) -> Path: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def discard(self) -> None: ...
    def log_text(self) -> str: ...


class Headrace:
    """One node in a directory of its own."""

    name = "headrace"

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        self.data_dir = directory / "data"
        self._directory = directory
        self._node = NodeProcess(self.data_dir, settings=properties)

    @classmethod
    def temporary(cls, *, properties: Mapping[str, str] | None = None) -> "Headrace":
        return cls(Path(tempfile.mkdtemp(prefix="headrace-")), properties=properties)

    @property
    def bootstrap(self) -> str:
        return self._node.bootstrap

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}-{partition}"

    def start(self) -> None:
        self._node.start()

    def stop(self) -> None:
        self._node.stop()

    def kill(self) -> None:
        self._node.kill()

    def discard(self) -> None:
        self._node.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def log_text(self) -> str:
        return self._node.log_text()
