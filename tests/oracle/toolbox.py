"""Finding the tools that a comparison needs, and the cache where what they fetched is kept: the project's own.

A missing tool is told apart from a failing one: only the first may skip a test, and not even that where
`HEADRACE_REQUIRE=all` says that this machine is meant to have everything.
"""

import os
from pathlib import Path
from typing import NoReturn

from headrace.lab.targets.tools import CACHE_VARIABLE, ToolMissing, cached_build, require_tool, run_checked

__all__ = ["CACHE_DIR", "REQUIRE_ALL", "ToolMissing", "cached_build", "require_tool", "run_checked", "without_tool"]

CACHE_DIR = Path(__file__).resolve().parents[2] / ".cache"
REQUIRE_ALL = os.environ.get("HEADRACE_REQUIRE") == "all"

# Also for the commands that tests start: what was fetched for one is there for all.
os.environ.setdefault(CACHE_VARIABLE, str(CACHE_DIR))


def without_tool(missing: ToolMissing) -> NoReturn:
    """Leave a test that cannot run here: skipped with the reason, or failed where everything is required."""
    import pytest  # The bench uses this module too, and has no need of it.

    if REQUIRE_ALL:
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing), allow_module_level=True)
