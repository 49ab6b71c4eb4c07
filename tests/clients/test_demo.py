"""The demo, small: it starts, kills and restarts a node of its own and leaves nothing behind."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_succeeds_and_leaves_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "demo", "--events", "20000", "--partitions", "3", "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["agree"] is True
    assert told["failed"] == 0
    assert sum(tally["count"] for tally in told["read"]) == 20_000
    assert told["killed_at"] >= 10_000
    assert told["restart_s"] > 0
    assert list(tmp_path.iterdir()) == []
