"""Rows of seconds: what happened when it happened, and sums over senders."""

import json

import numpy as np
import pytest

from headrace.lab.schedule import SECOND_NS
from headrace.lab.timeline import Second, Timeline

MS = 1_000_000


def ns(*seconds: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([round(second * SECOND_NS) for second in seconds], np.int64)


def test_each_event_is_in_the_second_in_which_it_happened() -> None:
    timeline = Timeline()
    timeline.planned(0, 3)
    timeline.sent(ns(0.1, 0.2, 0.9), ns(0.1, 1.5, 1.6), 600)
    timeline.acknowledged(ns(0.1, 0.2), ns(0.1, 1.5), ns(0.3, 2.5), 400)
    timeline.failed(1, int(2.7 * SECOND_NS), "NETWORK_EXCEPTION")
    timeline.fold()
    first, second, third = (timeline.pop(number) for number in range(3))
    assert (first.planned, first.sent, first.acknowledged) == (3, 1, 1)
    assert (second.planned, second.sent, second.sent_bytes, second.acknowledged) == (0, 2, 600, 0)
    assert (third.sent, third.acknowledged, third.failed) == (0, 1, 1)
    assert [each.answered_bytes for each in (first, second, third)] == [0, 0, 400]
    assert second.lateness.max_ns == 1_300 * MS
    assert third.latency_planned.max_ns == 2_300 * MS
    assert third.latency_sent.max_ns == 1_000 * MS
    assert timeline.failures == {"NETWORK_EXCEPTION": 1}


def test_what_nobody_answers_for_is_not_acknowledged() -> None:
    timeline = Timeline()
    timeline.unanswered(ns(0.1), ns(0.2), ns(0.3), 200)
    timeline.fold()
    row = timeline.pop(0)
    assert (row.acknowledged, row.unanswered, row.answered_bytes) == (0, 1, 200)
    assert row.latency_planned.max_ns == pytest.approx(200 * MS)


def test_what_was_never_sent_is_late_all_the_same() -> None:
    timeline = Timeline()
    timeline.unsent(ns(0.5, 1.5), 2 * SECOND_NS)
    row = timeline.pop(2)
    assert (row.sent, row.lateness.count, row.lateness.max_ns) == (0, 2, 1_500 * MS)


def test_a_second_in_which_nothing_happened_is_empty() -> None:
    assert Timeline().pop(17) == Second()


def test_rows_of_senders_add_up_and_go_through_json() -> None:
    rows = []
    for late_s in (0.2, 0.4):
        timeline = Timeline()
        timeline.planned(0, 2)
        timeline.sent(ns(0, 0.1), ns(late_s, late_s), 100)
        timeline.fold()
        rows.append(Second.from_json(json.loads(json.dumps(timeline.pop(0).to_json()))))
    rows[0].merge(rows[1])
    assert (rows[0].planned, rows[0].sent, rows[0].sent_bytes) == (4, 4, 200)
    assert (rows[0].lateness.min_ns, rows[0].lateness.max_ns) == (100 * MS, 400 * MS)
