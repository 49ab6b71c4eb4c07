"""The demo, small: it starts, kills and restarts a node of its own and leaves nothing behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from headrace.cli.demo_group import NODE_SETTINGS, Scene
from headrace.lab import weblog
from headrace.testing.node_process import NodeProcess


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
    group = told["group"]
    assert (group["acknowledged"], group["read"], group["lost"]) == (20_000, 20_000, 0)
    assert [member["name"] for member in group["members"]] == ["ada", "ben", "cem"]
    assert all(member["read"] > 0 for member in group["members"])
    assert [member["killed"] for member in group["members"]] == [True, False, False]
    owned = [partition for member in group["members"] for partition in member["partitions"]]
    assert sorted(owned) == list(range(6))
    assert group["members"][0]["partitions"] == []
    assert told["arrow"]["rows"] == 20_000
    assert max(told["arrow"]["pages"].values()) > 200
    assert list(tmp_path.iterdir()) == []


def test_who_joins_a_group_reads_nothing_again(tmp_path: Path) -> None:
    """With fewer events than are committed at a time, only a commit when partitions are taken tells the next one."""
    lines = list(islice(weblog.lines(1), 400))
    with NodeProcess(tmp_path / "data", settings=NODE_SETTINGS) as node:
        # Nobody is taken for dead, however slow the machine.
        scene = Scene(node.bootstrap, tmp_path, client={}, check_stop=lambda: None, session_timeout_ms=45_000)
        try:
            scene.create_topic()
            scene.start("ada")
            scene.begin_writing(lines[:200])
            scene.wait_until("everything read", scene.is_all_read)
            scene.start("ben")
            scene.wait_until("a group of two", lambda: scene.is_shared_by("ada", "ben"))
            scene.begin_writing(lines[200:])
            scene.start("cem")
            scene.wait_until("a group of three", lambda: scene.is_shared_by("ada", "ben", "cem"))
            scene.wait_until("everything read", scene.is_all_read)
        finally:
            for member in scene.members.values():
                member.close()
    assert (len(scene.outcome.read), scene.outcome.lost, scene.outcome.read_again) == (400, 0, 0)


def test_an_interrupted_demo_takes_its_node_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli.main", "demo"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        address = re.match(rb"A node is ready on 127\.0\.0\.1:(\d+)", demo.stdout.readline())
        assert address is not None
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, b"")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address[1])), timeout=5)


def test_the_lab_is_shown_and_leaves_a_page(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "demo-lab", "--out", out, "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [cell["cell"]["rate"] for cell in told["cells"]] == ["10K", "100K"]
    assert all(cell["metrics"]["rate_per_s"]["value"] > 5_000 for cell in told["cells"])
    assert Path(told["report"]).read_text().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [out]
