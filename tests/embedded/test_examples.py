"""The suites in `examples/` are what users copy, so they have to run as they stand: alone, in parallel, by unittest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: str, cwd: Path = _EXAMPLES) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_all_of_them_in_two_workers() -> None:
    """Each of which has a broker of its own."""
    assert "14 passed" in run("pytest", "-n", "2", "-q", "-p", "no:cacheprovider", str(_EXAMPLES))


@pytest.mark.parametrize(
    ("folder", "pattern", "count"), [("confluent_orders", "*_unittest.py", 3), ("aiokafka_readings", "test*.py", 3)]
)
def test_by_unittest_alone(folder: str, pattern: str, count: int) -> None:
    assert f"Ran {count} tests" in run("unittest", "discover", "-s", str(_EXAMPLES / folder), "-p", pattern)
