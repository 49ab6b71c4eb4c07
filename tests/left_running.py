"""Processes that a test has started, however far down and whoever their parent is by now."""

import os
import time
import uuid
from pathlib import Path
from typing import Final

import pytest

_MARK: Final = "HEADRACE_TEST_MARK"
_GONE_S: Final = 10.0  # Whoever takes things away after its parent's end needs a moment for it.


class Marked:
    """From its making on, all that is started inherits a variable by which it is known again: one that was handed over
    to another parent is no child any more, and has it still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._value = uuid.uuid4().hex
        monkeypatch.setenv(_MARK, self._value)

    def running(self) -> list[str]:
        """What they were started as. Our own environment is that of before, as the kernel has it."""
        mark = f"{_MARK}={self._value}".encode()
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue  # Gone meanwhile, or somebody else's.
        return found

    def check_none_left(self) -> None:
        deadline_s = time.monotonic() + _GONE_S
        while left := self.running():
            assert time.monotonic() < deadline_s, left
            time.sleep(0.02)
