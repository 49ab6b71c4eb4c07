"""What is kept of librdkafka's statistics."""

import json

from headrace.lab.client_statistics import parse_statistics

WINDOW = {
    "min": 100, "max": 9000, "avg": 2000, "stddev": 700, "sum": 10, "p50": 1500, "p95": 4000, "p99": 8000, "cnt": 12,
}  # fmt: skip
EMPTY = dict.fromkeys(WINDOW, 0)


def broker(node_id: int, name: str) -> dict[str, object]:
    return {
        "name": name, "nodeid": node_id, "tx": 14, "txbytes": 2000, "rx": 13, "rxbytes": 500, "rtt": WINDOW,
        "int_latency": WINDOW, "outbuf_latency": EMPTY, "throttle": {**WINDOW, "avg": 40},
        "req": {"Produce": 12, "Fetch": 0, "Metadata": 2},
    }  # fmt: skip


def test_round_trips_and_batches_are_kept() -> None:
    told = {
        "time": 1_700_000_000,
        "msg_cnt": 5,
        "msg_size": 1000,
        "brokers": {"b": broker(1, "h:9092/1"), "bootstrap": broker(-1, "h:9092/bootstrap")},
        "topics": {"t": {"topic": "t", "batchsize": WINDOW, "batchcnt": EMPTY}},
    }
    found = parse_statistics(json.dumps(told))
    assert (found["utc_s"], found["unanswered_messages"], found["unanswered_bytes"]) == (1_700_000_000, 5, 1000)
    assert list(found["brokers"]) == ["h:9092/1"]
    kept = found["brokers"]["h:9092/1"]
    assert kept["round_trip_ms"] == {
        "mean": 2, "stddev": 0.7, "p50": 1.5, "p95": 4, "p99": 8, "max": 9, "count": 12,
    }  # fmt: skip
    assert kept["throttled_ms"]["mean"] == 40
    assert "outgoing_ms" not in kept
    assert kept["requests_by_kind"] == {"Produce": 12, "Metadata": 2}
    assert found["topics"]["t"]["batch_bytes"]["mean"] == 2000
    assert "batch_messages" not in found["topics"]["t"]
