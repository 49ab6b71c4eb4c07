"""Senders as tasks of a Spark stage: on this machine, and on a standalone cluster with two workers."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.lab.histogram import Histogram
from headrace.testing import Broker
from tests.clients.command_line import command
from tests.pipeline.spark_processes import EXECUTOR, PYTHON_WORKER, SparkCluster, wait_until

SENDERS = 2
RUN_S_MAX = 240.0  # Spark begins, perhaps beside much else.


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


def on(cluster: SparkCluster) -> list[str]:
    options = (word for pair in cluster.options.items() for word in ("--spark-option", "=".join(pair)))
    return ["--on", cluster.master, *options]


def send(broker: Broker, *words: str | Path, status: int = 0) -> tuple[str, str]:
    """What the command said: to whoever asked, and beside it."""
    with command(broker.bootstrap, "lab", "send", *map(str, words)) as running:
        out, told = (text.decode() for text in running.communicate(timeout=RUN_S_MAX))
    assert running.returncode == status, told
    return out, told


@pytest.mark.parametrize(("topic", "engine"), [("local", "librdkafka"), ("standalone", "columnar")])
def test_what_is_acknowledged_is_what_is_in_the_topic(
    request: pytest.FixtureRequest, broker: Broker, topic: str, engine: str, tmp_path: Path
) -> None:
    if topic == "local":
        place = ["--on", f"local[{SENDERS}]"]
    else:
        place = [*on(request.getfixturevalue("cluster")), "--processes", str(SENDERS)]
    broker.create_topic(topic, 3)
    lines = tmp_path / "run.jsonl"
    words = (topic, "--rate", "3K", "--duration", "2s", "--engine", engine, "--out", lines, "--json", *place)
    out, told = send(broker, *words)
    assert told == ""  # Spark has nothing to say where all is well.
    summary = json.loads(out)
    assert summary["planned"] == summary["sent"] == summary["acknowledged"] == 6_000
    assert len(broker.records(topic)) == 6_000
    run, *seconds, last = map(json.loads, lines.read_text().splitlines())
    assert (run["senders_on"], run["scenario"]["processes"]) == (place[1], SENDERS)
    if topic == "local":
        assert run["clocks"] == "one host, one clock"
    else:
        # Spark does not say that its executors are on this host. They are, so all that is found is doubt.
        told = re.fullmatch(rf"{SENDERS} others are off by (\S+) to (\S+) ms, each ± (\S+) ms at most", run["clocks"])
        assert told is not None, run["clocks"]
        low_ms, high_ms, error_ms = map(float, told.groups())
        assert -error_ms - 0.01 <= low_ms <= high_ms <= error_ms + 0.01
    assert sum(second["acknowledged"] for second in seconds) == last["acknowledged"] == 6_000
    assert Histogram.from_json(last["latency_planned_histogram"]).count == 6_000
    assert not last["is_partial"]


def test_too_few_slots_are_one_line_and_no_hang(broker: Broker) -> None:
    out, told = send(broker, "lab", "--rate", "10", "--on", "local[2]", "--processes", "3", status=1)
    assert out == ""
    assert told == ("headrace: 3 must run at once on local[2], which has room for 2: take fewer, or more cores\n")


def test_a_cluster_with_too_few_slots_is_one_line_too(broker: Broker, cluster: SparkCluster) -> None:
    soon = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures=3"
    words = (*on(cluster), "--processes", "5", "--spark-option", soon)
    _, told = send(broker, "lab", "--rate", "10", *words, status=1)
    assert told.count("\n") == 1
    assert f"5 must run at once on {cluster.master}, which has not room for so many" in told


def test_senders_that_cannot_connect_say_why_once(broker: Broker) -> None:
    words = ("lab", "--rate", "10", "--on", "local[2]", "--bootstrap", "127.0.0.1:1", "--timeout", "2")
    _, told = send(broker, *words, status=1)
    assert told.count("\n") == 1
    assert "cannot reach the cluster" in told


def test_ctrl_c_gives_what_there_is(broker: Broker) -> None:
    broker.create_topic("interrupted")
    words = ("lab", "send", "interrupted", "--rate", "1K", "--duration", "300s", "--json", "--on", "local[2]")
    with command(broker.bootstrap, *words) as running:
        broker.wait_for_records("interrupted", 500, timeout_s=RUN_S_MAX)
        running.send_signal(signal.SIGINT)
        out, told = running.communicate(timeout=RUN_S_MAX)
    assert (running.returncode, told) == (130, b"")
    summary = json.loads(out)
    assert summary["is_partial"]
    assert summary["sent"] == summary["acknowledged"] == len(broker.records("interrupted")) >= 500


def test_a_lost_executor_leaves_a_partial_result_that_says_so(broker: Broker, cluster: SparkCluster) -> None:
    broker.create_topic("lost")
    words = ("lab", "send", "lost", "--rate", "1K", "--duration", "300s", "--json", *on(cluster), "--processes", "2")
    with command(broker.bootstrap, *words) as running:
        broker.wait_for_records("lost", 2_000, timeout_s=RUN_S_MAX)
        for pid in cluster.processes(EXECUTOR)[:1]:
            os.kill(pid, signal.SIGKILL)
        out, told = running.communicate(timeout=RUN_S_MAX)
    assert running.returncode == 1
    summary = json.loads(out)
    assert summary["is_partial"]
    assert summary["outcome"]["troubles"]
    assert 0 < summary["acknowledged"] <= len(broker.records("lost"))
    assert b"sender" in told
    wait_until(lambda: not cluster.processes(EXECUTOR), 60, what="a cluster on which nothing runs")
    assert not cluster.processes(PYTHON_WORKER)
