"""librdkafka's statistics under Java's names."""

import pytest

from headrace.errors import HeadraceError
from headrace.lab.perf.metrics import LatestStatistics, consumer_metrics, metric_lines, producer_metrics

STATISTICS = {
    "client_id": "c",
    "tx": 7,
    "rx": 6,
    "tx_bytes": 700,
    "rx_bytes": 600,
    "txmsgs": 50,
    "rxmsgs": 40,
    "rxmsg_bytes": 400,
    "brokers": {
        "a/bootstrap": {"nodeid": -1, "tx": 1, "rx": 1, "txbytes": 1, "rxbytes": 1},
        "a/1": {"nodeid": 1, "tx": 5, "rx": 4, "txbytes": 500, "rxbytes": 450},
    },
    "topics": {
        "t": {
            "topic": "t",
            "partitions": {
                "0": {"txmsgs": 20, "txbytes": 200, "rxmsgs": 15, "rxbytes": 150},
                "1": {"txmsgs": 30, "txbytes": 300, "rxmsgs": 25, "rxbytes": 250},
                "-1": {"txmsgs": 1, "txbytes": 1, "rxmsgs": 1, "rxbytes": 1},
            },
        }
    },
    "cgrp": {"assignment_size": 2, "rebalance_cnt": 3},
}


def test_a_producers() -> None:
    assert producer_metrics(STATISTICS) == {
        "producer-metrics:record-send-total:{client-id=c}": 50,
        "producer-metrics:incoming-byte-total:{client-id=c}": 600,
        "producer-metrics:outgoing-byte-total:{client-id=c}": 700,
        "producer-metrics:request-total:{client-id=c}": 7,
        "producer-metrics:response-total:{client-id=c}": 6,
        "producer-node-metrics:incoming-byte-total:{client-id=c, node-id=node-1}": 450,
        "producer-node-metrics:outgoing-byte-total:{client-id=c, node-id=node-1}": 500,
        "producer-node-metrics:request-total:{client-id=c, node-id=node-1}": 5,
        "producer-node-metrics:response-total:{client-id=c, node-id=node-1}": 4,
        "producer-topic-metrics:byte-total:{client-id=c, topic=t}": 500,
        "producer-topic-metrics:record-send-total:{client-id=c, topic=t}": 50,
    }


def test_a_consumers() -> None:
    found = consumer_metrics(STATISTICS)
    assert found["consumer-fetch-manager-metrics:records-consumed-total:{client-id=c}"] == 40
    assert found["consumer-fetch-manager-metrics:records-consumed-total:{client-id=c, topic=t}"] == 40
    assert found["consumer-coordinator-metrics:rebalance-total:{client-id=c}"] == 3
    assert found["consumer-coordinator-metrics:assigned-partitions:{client-id=c}"] == 2
    without_group = {name: value for name, value in STATISTICS.items() if name != "cgrp"}
    assert not any("coordinator" in name for name in consumer_metrics(without_group))


def test_a_table_as_kafkas() -> None:
    assert metric_lines({"b-metrics:longer:{}": 2, "a:x:{}": 1}) == [
        "",
        "Metric Name           Value",
        "a:x:{}              : 1.000",
        "b-metrics:longer:{} : 2.000",
    ]


def test_the_latest_are_those_counted_from_now_on() -> None:
    latest = LatestStatistics()
    latest('{"old": 1}')
    answers = iter([None, '{"waited in the queue": 2}', None, '{"new": 3}'])

    def poll(_: float) -> None:
        if (text := next(answers)) is not None:
            latest(text)

    assert latest.wait(poll) == {"new": 3}
    with pytest.raises(HeadraceError, match="told no statistics"):
        latest.wait(lambda _: None)
