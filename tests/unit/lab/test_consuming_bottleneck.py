"""Verdicts on consumers whose bottleneck was planted, as numbers; each with the sentence that carries it."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.lab.bottleneck import Verdict
from headrace.lab.consuming_bottleneck import ConsumingSummary, find_consuming_bottleneck
from headrace.lab.sides import Cores, Side

IDLE = Side(thread="main", ran=0.1, waited=0.02)
BUSY = Side(thread="rdk:broker1", ran=0.98, waited=0.01)
KEPT = Side(thread="main", ran=0.1, waited=0.85)
STOPPED = Side(thread="main", ran=0.08, stopped=0.9)

KEEPING_UP = ConsumingSummary(
    written_per_s=3000, consumed_per_s=2999, behind_s=0.01, consumer=IDLE, broker=IDLE, cores=Cores(busy=0.2)
)
BEHIND = replace(KEEPING_UP, consumed_per_s=1000, behind_s=6.0)
BACKLOG = replace(KEEPING_UP, is_backlog=True, written_per_s=0, behind_s=0.0)


@pytest.mark.parametrize(
    ("summary", "changes", "verdict", "said"),
    [
        (KEEPING_UP, {}, Verdict.NONE, "2,999 messages a second were consumed of 3,000 that were there for all groups"),
        (KEEPING_UP, {"consumer": BUSY, "broker": BUSY}, Verdict.NONE, "0.01 s behind, which is to keep up"),
        (BEHIND, {"consumer": BUSY}, Verdict.CONSUMER_CPU, "the consumer's busiest thread (rdk:broker1) used 98%"),
        (BEHIND, {"consumer": KEPT}, Verdict.CONSUMER_CPU, "ready and without a CPU for 85% of the time"),
        (BEHIND, {"consumer": STOPPED}, Verdict.CONSUMER_CPU, "was stopped for 90%"),
        (BEHIND, {"broker": BUSY}, Verdict.BROKER_CPU, "the broker's busiest thread (rdk:broker1) used 98%"),
        (BEHIND, {"broker": STOPPED}, Verdict.BROKER_CPU, "over the last half consumers were 6.0 s behind"),
        (BEHIND, {"broker": replace(IDLE, on_disk=0.8)}, Verdict.DISK, "waited for a device for 80% of the time"),
        (BEHIND, {"link": "eth0", "link_share": 0.97}, Verdict.NETWORK, "eth0 carried 97%"),
        (BEHIND, {}, Verdict.NONE, "nothing of what was seen was without idle time"),
        (BEHIND, {"throttled_share": 0.6}, Verdict.QUOTA, "to a consumer back for a quota's sake for 60% of the time"),
        (BEHIND, {"throttled_share": 0.2, "broker": BUSY}, Verdict.QUOTA, "for 20% of the time"),
        (BEHIND, {"throttled_share": 0.05, "broker": BUSY}, Verdict.BROKER_CPU, "the broker's busiest thread"),
        (KEEPING_UP, {"throttled_share": 0.6}, Verdict.NONE, "which is to keep up"),
        (BACKLOG, {"throttled_share": 0.9}, Verdict.QUOTA, "for 90% of the time"),
        (BACKLOG, {"consumer": BUSY}, Verdict.CONSUMER_CPU, "2,999 messages a second were consumed out of a backlog"),
        (BACKLOG, {"broker": BUSY}, Verdict.BROKER_CPU, "out of a backlog"),
        (BACKLOG, {}, Verdict.NONE, "nothing of what was seen was without idle time"),
    ],
)
def test_planted(summary: ConsumingSummary, changes: dict[str, Any], verdict: Verdict, said: str) -> None:
    found = find_consuming_bottleneck(replace(summary, **changes))
    assert found.verdict is verdict
    assert said in "\n".join(found.evidence)


def test_whether_anything_held_them_up() -> None:
    assert find_consuming_bottleneck(KEEPING_UP).is_held_up is False
    for summary in (BEHIND, BACKLOG, replace(BEHIND, consumer=BUSY)):
        assert find_consuming_bottleneck(summary).is_held_up is True


def test_of_two_without_idle_time_it_is_the_one_with_less_of_it_and_of_equals_the_broker() -> None:
    slower = replace(BEHIND, broker=replace(BUSY, ran=0.9), consumer=BUSY)
    assert find_consuming_bottleneck(slower).verdict is Verdict.CONSUMER_CPU
    assert find_consuming_bottleneck(replace(BEHIND, broker=BUSY, consumer=BUSY)).verdict is Verdict.BROKER_CPU


def test_what_was_not_seen_is_not_judged() -> None:
    found = find_consuming_bottleneck(replace(BEHIND, consumer=None, broker=None))
    assert found.verdict is Verdict.NONE
    assert "the consumers were not seen" in "\n".join(found.evidence)
    assert "the broker was not seen" in "\n".join(found.evidence)
