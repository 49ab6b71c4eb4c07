"""What seconds come to: throughputs of the measured ones, latencies of all that was answered from there on."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from headrace.lab.consumed import Consumed, ConsumedTimeline
from headrace.lab.course import Course, buckets_us
from headrace.lab.gate import Thresholds
from headrace.lab.readings.company import CpuUse
from headrace.lab.results import PASSED, Bottleneck, buckets_quantile_us
from headrace.lab.schedule import SECOND_NS
from headrace.lab.timeline import Second, Timeline

MS = 1_000_000


def row(count: int, *, late_ms: int = 1, latency_ms: int = 30) -> Second:
    timeline = Timeline()
    planned = np.full(count, 5)
    timeline.planned(0, count)
    timeline.sent(planned, planned + late_ms * MS, 100 * count)
    timeline.acknowledged(planned, planned + late_ms * MS, planned + latency_ms * MS, 100 * count)
    timeline.fold()
    made = timeline.pop(0)
    made.merge(timeline.pop(latency_ms // 1000) if latency_ms >= 1000 else Second())
    return made


def got(count: int, *, age_ms: int = 40) -> Consumed:
    timeline = ConsumedTimeline()
    now_ns = 10_000 * SECOND_NS
    stamps = np.full(count, now_ns // MS - age_ms)
    timeline.add(stamps, 100 * count, now_utc_ns=now_ns, start_utc_ns=now_ns)
    ((_, made),) = timeline.take_all()
    return made


def course(**changes: Any) -> Course:
    return Course(
        **{"cell": {"acks": 1}, "repeat": 2, "warm_up_s": 2, "has_plan": True, "has_consumers": True, **changes}
    )


def run(made: Course, seconds: int = 6) -> Course:
    for second in range(seconds):
        made.add_sent(second, row(10_000 if second < 2 else 1_000))
        made.add_consumed(second, got(500))
        made.add_cpu(second, CpuUse(elapsed_s=1.0, brokers_s=0.8, clients_s=0.4))
    return made


def test_the_warm_up_counts_for_nothing() -> None:
    line = run(course()).repeat_line(sending_s=6.0)
    assert line.metrics["rate_per_s"] == 1_000
    assert line.metrics["mb_per_s"] == pytest.approx(100_000 / 2**20, abs=1e-3)
    assert line.metrics["consumed_per_s"] == 500
    assert line.metrics["broker_cpu_percent"] == 80
    assert line.metrics["client_cpu_percent"] == 40
    assert sum(count for _, count in line.histograms["planned_latency"]) == 4_000
    assert line.metrics["planned_latency_p99_ms"] == pytest.approx(30, rel=0.01)
    assert line.metrics["send_latency_p50_ms"] == pytest.approx(29, rel=0.01)
    assert line.metrics["lateness_p99_ms"] == pytest.approx(1, rel=0.01)
    assert line.metrics["end_to_end_p999_ms"] == pytest.approx(40, rel=0.01)
    assert (line.cell, line.repeat, line.partial) == ({"acks": 1}, 2, None)


def test_what_the_machine_did_is_among_the_metrics_and_passes_the_gate() -> None:
    line = run(course()).repeat_line(sending_s=6.0, machine={"load": 1.23456})
    assert (line.metrics["load"], line.gate["load"]) == (1.235, PASSED)


def test_what_is_answered_after_the_end_is_in_the_latencies_and_in_no_rate() -> None:
    made = run(course())
    made.add_sent(6, row(100, latency_ms=2_000))
    line = made.repeat_line(sending_s=6.0)
    assert line.metrics["rate_per_s"] == 1_000
    assert sum(count for _, count in line.histograms["planned_latency"]) == 4_100
    assert line.metrics["planned_latency_p999_ms"] == pytest.approx(2_000, rel=0.01)


RATE_PER_S = 20_000
ANSWERED_S, CONSUMED_S = 0.02, 0.04  # After it was sent.


def ended(seconds: float, *, warm_up_s: int, is_counted: bool) -> tuple[Course, dict[str, float]]:
    """A constant rate for so long, and when all of it was over."""
    made = course(warm_up_s=warm_up_s, is_counted=is_counted)
    sent_at = np.arange(round(RATE_PER_S * seconds)) * SECOND_NS // RATE_PER_S
    answered_at, consumed_at = (sent_at + round(after_s * SECOND_NS) for after_s in (ANSWERED_S, CONSUMED_S))
    timeline = Timeline()
    timeline.sent(sent_at, sent_at, 0)
    timeline.acknowledged(sent_at, sent_at, answered_at, 0)
    timeline.fold()
    for second in range(math.ceil(seconds) + 1):
        made.add_sent(second, timeline.pop(second))
        made.add_consumed(second, Consumed(messages=int((consumed_at // SECOND_NS == second).sum())))
    return made, {
        "sending_s": float(sent_at[-1]) / SECOND_NS if is_counted else seconds,
        "answered_s": timeline.answered_ns / SECOND_NS,
        "consumed_s": float(consumed_at[-1]) / SECOND_NS,
    }


@pytest.mark.parametrize("warm_up_s", [0, 2])
@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("measured_s", [0.3, 0.95, 1.0, 1.4, 1.99, 2.5, 10.0, 10.45])
def test_a_constant_rate_is_that_rate_however_long_it_was_measured(
    measured_s: float, is_counted: bool, warm_up_s: int
) -> None:
    made, when = ended(warm_up_s + measured_s, warm_up_s=warm_up_s, is_counted=is_counted)
    metrics = made.repeat_line(**when).metrics
    for name, after_s in (("rate_per_s", ANSWERED_S), ("consumed_per_s", CONSUMED_S)):
        covered_s = measured_s + after_s if is_counted or measured_s < 1 else int(measured_s)
        # Without a warm-up nothing had come in the first moment.
        expected_per_s = RATE_PER_S * (1 if warm_up_s else 1 - after_s / covered_s)
        assert metrics[name] == pytest.approx(expected_per_s, rel=1e-3)


def test_messages_that_were_answered_long_after_they_were_sent_are_divided_by_that_time() -> None:
    made = course(is_counted=True, warm_up_s=0)
    made.add_sent(0, row(3_000))
    made.add_sent(1, row(2_000))
    # All of them were in the sender's buffer after 0.1 s.
    assert made.repeat_line(sending_s=0.1, answered_s=1.25).metrics["rate_per_s"] == 4_000


def test_bytes_a_second_are_those_of_the_messages_that_were_answered() -> None:
    made = run(course())
    # Taken by the client as well, and refused, or in its buffer still.
    made.add_sent(3, Second(planned=9_000, sent=9_000, sent_bytes=900_000, failed=4_000))
    metrics = made.repeat_line(sending_s=6.0).metrics
    assert metrics["rate_per_s"] == 1_000
    assert metrics["mb_per_s"] == pytest.approx(100_000 / 2**20, abs=1e-3)


def test_without_a_plan_there_is_no_lateness() -> None:
    line = run(course(has_plan=False)).repeat_line(sending_s=6.0)
    assert set(line.histograms) == {"send_latency", "end_to_end"}
    assert "lateness_p99_ms" not in line.metrics


def test_a_backlog_is_measured_by_the_time_that_it_took() -> None:
    made = run(course(consumes_after=True))
    line = made.repeat_line(sending_s=6.0, consuming_s=2.0)
    assert line.metrics["consumed_per_s"] == 1_500
    assert "consumed_per_s" not in made.repeat_line(sending_s=6.0, consuming_s=None).metrics


def test_steady_is_of_the_measured_seconds() -> None:
    assert run(course(), seconds=6).repeat_line(sending_s=6.0).steady.is_steady is None  # type: ignore[union-attr]
    steady = run(course(), seconds=32).repeat_line(sending_s=32.0).steady
    assert steady is not None
    assert steady.is_steady is True
    nothing = course().repeat_line(sending_s=30.0).steady
    assert nothing is not None
    assert (nothing.is_steady, nothing.variation) == (False, None)


def test_the_gate_has_its_say() -> None:
    made = run(course())
    assert set(made.repeat_line(sending_s=6.0, stall_share=0.0).gate.values()) == {PASSED}
    assert "held off" in made.repeat_line(sending_s=6.0, stall_share=0.5).gate["rate_per_s"]
    assert "late" in made.repeat_line(sending_s=6.0, thresholds=Thresholds(lateness=0.01)).gate["end_to_end_p50_ms"]


def test_a_repeat_that_was_cut_short_at_once_has_no_metrics_and_is_no_error() -> None:
    line = course().repeat_line(sending_s=0.0, partial="killed", bottleneck=Bottleneck(verdict="none"))
    assert (line.metrics, line.histograms, line.partial) == ({}, {}, "killed")


def test_what_was_done_to_brokers_is_told() -> None:
    made = run(course())
    made.events.append("broker1 killed at 2 s")
    assert made.repeat_line(sending_s=6.0).events == ["broker1 killed at 2 s"]


def test_messages_without_a_latency_are_counted_and_spoil_the_latencies_of_the_others() -> None:
    made = run(course())
    made.add_sent(1, Second(planned=10, sent=10, failed=10))  # While it warmed up.
    made.add_sent(3, Second(planned=2_000, sent=1_990, failed=1_985))
    line = made.repeat_line(sending_s=6.0, losses=made.losses(unsent=10, unanswered=5, unconsumed=0))
    lost = {name: line.metrics[name] for name in ("failed", "never_sent", "not_answered")}
    assert lost == {"failed": 1_985, "never_sent": 10, "not_answered": 5}
    assert line.gate["rate_per_s"] == line.gate["failed"] == PASSED
    told = "33.3% of 6,000 messages have no latency: 1,985 failed, 5 were not answered, 10 were never sent (at most 1%)"
    assert line.gate["planned_latency_p99_ms"] == line.gate["end_to_end_p50_ms"] == told
    assert "33.2% of 5,990 messages" in line.gate["send_latency_p50_ms"]
    assert not lost.keys() & run(course()).repeat_line(sending_s=6.0).metrics.keys()


def test_consumers_that_were_held_back_are_told_from_the_second_on_in_which_it_began() -> None:
    made = run(course(), seconds=3)
    made.add_consumed(1, Consumed(throttled_ns=Counter({0: 250 * MS, 1: 90 * MS})))
    told = [line.more.get("consumers_throttled_ms") for line in made.lines()]
    assert told == [None, 250.0, 0.0]
    assert made.consuming(groups=1, elapsed_s=3.0).throttled_s == 0.25
    backlog = run(course(consumes_after=True), seconds=3)
    backlog.add_consumed(2, Consumed(throttled_ns=Counter({0: 1_500 * MS})))
    assert backlog.consuming(groups=1, elapsed_s=2.0).throttled_s == 1.5


def test_consumers_that_are_held_back_by_turns_add_up_to_none_that_is_held_back_all_the_time() -> None:
    for is_backlog in (False, True):
        made = run(course(consumes_after=is_backlog), seconds=10)
        for second in range(10):
            made.add_consumed(second, Consumed(throttled_ns=Counter({second: 500 * MS})))
        assert made.consuming(groups=1, elapsed_s=10.0).throttled_s == 0.5


def test_seconds_are_told_once_and_in_order() -> None:
    made = run(course())
    made.start_utc_ns = 1_700_000_000 * SECOND_NS
    first, second = made.lines(2)
    assert (first.at, second.at) == ("2023-11-14T22:13:20.000+00:00", "2023-11-14T22:13:21.000+00:00")
    assert (first.planned, first.sent, first.acknowledged, first.bytes, first.consumed) == (
        (10_000, 10_000, 10_000, 1_000_000, 500)
    )
    assert first.lateness_ms == pytest.approx(1, rel=0.01)
    assert (first.more["is_warm_up"], first.more["broker_cpu_percent"]) == (True, 80)
    rest = list(made.lines())
    assert [line.more["second"] for line in rest] == [2, 3, 4, 5]
    assert rest[0].more["is_warm_up"] is False
    assert list(made.lines()) == []


def test_buckets_say_what_the_histogram_says() -> None:
    histogram = row(1000, latency_ms=7).latency_planned
    assert buckets_quantile_us(buckets_us(histogram), 0.5) == pytest.approx(7000, rel=0.01)
