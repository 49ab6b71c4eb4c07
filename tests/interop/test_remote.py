"""Senders in a network namespace, where this machine lets us make one; where it does not, it says what it lacks."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.errors import NotMeasurableHere
from headrace.lab.remote import check_elsewhere, link
from tests.clients.command_line import Headrace
from tests.oracle.toolbox import ToolMissing, without_tool
from tests.pipeline.spark_processes import wait_until

RUN_S_MAX = 120.0
LINK_MIB_PER_S = 1e9 / 8 / 2**20


@pytest.fixture(scope="module")
def links() -> None:
    try:
        with link():
            pass
    except NotMeasurableHere as lack:
        without_tool(ToolMissing(str(lack)))


def words(*more: str) -> list[str]:
    return [sys.executable, "-m", "headrace.cli.main", "lab", "send", "--remote", "--json", *more]


@contextmanager
def begun(*more: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(words(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def left_of(pid: int) -> list[str]:
    """Namespaces and interfaces that belong to a run."""
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return [line for line in (namespaces + links).splitlines() if f"headrace-lab-{pid}" in line or f"hr{pid}n" in line]


def sent(*more: str) -> dict[str, Any]:
    with begun(*more) as running:
        out, told = running.communicate(timeout=RUN_S_MAX)
    assert (running.returncode, told) == (0, "")
    assert left_of(running.pid) == []
    summary: dict[str, Any] = json.loads(out)
    return summary


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("to", ["node", "null"])
def test_a_run_from_elsewhere_reaches_what_is_started_for_it(to: str, tmp_path: Path) -> None:
    lines = tmp_path / "run.jsonl"
    summary = sent("--to", to, "--rate", "2K", "--duration", "1s", "--processes", "2", "--out", str(lines))
    assert summary["acknowledged"] == summary["planned"] == 2_000
    assert json.loads(lines.read_text().splitlines()[0])["senders_on"] == "a network namespace over 1 Gbit/s"


@pytest.mark.usefixtures("links")
def test_the_link_takes_no_more_than_its_rate() -> None:
    load = ("--payload", "random", "--size", "20000", "--batch-size", "1MiB", "--engine", "columnar")
    summary = sent("--to", "null", "--rate", "max", "--duration", "3s", "--acks", "1", *load)
    # What was sent until the end may still have waited in buffers, for no longer than the wait for answers.
    assert 1 < summary["acknowledged"] * 20_000 / 2**20 / 3 < LINK_MIB_PER_S * 1.25


@pytest.mark.usefixtures("links")
def test_a_run_that_is_told_to_end_takes_everything_away() -> None:
    with begun("--to", "null", "--rate", "100", "--duration", "300s") as running:
        wait_until(lambda: len(left_of(running.pid)) == 2, RUN_S_MAX, what="a namespace")
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=RUN_S_MAX)
    assert running.returncode == 128 + signal.SIGTERM
    assert left_of(running.pid) == []


@pytest.mark.usefixtures("links")
def test_what_a_killed_run_left_is_taken_away_by_the_next() -> None:
    with begun("--to", "null", "--rate", "100", "--duration", "300s") as running:
        wait_until(lambda: len(left_of(running.pid)) == 2, RUN_S_MAX, what="a namespace")
        running.kill()
        running.communicate(timeout=RUN_S_MAX)
    assert left_of(running.pid)
    with link() as made:
        assert left_of(os.getpid())
        assert made.near_address
    # The kernel takes the interface away a little after the namespace, once whoever sent from there has noticed.
    wait_until(lambda: not left_of(running.pid), RUN_S_MAX, what="nothing left")


@contextmanager
def container() -> Iterator[str]:
    """The address of what is like one: a namespace on a bridge of this host."""
    there, address = f"headrace-test-{os.getpid()}", "198.18.255.2"
    bridge, near, far = (f"hrt{os.getpid()}{end}" for end in "bnf")
    made = (
        ("netns", "add", there),
        ("link", "add", bridge, "type", "bridge"),
        ("address", "add", "198.18.255.1/24", "dev", bridge),
        ("link", "add", near, "type", "veth", "peer", "name", far, "netns", there),
        ("link", "set", near, "master", bridge),
        ("-n", there, "address", "add", f"{address}/24", "dev", far),
        ("link", "set", bridge, "up"),
        ("link", "set", near, "up"),
        ("-n", there, "link", "set", far, "up"),
    )
    try:
        for each in made:
            subprocess.run(("ip", *each), check=True)
        yield address
    finally:
        subprocess.run(("ip", "link", "delete", bridge), check=False)
        subprocess.run(("ip", "link", "delete", near), check=False)
        subprocess.run(("ip", "netns", "delete", there), check=False)


@pytest.mark.usefixtures("links")
def test_what_hangs_on_a_bridge_of_this_host_is_not_remote() -> None:
    with container() as address:
        with pytest.raises(NotMeasurableHere, match=rf"{address}:9092 is on this host, at hrt\d+b, a bridge without"):
            check_elsewhere([f"{address}:9092"])
        ran = subprocess.run(words("--rate", "10", "--bootstrap", f"{address}:9092"), capture_output=True, check=False)
        assert (ran.returncode, ran.stdout) == (3, b"")
        assert b"is on this host, at hrt" in ran.stderr


@pytest.mark.usefixtures("links")
def test_the_far_end_of_a_link_is_on_this_host() -> None:
    with link() as made, pytest.raises(NotMeasurableHere, match=rf"is on this host, at {made.near}, a veth without"):
        check_elsewhere([f"{made.far_address}:9092"])


SENDERS = """
rate: 500
duration: 1s
warm_up: 0s
repeats: 1
readings: false
sweep:
  sender: [null, remote]
"""
TOGETHER = """
rate: 500
duration: 2s
warm_up: 0s
repeats: 1
processes: 2
sender: local+remote
"""


def run_workload(directory: Path, text: str, *more: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Of `headrace lab run`, with its results in a directory."""
    workload = directory / "senders.yaml"
    workload.write_text(text)
    command = [sys.executable, "-m", "headrace.cli.main", "lab", "run", str(workload), "--out", str(directory / "out")]
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    return subprocess.run([*command, "--json", *more], capture_output=True, text=True, check=False, env=environment)


def repeats_of(directory: Path) -> dict[str | None, dict[str, Any]]:
    """By where their senders were."""
    (path,) = (directory / "out").glob("*/results.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return {line["cell"]["sender"]: line for line in lines if line["kind"] == "repeat"}


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("target", ["node", "null"])
def test_a_workload_has_senders_here_and_elsewhere(tmp_path: Path, target: str) -> None:
    ran = run_workload(tmp_path, SENDERS, "--target", target)
    assert ran.returncode == 0, ran.stderr
    for line in repeats_of(tmp_path).values():
        assert line["metrics"]["rate_per_s"] > 0
    assert len(repeats_of(tmp_path)) == 2


@pytest.mark.usefixtures("links")
def test_a_workload_has_senders_here_and_elsewhere_at_once(tmp_path: Path) -> None:
    ran = run_workload(tmp_path, TOGETHER, "--target", "node")
    assert ran.returncode == 0, ran.stderr
    (path,) = (tmp_path / "out").glob("*/results.jsonl")
    (repeat,) = (line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "repeat")
    assert repeat["metrics"]["rate_per_s"] == pytest.approx(500, rel=0.1)
    read = [json.loads(line) for line in (path.parent / "readings-0.jsonl").read_text().splitlines()]
    seconds = [line["machine"]["interfaces"] for line in read if line["type"] == "reading"]
    # One of the two comes over loopback, and one over the link.
    for there in ("lo", next(name for name in seconds[0] if name.startswith("hr"))):
        assert max(second[there]["received_bytes_per_s"] for second in seconds) > 20_000


def test_senders_here_and_elsewhere_are_not_measurable_without_a_link(tmp_path: Path) -> None:
    ran = run_workload(tmp_path, TOGETHER, "--target", "null", path="/nowhere")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("headrace: not measurable here: ")


def test_cells_that_cannot_be_measured_say_so_beside_those_that_can(tmp_path: Path) -> None:
    ran = run_workload(tmp_path, SENDERS, "--target", "null", path="/nowhere")
    assert ran.returncode == 0, ran.stderr
    repeats = repeats_of(tmp_path)
    assert repeats[None]["metrics"]["rate_per_s"] > 0
    assert repeats["remote"]["metrics"] == {}
    assert repeats["remote"]["gate"]["rate_per_s"]
    (path,) = (tmp_path / "out").glob("*/results.jsonl")
    shown = Headrace("127.0.0.1:1")("lab", "show", path.parent)
    assert f"sender=remote: not measurable here: {repeats['remote']['gate']['rate_per_s']}" in shown.stderr
    Headrace("127.0.0.1:1")("lab", "report", path.parent, "--out", tmp_path / "report")


def test_a_workload_of_which_nothing_can_be_measured_has_that_status(tmp_path: Path) -> None:
    text = SENDERS.replace("null, ", "")
    ran = run_workload(tmp_path, text, "--target", "null", path="/nowhere")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("headrace: not measurable here: ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--to", "node"), "not measurable here: "),
        (("--bootstrap", "127.0.0.1:9092"), "not measurable here: 127.0.0.1:9092 is on this host"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_a_status_of_its_own(more: tuple[str, ...], said: str) -> None:
    without_tools = {**os.environ, "PATH": "/nowhere"}
    ran = subprocess.run(words("--rate", "10", *more), capture_output=True, text=True, check=False, env=without_tools)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"headrace: {said}")
    assert ran.stderr.count("\n") == 1
