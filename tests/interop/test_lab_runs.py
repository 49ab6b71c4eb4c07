"""Runs of the lab with everything real: Apache Kafka, faults, neighbours, a target that dies, a known ceiling."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from headrace.lab.bottleneck import Verdict
from headrace.lab.readings.process_tree import everyone, tree
from headrace.lab.report.writing import write_report
from headrace.lab.results import Results, read_results
from headrace.lab.running import Moment, run_workload
from headrace.lab.search import DISTURBED_MAX, Trial
from headrace.lab.targets.running import running
from headrace.lab.targets.spec import find_target, parse_target
from headrace.lab.topics import create_topic
from headrace.lab.workload import parse_workload
from headrace.wire.cluster import Cluster
from headrace.wire.settings import client_settings
from tests.clients.command_line import command
from tests.interop.plants import HeldOff, busy_neighbour
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import ToolMissing, without_tool

SHORT: Mapping[str, Any] = {"rate": "2K", "duration": "3s", "warm_up": "1s", "repeats": 1, "payload": "weblog"}
SMALL = {"kind": "kafka", "heap": "256M"}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a run started has ended when it has."""
    before = {process.pid for process in everyone()}
    yield
    assert [each.name for each in tree(os.getpid()) if each.pid not in before and each.pid != os.getpid()] == []


def run(out: Path, target: Mapping[str, Any] | str, **changes: Any) -> Results:
    spec = find_target(target) if isinstance(target, str) else parse_target(target, name="target")
    return run_workload(parse_workload({**SHORT, **changes}, name="test"), spec, out=out)


def acknowledged_from(results: Results, second: int) -> int:
    """Of the seconds from that one on."""
    return sum(line.acknowledged for line in results.seconds if line.more["second"] >= second)


@pytest.fixture
def java() -> None:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)


@pytest.mark.usefixtures("java")
def test_apache_kafka_with_groups_of_consumers(tmp_path: Path) -> None:
    results = run(tmp_path, SMALL, groups=2, consumers=2, partitions=4, processes=2, stagger="200ms")
    assert results.partial is None
    (line,) = results.repeats
    assert line.partial is None
    sent = sum(second.acknowledged for second in results.seconds)
    assert sent > 0
    assert sum(second.consumed for second in results.seconds) == 2 * sent
    assert line.metrics["end_to_end_p50_ms"] > 0
    assert line.metrics["broker_cpu_percent"] > 0
    assert results.scenario.versions["Apache Kafka"]


@pytest.mark.usefixtures("java")
def test_a_topic_is_assigned_to_a_named_broker_of_three(tmp_path: Path) -> None:
    with running(parse_target({**SMALL, "brokers": 3}, name="three")) as target:
        leader = target.member("broker2").node_id
        create_topic(target.settings, "mine", partitions=3, replication=2, leader=leader)
        with Cluster(client_settings(config=target.settings)) as cluster:
            assert {cluster.leader("mine", number).node_id for number in range(3)} == {leader}
        # And one of three may die without the end of the run.
        target.member("broker3").kill()
        assert target.trouble() is None
        for name in ("broker1", "broker2"):
            target.member(name).kill()
        assert target.trouble() == "no broker is left"


@pytest.mark.usefixtures("java")
def test_a_workload_names_the_broker_that_has_its_topic(tmp_path: Path) -> None:
    with running(parse_target({**SMALL, "brokers": 3}, name="three")) as target:
        admin = AdminClient({"bootstrap.servers": target.bootstrap})
        seen: set[tuple[int, tuple[int, ...]]] = set()

        def watch(moment: Moment) -> None:
            topics = admin.list_topics(timeout=20).topics
            (mine,) = (topic for name, topic in topics.items() if name.startswith("mine"))
            assert len(mine.partitions) == 2
            seen.update((partition.leader, tuple(partition.replicas)) for partition in mine.partitions.values())

        for broker, replication in (("broker3", 1), ("2", 2)):
            seen.clear()
            workload = parse_workload(
                {**SHORT, "topic": "mine", "broker": broker, "partitions": 2, "replication": replication}, name="test"
            )
            results = run_workload(workload, find_target(target.bootstrap), out=tmp_path / broker, watch=watch)
            assert results.partial is None
            assert sum(second.acknowledged for second in results.seconds) > 0
            leader = target.member(broker).node_id
            assert {first for first, _ in seen} == {leader}
            assert {(len(replicas), replicas[0]) for _, replicas in seen} == {(replication, leader)}


@pytest.mark.usefixtures("java")
def test_three_brokers_of_which_one_is_killed(tmp_path: Path) -> None:
    quick = {"broker.heartbeat.interval.ms": 500, "broker.session.timeout.ms": 3000}
    results = run(
        tmp_path,
        {**SMALL, "brokers": 3, "properties": quick},
        faults="kill:broker1@2s",
        replication=3,
        partitions=3,
        duration="8s",
        acks=1,
    )
    assert results.partial is None
    (line,) = results.repeats
    assert line.events == ["broker1 killed at 2 s"]
    assert acknowledged_from(results, 3) > 0
    assert line.metrics["planned_latency_p999_ms"] > 0


def test_consumers_of_columns_get_everything_too(tmp_path: Path) -> None:
    """Of three that share two partitions one has nothing to do."""
    results = run(tmp_path, "node", groups=2, consumers=3, partitions=2, consumer_engine="columnar")
    (line,) = results.repeats
    sent = sum(second.acknowledged for second in results.seconds)
    assert sum(second.consumed for second in results.seconds) == 2 * sent
    assert sum(second.more.get("consumed_bytes", 0) for second in results.seconds) == 2 * sum(
        second.bytes for second in results.seconds
    )
    assert line.metrics["end_to_end_p50_ms"] > 0
    assert line.partial is None


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_a_backlog_is_consumed_after_all_was_sent(tmp_path: Path, engine: str) -> None:
    results = run(tmp_path, "node", groups=1, consumers=2, partitions=2, consume="after", consumer_engine=engine)
    (line,) = results.repeats
    sent = sum(second.acknowledged for second in results.seconds)
    assert sum(second.consumed for second in results.seconds) == sent
    assert line.metrics["consumed_per_s"] > 0


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_a_group_that_is_behind_begins_later_with_all_that_there_is(tmp_path: Path, engine: str) -> None:
    results = run(tmp_path, "node", groups=2, behind="2s", partitions=2, duration="5s", consumer_engine=engine)
    assert results.partial is None
    # The other reads at the end of the log meanwhile, so what both have got by then is what one has.
    early = [second for second in results.seconds if second.more["second"] < 2]
    sent_early, consumed_early = (sum(getattr(each, name) for each in early) for name in ("sent", "consumed"))
    assert 0 < consumed_early <= sent_early
    sent = sum(second.acknowledged for second in results.seconds)
    assert sum(second.consumed for second in results.seconds) == 2 * sent


def test_a_group_that_loses_partitions_to_somebody_else_stops_short_and_the_repeat_is_partial(tmp_path: Path) -> None:
    """A member that is none of the lab's joins its group, and keeps what it gets to itself."""
    workload = parse_workload({**SHORT, "topic": "shared", "partitions": 2, "groups": 2, "duration": "6s"}, name="test")
    over = threading.Event()

    def take(bootstrap: str) -> None:
        (topic,) = (
            name for name in AdminClient({"bootstrap.servers": bootstrap}).list_topics().topics if "shared" in name
        )
        settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group1", "enable.auto.commit": False}
        taker = Consumer(settings)
        taker.subscribe([topic])
        while not over.is_set():
            taker.poll(0.1)
        taker.close()

    with running(find_target("node"), partitions=1) as target:
        taking = threading.Thread(target=take, args=[target.bootstrap])

        def watch(moment: Moment) -> None:
            if moment.second == 0:
                taking.start()

        try:
            results = run_workload(workload, find_target(target.bootstrap), out=tmp_path, watch=watch)
        finally:
            over.set()
            if taking.ident is not None:
                taking.join()
    (line,) = results.repeats
    sent = sum(second.acknowledged for second in results.seconds)
    consumed = sum(second.consumed for second in results.seconds)
    assert sent < consumed < 2 * sent
    assert line.partial == results.partial == f"consumers got {consumed:,} of {2 * sent:,} messages"
    assert line.consumer_bottleneck is not None  # What held them up is told all the same.


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_what_retention_has_deleted_consumers_need_not_get(tmp_path: Path, engine: str) -> None:
    often = {"kind": "node", "properties": {"log.retention.check.interval.ms": 200}}
    results = run(
        tmp_path, often, groups=1, consume="after", consumer_engine=engine, payload="random", size=1000, duration="4s",
        topic_config={"retention.bytes": 1 << 20, "segment.bytes": 1 << 20},
    )  # fmt: skip
    assert results.partial is None
    (line,) = results.repeats
    sent = sum(second.acknowledged for second in results.seconds)
    consumed = sum(second.consumed for second in results.seconds)
    assert 0 < consumed < sent
    [event] = line.events
    assert event.startswith(f"consumers got {consumed:,} of {sent:,} messages: the topic's retention had deleted ")
    assert f"{sent - consumed:,} were not consumed" in line.gate["end_to_end_p50_ms"]


def test_without_acknowledgements_nobody_knows_what_was_there_to_consume(tmp_path: Path) -> None:
    """A broker can refuse a batch that nobody waits for only by hanging up."""
    results = run(
        tmp_path, "node", groups=1, acks=0, rate=500, payload="random", size="100-1000", batch_messages=1,
        topic_config={"max.message.bytes": 600},
    )  # fmt: skip
    assert results.partial is None
    (line,) = results.repeats
    given, consumed = (sum(getattr(each, name) for each in results.seconds) for name in ("acknowledged", "consumed"))
    assert consumed < given
    told = f"consumers got {consumed:,} of {given:,} messages: of the others nobody knows whether they arrived, with"
    assert f"{told} acks=0" in line.events


def test_a_slow_consumer_is_what_holds_consuming_up(tmp_path: Path) -> None:
    """It may run for a hundredth of the time, until all was sent; the sender is not held up by it."""
    duration_s = 6
    workload = parse_workload({**SHORT, "rate": "40K", "duration": f"{duration_s}s", "groups": 1}, name="slow")
    plants: list[HeldOff] = []

    def watch(moment: Moment) -> None:
        if not plants:
            slow = [each.pid for each in tree(os.getpid()) if "headrace.lab.consumer_process" in _arguments(each.pid)]
            assert slow
            plants.append(around.enter_context(HeldOff(slow, run_s=0.004, stop_s=0.396)))
        if moment.second >= duration_s:
            plants[0].lift()

    with ExitStack() as around:
        results = run_workload(workload, find_target("node"), out=tmp_path, watch=watch)
    assert results.partial is None
    (line,) = results.repeats
    assert line.consumer_bottleneck is not None
    assert line.consumer_bottleneck.verdict == Verdict.CONSUMER_CPU, line.consumer_bottleneck
    assert line.bottleneck is not None
    assert line.bottleneck.verdict == Verdict.NONE, line.bottleneck
    sent = sum(second.acknowledged for second in results.seconds)
    assert sum(second.consumed for second in results.seconds) == sent


def test_a_pause_shows_in_latency_from_the_plan_and_not_from_the_sending(tmp_path: Path) -> None:
    """Two seconds of twelve, for a sender that has room for some forty messages: the only ones that were under way."""
    results = run(
        tmp_path, "node", faults="pause:node@4s+2s", rate="1K", duration="12s", acks=1, linger=0, buffer="4KiB"
    )
    assert results.partial is None
    (line,) = results.repeats
    assert line.metrics["planned_latency_p99_ms"] > 1800
    assert line.metrics["send_latency_p99_ms"] < 900
    # It was there, and so few were sent into it that it disappears.
    assert line.metrics["send_latency_p50_ms"] < 900
    assert max(upper_us for upper_us, _ in line.histograms["send_latency"]) > 1.8e6


def test_a_node_that_is_killed_comes_back_where_it_is_told_to(tmp_path: Path) -> None:
    results = run(tmp_path, "node", faults="kill:node@2s+200ms", duration="8s")
    assert results.partial is None
    (line,) = results.repeats
    assert line.events == ["node killed at 2 s", "node started again at 2.2 s"]
    assert acknowledged_from(results, 3) > 0


def test_a_cut_is_survived(tmp_path: Path) -> None:
    results = run(tmp_path, "node", faults="cut:node@2s+500ms", duration="5s")
    assert results.partial is None
    assert acknowledged_from(results, 3) > 0


def test_a_target_that_dies_leaves_a_partial_result(tmp_path: Path) -> None:
    spec = find_target("node")
    killed = threading.Event()

    def watch(moment: Moment) -> None:
        if moment.second >= 1 and not killed.is_set():
            killed.set()
            (node,) = (each for each in tree(os.getpid()) if "serve" in _arguments(each.pid))
            os.kill(node.pid, signal.SIGKILL)

    workload = parse_workload({**SHORT, "duration": "20s", "repeats": 3}, name="dies")
    results = run_workload(workload, spec, out=tmp_path, watch=watch)
    assert results.partial == "node died"
    (line,) = results.repeats
    assert line.partial is not None
    assert line.partial.startswith("node died")
    page = write_report([results], tmp_path / "report", with_figures=False).page.read_text()
    assert "data-partial" in page
    assert "was cut short: node died" in page
    assert results.seconds[0].acknowledged > 0


def test_a_busy_neighbour_is_not_let_through(tmp_path: Path) -> None:
    with busy_neighbour():
        results = run(tmp_path, "node")
    (line,) = results.repeats
    assert line.gate["rate_per_s"] != "passed"
    assert set(line.gate.values()) == {line.gate["rate_per_s"]}
    assert "other processes took" in line.gate["rate_per_s"]


def test_the_search_finds_a_sink_that_is_limited(tmp_path: Path) -> None:
    """With a gate that lets anything pass: whether the machine is calm is not the question here. What the sink takes
    beyond its limit after a pause, of 50 ms, is one percent of a trial."""
    told: list[str] = []
    workload = parse_workload(
        {
            "rate": "40K",
            "duration": "5s",
            "warm_up": "1s",
            "repeats": 1,
            "gate": {"disturbance": 1000},
            "payload": "weblog",
        },
        name="search",
    )
    spec = parse_target({"kind": "null", "limit": "37K"}, name="limited")
    results = run_workload(
        workload, spec, out=tmp_path, is_search=True, tell_trial=lambda trial: told.append(str(trial))
    )
    (line,) = results.repeats
    assert line.metrics["max_rate_per_s"] == pytest.approx(37_000, rel=0.03)
    assert [each["kind"] for each in results.others] == ["trial"] * len(told)


def test_a_search_beside_a_busy_neighbour_is_given_up_with_the_reason(tmp_path: Path) -> None:
    told: list[Trial] = []
    workload = parse_workload({**SHORT, "duration": "500ms", "warm_up": "0s"}, name="search")
    with busy_neighbour():
        results = run_workload(workload, find_target("null"), out=tmp_path, is_search=True, tell_trial=told.append)
    assert results.partial is None
    assert [(trial.rate_per_s, trial.is_disturbed) for trial in told] == [(2_000, True)] * DISTURBED_MAX
    assert [each["is_disturbed"] for each in results.others] == [True] * DISTURBED_MAX
    (line,) = results.repeats
    assert line.metrics == {}
    assert "other processes took" in line.gate["max_rate_per_s"]


def test_a_number_of_messages_is_sent_when_the_last_of_them_is_answered(tmp_path: Path) -> None:
    """All of them are in the sender's buffer long before: it is the sink that has a rate."""
    changes: dict[str, Any] = {"rate": "max", "messages": 50_000, "duration": None, "warm_up": "0s"}
    results = run(tmp_path, {"kind": "null", "limit": "50K"}, **changes)
    (line,) = results.repeats
    assert sum(second.acknowledged for second in results.seconds) == 50_000
    assert line.metrics["rate_per_s"] < 55_000


def test_a_sweep_over_the_target_starts_it_anew(tmp_path: Path) -> None:
    results = run(tmp_path, "null", duration="2s", acks=1, sweep={"target.limit": ["500", "500K"]}, buffer="64KiB")
    slow, fast = (results.values(cell, "rate_per_s")[0] for cell in results.cells)
    assert slow < 1000 < fast


@pytest.mark.usefixtures("java")
def test_senders_and_consumers_are_tasks_of_spark(tmp_path: Path) -> None:
    workload, out = tmp_path / "fleet.yaml", tmp_path / "out"
    workload.write_text(json.dumps({**SHORT, "groups": 1, "processes": 2, "partitions": 2}))
    with command("", "lab", "run", str(workload), "--out", str(out), "--on", "local[4]", "--json") as process:
        try:
            told, complaint = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, complaint
    (cell,) = json.loads(told)["cells"]
    assert cell["metrics"]["end_to_end_p99_ms"]["value"] > 0
    results = read_results(next(out.iterdir()))
    assert sum(second.consumed for second in results.seconds) == sum(second.acknowledged for second in results.seconds)


def test_ctrl_c_leaves_what_was_known(tmp_path: Path) -> None:
    workload = tmp_path / "long.yaml"
    workload.write_text(json.dumps({**SHORT, "duration": "60s"}))
    out = tmp_path / "out"
    with command("", "lab", "run", str(workload), "--out", str(out)) as process:
        try:
            while not any(b'"second"' in file.read_bytes() for file in out.glob("*/results.jsonl")):
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in complaint
    (file,) = out.glob("*/results.jsonl")
    assert json.loads(file.read_text().splitlines()[-1]) == {"kind": "end", "partial": "stopped before its time"}


def test_a_lab_that_is_killed_leaves_no_broker_behind(tmp_path: Path) -> None:
    workload = tmp_path / "long.yaml"
    workload.write_text(json.dumps({**SHORT, "duration": "600s", "groups": 1}))
    out = tmp_path / "out"
    with command("", "lab", "run", str(workload), "--out", str(out)) as process:
        try:
            while not any(b'"second"' in file.read_bytes() for file in out.glob("*/results.jsonl")):
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            started = {each.pid: each.born_s for each in tree(process.pid)}
            (data,) = (
                Path(words[words.index("--data") + 1]) for pid in started if "--data" in (words := _arguments(pid))
            )
            assert data.is_dir()
        finally:
            process.kill()
    deadline_s = time.monotonic() + 60
    while data.exists() or any(started.get(each.pid) == each.born_s for each in everyone()):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
