"""The C load, for the tests that run it; without a compiler they are skipped, or fail where all is required."""

from pathlib import Path

import pytest

from bench.load_program import c_load
from tests.oracle.toolbox import ToolMissing, without_tool


@pytest.fixture(scope="session")
def load_program() -> Path:
    try:
        return c_load()
    except ToolMissing as missing:
        without_tool(missing)
