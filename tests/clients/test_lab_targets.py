"""A node as a target: how long it took to answer, that it comes back with what it kept, where it says it is, and what a
proxy before it counts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.lab.readings.node_counts import RequestClass
from headrace.lab.readings.recorder import RECORDED
from headrace.lab.readings.request_spreads import read_spreads
from headrace.lab.running import run_workload
from headrace.lab.targets.running import advertised_addresses, running
from headrace.lab.targets.spec import find_target
from headrace.lab.topics import create_topic, wait_kept
from headrace.lab.workload import parse_workload


def test_a_target_knows_how_long_it_took_to_start_and_to_start_again() -> None:
    with running(find_target("node")) as target:
        assert target.start_s is not None
        assert 0 < target.start_s < 20
        create_topic(target.settings, "kept", partitions=1)
        producer = Producer({"bootstrap.servers": target.bootstrap})
        producer.produce("kept", b"a record")
        assert producer.flush(30) == 0
        before = target.pid
        restart_s = target.restart(answer_from="kept")
        assert restart_s is not None
        assert 0 < restart_s < 20
        assert target.pid != before
        assert target.trouble() is None
        wait_kept(target.settings, "kept", messages=1)


def test_where_a_cluster_says_that_it_is_and_not_where_it_is_named() -> None:
    with running(find_target("node")) as target:
        named = find_target(target.bootstrap.replace("127.0.0.1", "localhost"))
        assert advertised_addresses(named) == [target.bootstrap]


@pytest.mark.parametrize(
    "given",
    [
        {"acks": "all", "groups": 1},
        {"acks": "0", "engine": "columnar", "groups": 1, "consumer_engine": "columnar"},
        {"acks": "1", "processes": 2, "partitions": 3, "batch_size": "64KiB", "size": "20000", "payload": "random"},
    ],
    ids=["librdkafka", "columnar", "large"],
)
def test_a_proxy_counts_what_the_node_behind_it_counts(tmp_path: Path, given: Mapping[str, Any]) -> None:
    short = {"rate": 500, "duration": "1s", "warm_up": "1s", "repeats": 1, "payload": "weblog", "record": True}
    results = run_workload(parse_workload({**short, **given}, name="w"), find_target("node"), out=tmp_path)
    assert results.partial is None
    assert RECORDED in results.repeats[0].events
    (node, proxy) = read_spreads(results.path.parent / "readings-0.jsonl").values()
    produce = RequestClass("Produce", "client")
    assert node[produce]["request_bytes"].recorded > 0
    # Consumers go on while both are asked, one after the other.
    for kind in (produce, RequestClass("JoinGroup", "client"), RequestClass("ListOffsets", "client")):
        assert (kind in node) == (kind in proxy)
        if kind in node:
            for name in ("request_bytes", "response_bytes"):
                assert node[kind][name] == proxy[kind][name], (kind, name)
    stages = [node[produce][name] for name in ("queue_us", "local_us", "parked_us")]
    answers = proxy[produce]["answer_us"]
    if given["acks"] == "0":
        assert answers.recorded == 0
    else:
        assert answers.recorded == node[produce]["request_bytes"].recorded
        assert answers.total >= sum(stage.total for stage in stages) - answers.recorded * len(stages)
    if "groups" in given:
        fetch = RequestClass("Fetch", "client")
        assert proxy[fetch]["answer_us"].recorded > 0
        assert abs(proxy[fetch]["request_bytes"].recorded - node[fetch]["request_bytes"].recorded) <= 2


def test_without_being_asked_to_no_proxy_is_there_and_nothing_says_so(tmp_path: Path) -> None:
    short = {"rate": 500, "duration": "1s", "warm_up": "0s", "repeats": 1, "payload": "weblog"}
    results = run_workload(parse_workload(short, name="w"), find_target("node"), out=tmp_path)
    assert RECORDED not in results.repeats[0].events
    assert len(read_spreads(results.path.parent / "readings-0.jsonl")) == 1
