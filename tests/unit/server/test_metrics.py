"""The tables that name figures, beside the objects that have them."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.errors import StorageError
from headrace.node.fetch_sessions import FetchSessionStatistics
from headrace.node.groups import GroupsStatistics
from headrace.node.statistics import FOLLOWER_FETCH, NodeStatistics
from headrace.server import metrics
from headrace.server.disk import DiskStatistics
from headrace.server.disk_helper import HelperStatistics
from headrace.server.prometheus import Metric, Sample, render
from headrace.server.shell import ShellStatistics


def field_names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)] if is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (FetchSessionStatistics, metrics._SESSION_ROWS),
        (ShellStatistics, metrics._SHELL_ROWS),
        (DiskStatistics, metrics._DISK_ROWS),
        (HelperStatistics, metrics._HELPER_ROWS),
    ],
)
def test_every_figure_has_a_name(kind: type, rows: tuple[metrics._Row, ...]) -> None:
    assert [row.field for row in rows] == field_names(kind)


def test_groups_are_told_by_state() -> None:
    groups = GroupsStatistics({"Stable": 2, "Empty": 1}, members=5, offsets=7, waiting_answers=3, shards_loading=0)
    told = list(metrics.group_metrics(groups))
    render(told)
    assert samples_of(told, "headrace_groups") == [Sample(2, {"state": "Stable"}), Sample(1, {"state": "Empty"})]
    assert {row.field for row in metrics._GROUP_ROWS} == set(field_names(GroupsStatistics)) - {"groups_by_state"}


def samples_of(told: Iterable[Metric], name: str) -> list[Sample]:
    return list(next(metric for metric in told if metric.name == name).samples)


def test_requests_are_told_by_api_and_source() -> None:
    collected = NodeStatistics(now_us=0)
    collected.handled(1, 0, 10, 100, 200)
    collected.handled(1, 50_000, 10, 100, 200)
    collected.handled(FOLLOWER_FETCH, 0, 10, 100, 200)
    collected.handled(99, 0, 10, 100, 200)
    told = list(metrics.request_metrics(collected.statistics(now_us=0).requests, {1: "Fetch"}))
    render(told)
    assert samples_of(told, "headrace_requests_total") == [
        Sample(2, {"api": "Fetch", "source": "client"}),
        Sample(1, {"api": "99", "source": "client"}),
        Sample(1, {"api": "Fetch", "source": "follower"}),
    ]
    ours = {"api": "Fetch", "source": "client"}
    local = [one for one in samples_of(told, "headrace_request_local_seconds") if ours.items() <= one.labels.items()]
    assert Sample(0, {**ours, "le": "6.4e-05"}, "_bucket") in local
    assert Sample(2, {**ours, "le": "0.000256"}, "_bucket") in local
    assert Sample(2, {**ours, "le": "+Inf"}, "_bucket") in local
    assert Sample(0.0002, ours, "_sum") in local
    assert Sample(2, ours, "_count") in local
    arrivals = samples_of(told, "headrace_request_interarrival_seconds")
    assert Sample(1, ours, "_count") in arrivals
    sizes = samples_of(told, "headrace_request_size_bytes")
    assert Sample(2, {**ours, "le": "255"}, "_bucket") in sizes
    assert Sample(0, {**ours, "le": "63"}, "_bucket") in sizes


def test_topics_are_told_by_name() -> None:
    collected = NodeStatistics(now_us=0)
    traffic = collected.topic("orders")
    traffic.messages_in(3, 700)
    traffic.bytes_out(900)
    told = list(metrics.topic_metrics(collected.statistics(now_us=0).topics))
    assert {metric.name: list(metric.samples) for metric in told} == {
        "headrace_topic_messages_in_total": [Sample(3, {"topic": "orders"})],
        "headrace_topic_bytes_in_total": [Sample(700, {"topic": "orders"})],
        "headrace_topic_bytes_out_total": [Sample(900, {"topic": "orders"})],
    }


def test_the_process_tells_its_memory() -> None:
    told = {metric.name: metric.samples[0].value for metric in metrics.process_metrics()}
    assert told["process_cpu_seconds_total"] > 0
    assert told["process_resident_memory_peak_bytes"] > 1 << 20


def test_a_node_with_offline_partitions_is_not_well() -> None:
    def node(*offline: Exception | None) -> Any:
        partitions = [SimpleNamespace(log=SimpleNamespace(offline=one)) for one in offline]
        return SimpleNamespace(topics=[SimpleNamespace(partitions=partitions)])

    assert metrics.find_fault(node()) is None
    assert metrics.find_fault(node(None, None)) is None
    assert metrics.find_fault(node(None, StorageError("EIO"))) == "1 of 2 partitions are offline"
