"""Verdicts on runs whose bottleneck was planted, as numbers; each with the sentence that carries it."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.lab.bottleneck import Counts, Place, Summary, Threshold, Verdict, find_bottleneck, find_place
from headrace.lab.sides import Cores, Side

IDLE = Side(thread="main", ran=0.1, waited=0.02)
BUSY = Side(thread="main", ran=0.98, waited=0.01)
KEPT = Side(thread="main", ran=0.1, waited=0.85)
STOPPED = Side(thread="main", ran=0.08, stopped=0.9)

CALM = Summary(
    seconds=10, planned_per_s=1000, answered_per_s=1000, unanswered_s=0.01, client=IDLE, broker=IDLE,
    answer_ms=2.0, in_broker_ms=0.5, sync_share=0.0, cores=Cores(busy=0.2),
)  # fmt: skip
LATE = replace(CALM, answered_per_s=300, unsent_s=4.0)
FULL = replace(LATE, no_room_share=0.7, answer_ms=900.0)
UNANSWERED = replace(CALM, answered_per_s=300, unanswered_s=4.0, answer_ms=4000.0)


def verdict(summary: Summary, **changes: Any) -> Verdict:
    return find_bottleneck(replace(summary, **changes)).verdict


def evidence(summary: Summary, **changes: Any) -> str:
    return "\n".join(find_bottleneck(replace(summary, **changes)).evidence)


@pytest.mark.parametrize(
    ("summary", "changes", "found", "said"),
    [
        (CALM, {}, Verdict.NONE, "which is on time"),
        (LATE, {"client": BUSY}, Verdict.CLIENT_CPU, "busiest thread (main) used 98% of a core"),
        (LATE, {"client": KEPT}, Verdict.CLIENT_CPU, "ready and without a CPU for 85% of the time"),
        (LATE, {"client": STOPPED}, Verdict.CLIENT_CPU, "was stopped for 90%"),
        (UNANSWERED, {"client": BUSY}, Verdict.CLIENT_CPU, "4.0 s were sent and not answered yet"),
        (UNANSWERED, {"broker": BUSY}, Verdict.BROKER_CPU, "the broker's busiest thread (main) used 98% of a core"),
        (UNANSWERED, {"broker": STOPPED}, Verdict.BROKER_CPU, "was stopped for 90%"),
        (UNANSWERED, {"broker": KEPT}, Verdict.BROKER_CPU, "ready and without a CPU for 85% of the time"),
        (FULL, {"broker": BUSY}, Verdict.BROKER_CPU, "in 70% of its time the sender had messages to send and no room"),
        (UNANSWERED, {"sync_share": 0.93}, Verdict.DISK, "was under way for 93% of the time"),
        (UNANSWERED, {"broker": replace(IDLE, on_disk=0.8)}, Verdict.DISK, "waited for a device for 80% of the time"),
        (UNANSWERED, {"underway_share": 0.96}, Verdict.NETWORK, "in 96% of all looks bytes waited to leave"),
        (UNANSWERED, {"link": "eth0", "link_share": 0.97}, Verdict.NETWORK, "eth0 carried 97%"),
        (UNANSWERED, {}, Verdict.NETWORK, "an answer took 4,000 ms, in which its request was at the broker for 0.5 ms"),
        (FULL, {"throttled_share": 0.6}, Verdict.QUOTA, "held answers back for a quota's sake for 60% of the time"),
        (LATE, {"making_share": 0.97}, Verdict.GENERATOR, "took 97% of the sender's time"),
        (LATE, {"making_share": 0.8, "client": BUSY}, Verdict.GENERATOR, "took 80% of the sender's time"),
        (LATE, {}, Verdict.GENERATOR, "had room, and time to spare"),
    ],
)
def test_planted(summary: Summary, changes: dict[str, Any], found: Verdict, said: str) -> None:
    assert verdict(summary, **changes) is found
    assert said in evidence(summary, **changes)


@pytest.mark.parametrize("changes", [{}, {"underway_share": 0.96}, {"link": "eth0", "link_share": 0.97}])
def test_a_proxy_of_the_labs_own_is_not_the_network(changes: dict[str, Any]) -> None:
    assert verdict(UNANSWERED, **changes) is Verdict.NETWORK
    found = find_bottleneck(replace(UNANSWERED, **changes, is_proxied=True))
    assert (found.verdict, found.is_held_up) == (Verdict.NONE, True)
    assert found.evidence[-1].startswith("a proxy of the lab's own stood between")
    # What had no idle time is named beside a proxy, too.
    assert verdict(UNANSWERED, broker=BUSY, is_proxied=True) is Verdict.BROKER_CPU
    assert verdict(CALM, is_proxied=True) is Verdict.NONE


def test_a_sender_that_is_kept_from_its_cpu_is_late_with_its_messages_too() -> None:
    assert verdict(LATE, client=STOPPED, making_share=0.6) is Verdict.CLIENT_CPU


def test_a_client_without_room_is_asked_last() -> None:
    assert verdict(FULL, client=BUSY, broker=replace(BUSY, ran=0.91, waited=0.0)) is Verdict.BROKER_CPU
    assert verdict(FULL, client=BUSY) is Verdict.CLIENT_CPU  # Full of what it had no time to send.
    assert verdict(FULL, in_broker_ms=None) is Verdict.NONE


def test_a_broker_that_waits_for_followers_is_not_a_slow_network() -> None:
    assert verdict(UNANSWERED, in_broker_ms=3900.0) is Verdict.NONE


def test_bytes_that_the_broker_does_not_read_are_not_on_the_way() -> None:
    assert verdict(UNANSWERED, unread_share=0.9) is Verdict.NONE
    assert "in 90% of all looks there were bytes at the broker" in evidence(UNANSWERED, unread_share=0.9)


def test_a_broker_that_is_not_calm_and_never_done_reading_does_what_it_can() -> None:
    half = Side(ran=0.1, stopped=0.7)
    assert verdict(UNANSWERED, broker=half) is Verdict.NONE
    assert verdict(UNANSWERED, broker=half, unread_share=0.95) is Verdict.BROKER_CPU
    assert verdict(UNANSWERED, broker=half, unread_share=0.95, sync_share=0.9) is Verdict.DISK


def test_what_was_not_seen_is_not_judged() -> None:
    unseen = {"broker": None, "in_broker_ms": None, "sync_share": None, "underway_share": 1.0}
    assert verdict(UNANSWERED, **unseen) is Verdict.NONE
    assert "the broker was not seen" in evidence(UNANSWERED, **unseen)
    assert verdict(LATE, client=None) is Verdict.NONE
    assert "the senders were not seen" in evidence(LATE, client=None)


def test_without_a_plan_nobody_is_late() -> None:
    unpaced = replace(CALM, is_unpaced=True)
    assert verdict(unpaced) is Verdict.NONE
    assert "nothing of what was seen was without idle time" in evidence(unpaced)
    assert "it was over in 0.4 s" in evidence(unpaced, seconds=0.4)
    assert verdict(unpaced, making_share=0.8) is Verdict.GENERATOR  # It has no time for anything else.


def test_without_a_plan_what_has_no_idle_time_is_the_limit() -> None:
    unpaced = replace(CALM, is_unpaced=True)
    assert verdict(unpaced, client=BUSY) is Verdict.CLIENT_CPU
    assert verdict(unpaced, client=BUSY, broker=BUSY, no_room_share=0.4) is Verdict.BROKER_CPU
    assert "there was no plan" in evidence(unpaced, client=BUSY)


def test_places() -> None:
    assert find_place(CALM) is Place.NOWHERE
    assert find_place(LATE) is Place.UNSENT
    assert find_place(FULL) is Place.NO_ROOM
    assert find_place(UNANSWERED) is Place.UNANSWERED


def test_whoever_else_had_the_cores_is_told() -> None:
    told = evidence(LATE, cores=Cores(busy=0.95, others=0.6, stolen=0.05))
    assert "busy 95% of the time, 60% with others' work; its host took 5%" in told


def test_every_threshold_says_why() -> None:
    assert len({one.why for one in Threshold}) == len(Threshold) == 11


def test_as_json() -> None:
    told = find_bottleneck(LATE).to_json()
    assert (told["verdict"], told["is_held_up"]) == ("generator", True)
    assert told["evidence"][0] == (
        "300 messages a second were answered of 1,000 planned; over the last half answers were 4.0 s behind the plan"
    )


# --- What is no bottleneck, and no evidence of none ------------------------------------------------------------------


def test_messages_that_are_refused_at_once_are_not_on_time() -> None:
    refused = replace(CALM, answered_per_s=600, failed_per_s=400)
    assert find_place(refused) is Place.REFUSED
    found = find_bottleneck(refused)
    assert (found.verdict, found.is_held_up) == (Verdict.NONE, True)
    assert found.evidence[:2] == (
        "600 messages a second were answered of 1,000 planned, 400 a second failed; "
        "over the last half answers were 0.01 s behind the plan",
        "40% of what was planned failed: nothing waits for that, but what is refused is not on time",
    )
    assert "0 messages a second were answered of 1,000 planned, 1,000 a second failed" in evidence(
        CALM, answered_per_s=0, failed_per_s=1000
    )


def test_a_message_among_thousands_that_fails_makes_nothing_late() -> None:
    few = replace(CALM, answered_per_s=995, failed_per_s=5)
    assert find_place(few) is Place.NOWHERE
    assert "995 messages a second were answered of 1,000 planned, 5 a second failed; over" in evidence(few)
    assert "which is on time" in evidence(few)


def test_failures_are_told_where_others_wait_too() -> None:
    assert "300 messages a second were answered of 1,000 planned, 20 a second failed" in evidence(LATE, failed_per_s=20)
    unpaced = replace(CALM, is_unpaced=True, failed_per_s=7)
    assert "there was no plan: 1,000 messages a second were answered, 7 a second failed" in evidence(unpaced)


@pytest.mark.parametrize(
    ("summary", "changes", "is_held_up"),
    [
        (CALM, {}, False),
        (LATE, {"client": BUSY}, True),
        (LATE, {"client": None}, True),  # Late, and nobody knows why.
        (FULL, {"in_broker_ms": None}, True),
        (CALM, {"is_unpaced": True}, True),  # There is always something that keeps it from going faster.
        (CALM, {"whole": Counts(100, 100, 0)}, None),
    ],
)
def test_whether_anything_held_it_up(summary: Summary, changes: dict[str, Any], is_held_up: bool | None) -> None:
    assert find_bottleneck(replace(summary, **changes)).is_held_up is is_held_up


def test_of_less_than_a_second_the_whole_is_told() -> None:
    short = Summary(seconds=0.4, whole=Counts(planned=1200, answered=1195, failed=5), client=IDLE)
    assert find_bottleneck(short).verdict is Verdict.NONE
    assert find_bottleneck(short).evidence[0] == (
        "it was over in 0.40 s: 1,195 messages were answered of 1,200 planned, 5 failed"
    )
    assert "on time" not in evidence(short)
    unpaced = replace(short, is_unpaced=True, whole=Counts(9000, 9000, 0))
    assert "there was no plan, and it was over in 0.40 s: 9,000 messages were answered" in evidence(unpaced)
    assert find_place(replace(short, whole=Counts(1200, 0, 1200))) is Place.REFUSED
