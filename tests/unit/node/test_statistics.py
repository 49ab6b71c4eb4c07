from math import exp

import pytest

from headrace.node.meters import TICK_US
from headrace.node.statistics import FOLLOWER_FETCH, NodeStatistics

_PRODUCE, _FETCH = 0, 1


def test_a_request_is_counted_in_every_stage() -> None:
    collected = NodeStatistics(now_us=0)
    collected.handled(_PRODUCE, 1000, 3, 14, 16_500)
    collected.handled(_PRODUCE, 1040, 5, 6, 100)
    collected.parked(_PRODUCE, 5_000)
    collected.sent(_PRODUCE, 9, 60)
    (produce,) = collected.statistics(now_us=2000).requests
    assert (produce.api_key, produce.requests) == (_PRODUCE, 2)
    assert (produce.queue_us.recorded, produce.queue_us.total) == (2, 8)
    assert (produce.local_us.recorded, produce.local_us.total) == (2, 20)
    assert (produce.request_bytes.recorded, produce.request_bytes.total) == (2, 16_600)
    assert (produce.parked_us.recorded, produce.parked_us.total) == (1, 5_000)
    assert (produce.send_us.recorded, produce.send_us.total) == (1, 9)
    assert (produce.response_bytes.recorded, produce.response_bytes.total) == (1, 60)


def test_what_is_recorded_in_line_lands_where_record_puts_it() -> None:
    collected = NodeStatistics(now_us=0)
    values = [0, 1, 31, 32, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 1 << 35, 1 << 40]
    for value in values:
        collected.handled(_FETCH, 0, value, value, value)
        collected.sent(_FETCH, value, value)
        collected.parked(_FETCH, value)
    (fetch,) = collected.statistics(now_us=0).requests
    in_calls = fetch.parked_us
    assert fetch.queue_us == fetch.local_us == fetch.request_bytes == in_calls
    assert fetch.send_us == fetch.response_bytes == in_calls


def test_time_between_requests_is_kept_by_class() -> None:
    collected = NodeStatistics(now_us=0)
    for began_us in (100, 150, 5_150):
        collected.handled(_FETCH, began_us, 0, 0, 0)
        collected.handled(FOLLOWER_FETCH, began_us + 7, 0, 0, 0)
    consumers, followers = collected.statistics(now_us=0).requests
    assert (consumers.api_key, followers.api_key) == (_FETCH, FOLLOWER_FETCH)
    for one in (consumers, followers):
        assert (one.requests, one.interarrival_us.recorded, one.interarrival_us.total) == (3, 2, 5_050)


def test_a_pause_before_somebody_began_to_look_is_no_time_between_requests() -> None:
    collected = NodeStatistics(now_us=0)
    for began_us in (100, 150):
        collected.handled(_FETCH, began_us, 0, 0, 0)
    collected.forget_arrivals()
    for began_us in (30_000_000, 30_000_020):
        collected.handled(_FETCH, began_us, 0, 0, 0)
    (fetch,) = collected.statistics(now_us=0).requests
    assert (fetch.requests, fetch.interarrival_us.recorded, fetch.interarrival_us.total) == (4, 2, 70)


def test_traffic_by_topic() -> None:
    collected = NodeStatistics(now_us=0)
    orders = collected.topic("orders")
    assert collected.topic("orders") is orders
    collected.topic("quiet")
    for tick in range(1, 21):
        orders.messages_in(50, 5_000)
        orders.bytes_out(10_000)
        collected.settle(now_us=tick * TICK_US)
    snapshot = collected.statistics(now_us=20 * TICK_US)
    orders_told, quiet_told = snapshot.topics
    assert (orders_told.topic, quiet_told.topic) == ("orders", "quiet")
    assert [round(rate, 6) for rate in orders_told.messages_in] == [1_000, 10, 10]
    assert [round(rate, 6) for rate in orders_told.bytes_in] == [100_000, 1_000, 1_000]
    assert [round(rate, 6) for rate in orders_told.bytes_out] == [200_000, 2_000, 2_000]
    assert quiet_told.bytes_in == quiet_told.bytes_out == quiet_told.messages_in == (0, 0.0, 0.0)


def test_a_topic_that_wakes_after_a_rest_has_its_rate_at_once() -> None:
    collected = NodeStatistics(now_us=0)
    traffic = collected.topic("orders")
    for tick in range(1, 101):
        collected.settle(now_us=tick * TICK_US)
    traffic.messages_in(50, 50)
    collected.settle(now_us=101 * TICK_US)
    (told,) = collected.statistics(now_us=101 * TICK_US).topics
    assert told.messages_in.per_s_window == pytest.approx(50 / 60)
    assert told.messages_in.per_s_ewma == pytest.approx(10 * (1 - exp(-5 / 60)))


def test_a_forgotten_topic_is_not_told() -> None:
    collected = NodeStatistics(now_us=0)
    collected.topic("gone").messages_in(1, 1)
    collected.forget_topic("gone")
    collected.forget_topic("never known")
    assert collected.statistics(now_us=0).topics == ()
    assert collected.topic("gone").rates("gone", now_us=0).bytes_in.counted == 0


def test_a_snapshot_does_not_change_later() -> None:
    collected = NodeStatistics(now_us=0)
    collected.handled(_PRODUCE, 0, 1, 1, 1)
    snapshot = collected.statistics(now_us=0)
    collected.handled(_PRODUCE, 10, 1, 1, 1)
    assert snapshot.requests[0].requests == snapshot.requests[0].queue_us.recorded == 1
