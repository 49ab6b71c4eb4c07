"""How requests were spread between two pages."""

import json
import random

import pytest

from headrace.lab.errors import LabError
from headrace.lab.readings.node_counts import RequestClass
from headrace.lab.readings.request_spreads import SPREADS, Spread, fetch_spreads, parse_spreads, since, spreads_json
from headrace.node.statistics import NodeStatistics
from headrace.server.request_page import render_each

PRODUCE = RequestClass("Produce", "client")


def page(counted: NodeStatistics) -> str:
    return "".join(render_each(counted.statistics(now_us=0), {0: "Produce", 1: "Fetch"}))


def test_between_two_pages_of_a_node() -> None:
    """Exponential service times, and before them others that must not count."""
    counted, chance, now_us = NodeStatistics(now_us=0), random.Random(1), 0
    for _ in range(100):
        counted.handled(0, now_us, 0, 1_000_000, 10)
        counted.handled(1, now_us, 0, 5, 10)
    before = parse_spreads(page(counted))
    services = [round(chance.expovariate(1 / 2_000)) for _ in range(20_000)]
    for service_us in services:
        now_us += 3_000
        counted.handled(0, now_us, 0, service_us, 500)
    found = since(before, parse_spreads(page(counted)))
    assert list(found) == [PRODUCE]
    local = found[PRODUCE]["local_us"]
    assert local.recorded == 20_000
    assert local.mean == pytest.approx(sum(services) / 20_000)
    assert local.variation_squared == pytest.approx(1, rel=0.05)
    assert found[PRODUCE]["interarrival_us"].variation_squared == pytest.approx(0, abs=1e-6)
    assert found[PRODUCE]["request_bytes"].mean == 500
    told = json.loads(json.dumps(spreads_json({"metrics": "http://node/metrics"}, found)))
    (one,) = told["classes"]
    assert (one["api"], one["source"], set(one) - {"api", "source"}) == ("Produce", "client", set(SPREADS))
    assert one["parked_us"] == {"count": 0, "total": 0, "mean": None, "variation_squared": None, "buckets": []}


def test_nothing_has_no_mean() -> None:
    assert Spread(0, {}).mean is None
    assert Spread(0, {(0, 0): 5}).variation_squared is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"classes": [{}]}', "<html>"])
def test_another_page_is_none(text: str) -> None:
    with pytest.raises(LabError, match="not a page of requests"):
        parse_spreads(text)


def test_a_broker_without_such_a_page_is_no_trouble() -> None:
    assert fetch_spreads("http://127.0.0.1:1/metrics") is None
