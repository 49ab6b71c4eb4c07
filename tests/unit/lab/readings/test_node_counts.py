"""Pages of metrics, and what a node did between two of them."""

import pytest

from headrace.lab.errors import LabError
from headrace.lab.readings.metrics_page import Sample, fetch, parse_page, value
from headrace.lab.readings.node_counts import Buckets, NodeCounts, RequestClass, between

PRODUCE = RequestClass("Produce", "client")


def page(*, requests: int, below_ms: int, sync_s: float, cpu_s: float) -> str:
    """Of a node that took 1 ms for `below_ms` requests and 3 ms for all others."""
    total_s = below_ms * 0.001 + (requests - below_ms) * 0.003
    produce = 'api="Produce",source="client"'
    return f"""\
# HELP headrace_requests_total Requests handled.
# TYPE headrace_requests_total counter
headrace_requests_total{{{produce}}} {requests}
headrace_requests_total{{api="Fetch",source="follower"}} 7
headrace_request_local_seconds_bucket{{{produce},le="0.002"}} {below_ms}
headrace_request_local_seconds_bucket{{{produce},le="0.004"}} {requests}
headrace_request_local_seconds_bucket{{{produce},le="+Inf"}} {requests}
headrace_request_local_seconds_sum{{{produce}}} {total_s}
headrace_request_local_seconds_count{{{produce}}} {requests}
headrace_topic_messages_in_total{{topic="a"}} {requests}
headrace_topic_messages_in_total{{topic="b"}} {requests}
headrace_syncs_total 5
headrace_sync_seconds_total {sync_s}
process_cpu_seconds_total {cpu_s}
"""


def counts(text: str, at_s: float) -> NodeCounts:
    return NodeCounts.of_page(parse_page(text), mono_ns=round(at_s * 1e9))


def test_samples_by_name_with_labels_and_without() -> None:
    found = parse_page('# HELP a A.\na{x="1",y="say \\"hi\\\\\\n\\""} 2.5\na{x="2"} +Inf\nb 3 1700000000000\n\n')
    assert found["a"] == [Sample({"x": "1", "y": 'say "hi\\\n"'}, 2.5), Sample({"x": "2"}, float("inf"))]
    assert value(found, "b") == 3
    assert value(found, "c") is None


@pytest.mark.parametrize("text", ["<html>", "a{x=1} b", "up one"])
def test_another_page_is_none(text: str) -> None:
    with pytest.raises(LabError, match="not a page of metrics"):
        parse_page(text)


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(LabError, match=r"cannot read metrics at http://127\.0\.0\.1:1/: .*refused"):
        fetch("http://127.0.0.1:1/")


def test_a_word_that_is_no_address_is_one_line() -> None:
    with pytest.raises(LabError, match="cannot read metrics at metrics: unknown url type"):
        fetch("metrics")


def test_between_two_pages() -> None:
    before = counts(page(requests=100, below_ms=100, sync_s=1.0, cpu_s=2.0), 10.0)
    after = counts(page(requests=140, below_ms=110, sync_s=1.5, cpu_s=2.4), 12.0)
    found = between(before, after)
    assert found is not None
    assert found.requests == {PRODUCE: 40, RequestClass("Fetch", "follower"): 0}
    local = found.stages[PRODUCE]["local_ms"]
    assert local.mean == pytest.approx((10 * 1 + 30 * 3) / 40)
    assert (local.at_most(0.25), local.at_most(0.99)) == (2.0, 4.0)
    assert found.in_broker_ms(PRODUCE) == pytest.approx(2.5)
    assert found.in_broker_ms(RequestClass("Fetch", "follower")) is None
    assert found.traffic == {"messages_in": 80}
    assert found.sync_share == pytest.approx(0.25)
    assert found.cpu_share == pytest.approx(0.2)
    assert (found.syncs, found.loop_lag_s) == (0, None)


def test_a_node_that_was_started_anew_is_not_compared_with_what_it_was() -> None:
    before = counts(page(requests=100, below_ms=100, sync_s=1.0, cpu_s=2.0), 10.0)
    assert between(before, counts(page(requests=3, below_ms=3, sync_s=0.0, cpu_s=0.1), 11.0)) is None
    assert between(before, before) is None


def test_a_page_of_another_broker_has_what_every_exporter_has() -> None:
    found = counts("process_cpu_seconds_total 12.5\nkafka_server_requests 3\n", 1.0)
    assert (found.cpu_s, found.requests, found.sync_s) == (12.5, {}, None)


def test_nothing_recorded_has_no_mean_and_beyond_the_last_bound_there_is_none() -> None:
    assert Buckets({}, 0.0, 0.0).mean is None
    assert Buckets({}, 0.0, 0.0).at_most(0.5) is None
    assert Buckets({1.0: 3.0, float("inf"): 10.0}, 100.0, 10.0).at_most(0.5) is None


def test_names_of_classes() -> None:
    assert [str(PRODUCE), str(RequestClass("Fetch", "follower"))] == ["Produce", "Fetch of a follower"]
