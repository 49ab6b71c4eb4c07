"""The race as it is written, and the C load for the tests that run it: without a compiler they are skipped, or fail
where all is required."""

from pathlib import Path

import pytest

from bench import engines
from bench.load_program import c_load
from bench.run import RACE
from headrace.lab.race import Race, read_race
from tests.oracle.toolbox import ToolMissing, without_tool


@pytest.fixture(scope="session")
def load_program() -> Path:
    try:
        return c_load()
    except ToolMissing as missing:
        without_tool(missing)


@pytest.fixture(scope="session")
def race() -> Race:
    engines.register_all()
    return read_race(RACE)
