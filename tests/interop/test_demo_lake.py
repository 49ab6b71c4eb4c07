"""`headrace demo-lake` as a user runs it, in short: its kills, its audit, its end, and with --keep what goes on."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.location import parse_location

PATIENCE_S = 300.0


@contextmanager
def demo(directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """At work in a directory of its own; whatever of it still runs when the test has looked is ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "demo-lake", "--seconds", "10", "--rate", "300", "--json", *words],
        env=os.environ | {"TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            for pid in at_work(directory):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def at_work(directory: Path) -> list[int]:
    """Processes that were started for this demo, by whomever: they have its directory in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended meanwhile, or is somebody else's.
        if f"TMPDIR={directory}".encode() in variables:
            found.append(int(path.parent.name))
    return found


def check_report(report: dict[str, Any]) -> None:
    assert (report["missing"], report["duplicated"]) == (0, 0)
    # Ten seconds at 300 a second, and what was sent while the first rows were waited for.
    assert report["rows"] > 2_000
    assert {row["tier"] for row in report["audit"]["rows"]} == {"node", "lake"}
    assert sum(row["arrived"] for row in report["audit"]["rows"] if row["tier"] == "lake") == report["rows"]
    assert len(report["windows"]) >= 2
    assert all(window["counted"] == window["rows"] for window in report["windows"])
    assert sum(window["counted"] for window in report["windows"]) == report["rows"]
    assert len(report["top_pages"]) == 5
    assert 0 < report["delay_ms_p50"] <= report["delay_ms_p99"]


def test_the_demo_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        out, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, told
        assert at_work(tmp_path) == []
    check_report(json.loads(out))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("headrace-demo-")]


def test_a_demo_that_is_kept_goes_on_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with demo(tmp_path, "--keep") as process:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        assert ready, "no report"
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        report = json.loads(line)
        check_report(report)
        lake = Path(report["directory"]) / "lake"
        wait_for_rows(lake, report["rows"] + 1_000)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told
        assert at_work(tmp_path) == []
    assert rows_told(lake) > report["rows"]  # Which stays.


def wait_for_rows(lake: Path, count: int) -> None:
    deadline_s = time.monotonic() + 60
    while (found := rows_told(lake)) < count:
        if time.monotonic() > deadline_s:
            pytest.fail(f"the lake has {found} rows, not {count}")
        time.sleep(0.5)


def rows_told(lake: Path) -> int:
    return sum(read_ledger(parse_location(lake))["rows"].to_pylist())
