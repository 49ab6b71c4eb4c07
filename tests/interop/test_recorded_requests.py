"""Requests to Apache Kafka, which counts none of them for us, recorded by a proxy before it."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.lab.readings.node_counts import RequestClass
from headrace.lab.readings.recorder import RECORDED
from headrace.lab.readings.request_spreads import Spread, read_spreads
from headrace.lab.report.writing import write_report
from headrace.lab.results import Results
from headrace.lab.running import run_workload
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import parse_target
from headrace.lab.topics import create_topic
from headrace.lab.workload import parse_workload
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import ToolMissing, without_tool

SMALL = {"kind": "kafka", "heap": "256M"}
PRODUCE, FETCH = (RequestClass(name, "client") for name in ("Produce", "Fetch"))
BATCH_MESSAGES, MESSAGES = 50, 2000
DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)


def run(out: Path, **given: Any) -> Results:
    short = {"warm_up": "0s", "repeats": 1, "payload": "weblog", "record": True}
    return run_workload(parse_workload({**short, **given}, name="recorded"), parse_target(SMALL, name="kafka"), out=out)


def recorded(results: Results, broker: str = "broker1") -> Mapping[RequestClass, Mapping[str, Spread]]:
    return read_spreads(results.path.parent / "readings-0.jsonl")[broker]


@pytest.mark.parametrize("acks", ["0", "all"])
def test_every_request_of_columnar_senders_and_consumers_is_recorded(tmp_path: Path, acks: str) -> None:
    """Whose requests can be counted: each has one batch of the only partition, and batches go when they are full."""
    results = run(
        tmp_path, engine="columnar", consumer_engine="columnar", groups=1, acks=acks, rate="2K", messages=MESSAGES,
        batch_messages=BATCH_MESSAGES, linger="60s",
    )  # fmt: skip
    assert results.partial is None
    assert sum(second.consumed for second in results.seconds) == MESSAGES
    sent_bytes = sum(second.bytes for second in results.seconds)
    found = recorded(results)
    produce, fetch = found[PRODUCE], found[FETCH]
    assert produce["request_bytes"].recorded == MESSAGES / BATCH_MESSAGES
    assert produce["interarrival_us"].recorded == MESSAGES / BATCH_MESSAGES - 1
    assert sent_bytes < produce["request_bytes"].total < 2 * sent_bytes
    answered = 0 if acks == "0" else MESSAGES / BATCH_MESSAGES
    assert produce["answer_us"].recorded == produce["response_bytes"].recorded == answered
    assert sent_bytes < fetch["response_bytes"].total < 2 * sent_bytes
    # One may be under way when it is over.
    assert fetch["request_bytes"].recorded - 1 <= fetch["answer_us"].recorded <= fetch["request_bytes"].recorded
    assert produce["answer_us"].mean != 0
    page = write_report([results], tmp_path / "report", with_figures=False).page.read_text()
    assert "data-recorded" in page
    assert RECORDED in page


def test_librdkafka_has_sent_as_many_as_it_was_seen_to_send(tmp_path: Path) -> None:
    results = run(tmp_path, groups=1, rate="2K", duration="4s", partitions=2)
    found = recorded(results)
    lines = (results.path.parent / "readings-0.jsonl").read_text().splitlines()
    told = [value for line in lines if (value := json.loads(line))["type"] == "client"]
    (broker,) = told[-1]["brokers"].values()
    assert {"mean", "stddev", "p99"} <= broker["round_trip_ms"].keys()
    # It tells once a second, and not at the end.
    seen, messages = broker["requests_by_kind"]["Produce"], sum(second.sent for second in results.seconds)
    assert 0 < seen <= found[PRODUCE]["request_bytes"].recorded <= messages
    assert found[PRODUCE]["answer_us"].recorded == found[PRODUCE]["request_bytes"].recorded
    assert found[FETCH]["answer_us"].recorded > 0
    joined = found[RequestClass("JoinGroup", "client")]
    assert joined["request_bytes"].recorded >= 1


def settled(told: list[dict[str, Any]], client: Producer) -> Mapping[str, int]:
    """What a client says that it has sent, once it says the same twice."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        before = len(told)
        while len(told) < before + 3:
            assert time.monotonic() < deadline_s
            client.poll(0.1)
        counts = [
            {broker["name"]: broker["req"] for broker in each["brokers"].values() if broker["nodeid"] >= 0}
            for each in told[-2:]
        ]
        if counts[0] == counts[1] and counts[0]:
            (counted,) = counts[0].values()
            return dict(counted)


def produce_requests(target: Target) -> int:
    recorder = target.recorders["broker1"]
    spreads = recorder.spreads().get(PRODUCE)
    return 0 if spreads is None else spreads["request_bytes"].recorded


@pytest.mark.parametrize("acks", ["0", "all"])
def test_what_a_client_counts_itself_is_what_is_recorded(acks: str) -> None:
    with running(parse_target(SMALL, name="kafka"), is_recorded=True) as target:
        create_topic(target.settings, "counted", partitions=1)
        told: list[dict[str, Any]] = []
        producer = Producer(
            {
                **target.settings,
                "acks": acks,
                "linger.ms": 0,
                "statistics.interval.ms": 200,
                "stats_cb": lambda text: told.append(json.loads(text)),
            }
        )
        for number in range(300):
            producer.produce("counted", b"%d" % number)
            if number % 7 == 0:
                assert producer.flush(DEADLINE_S) == 0
        assert producer.flush(DEADLINE_S) == 0
        counted = settled(told, producer)["Produce"]
        assert counted >= 43  # One for each time that it was waited for.
        deadline_s = time.monotonic() + DEADLINE_S
        while produce_requests(target) < counted and time.monotonic() < deadline_s:
            time.sleep(0.05)  # acks=0 goes on its way, and nobody says when it has arrived.
        assert produce_requests(target) == counted
