"""Requests of each class, spread out."""

import json

from headrace.node.statistics import FOLLOWER_FETCH, NodeStatistics
from headrace.server.request_page import render_each


def test_every_count_is_on_the_page() -> None:
    counted = NodeStatistics(now_us=0)
    for began_us in (1_000, 1_700, 2_400):
        counted.handled(0, began_us, 3, 500, 16_000)
    counted.sent(0, 20, 60)
    counted.handled(FOLLOWER_FETCH, 5_000, 1, 2, 30)
    page = json.loads("".join(render_each(counted.statistics(now_us=10_000), {0: "Produce", 1: "Fetch"})))
    assert page["taken_us"] == 10_000
    produce, fetch = page["classes"]
    assert (produce["api"], produce["source"], produce["requests"]) == ("Produce", "client", 3)
    assert (fetch["api"], fetch["source"]) == ("Fetch", "follower")
    assert produce["queue_us"] == {"total": 9, "buckets": [[3, 3, 3]]}
    ((low, high, count),) = produce["local_us"]["buckets"]
    assert low <= 500 <= high < low * 1.07
    assert count == 3
    assert produce["interarrival_us"]["total"] == 1_400
    assert produce["response_bytes"]["total"] == 60
    assert produce["parked_us"] == {"total": 0, "buckets": []}


def test_a_node_that_was_asked_nothing() -> None:
    assert json.loads("".join(render_each(NodeStatistics(now_us=0).statistics(now_us=7), {}))) == {
        "taken_us": 7,
        "classes": [],
    }
