"""What a run came to: totals, rates, a verdict, and lines that say what they are in."""

import io
import json

import numpy as np
import pytest

from headrace.lab.scenario import Scenario
from headrace.lab.schedule import SECOND_NS
from headrace.lab.senders import Outcome
from headrace.lab.sent import Sent, quantiles_ms, write_line
from headrace.lab.timeline import Second, Timeline


def row(count: int, *, late_ns: int = 1_000_000) -> Second:
    timeline = Timeline()
    planned = np.full(count, 5)
    timeline.planned(0, count)
    timeline.sent(planned, planned + late_ns, 200 * count)
    timeline.acknowledged(planned, planned + late_ns, planned + 3 * late_ns, 200 * count)
    timeline.fold()
    return timeline.pop(0)


def a_run(seconds: int, count: int = 1_000) -> Sent:
    sent = Sent(Scenario(rate_per_s=1_000.0, duration_s=float(seconds)), target="node")
    for _ in range(seconds):
        sent.add(row(count))
    sent.end(Outcome(elapsed_s=float(seconds)))
    return sent


def test_totals_rates_and_verdict() -> None:
    sent = a_run(70)
    assert (sent.total.sent, sent.delivered) == (70_000, 70_000)
    assert sent.rate_per_s == 1_000
    assert sent.mib_per_s == pytest.approx(200_000 / 2**20)
    assert sent.window_per_s == 1_000
    assert sent.one_minute_per_s == pytest.approx(1_000 * (1 - np.exp(-70 / 60)))
    assert sent.steadiness.is_steady is True
    assert not sent.is_partial


def test_a_short_run_has_no_window_and_the_last_piece_of_a_second_is_no_second() -> None:
    sent = a_run(3)
    sent.add(row(10))
    assert sent.window_per_s is None
    assert sent.seconds == [1_000] * 3
    assert sent.steadiness.is_steady is None


def test_the_summary_is_json_with_all_that_one_needs_to_judge_it() -> None:
    sent = a_run(2)
    into = io.StringIO()
    for line in (sent.run_json(1_700_000_000 * SECOND_NS), sent.second_json(0, 0, row(3)), sent.summary_json()):
        write_line(into, line)
    run, second, summary = map(json.loads, into.getvalue().splitlines())
    assert [line["type"] for line in (run, second, summary)] == ["run", "second", "summary"]
    assert run["started_utc"] == "2023-11-14T22:13:20.000+00:00"
    assert {"scenario", "seed", "versions", "host", "units", "target"} <= run.keys()
    assert {"headrace", "librdkafka", "python"} <= run["versions"].keys()
    assert summary["lateness_ms"] == {"p50": 1, "p95": 1, "p99": 1, "p99.9": 1, "max": 1}
    assert summary["latency_planned_ms"]["p99"] == 3
    assert summary["latency_sent_ms"]["p99"] == 2
    assert Second.from_json(second).sent == 3
    assert summary["steady"]["is_steady"] is None


def test_nothing_at_all_is_json_too() -> None:
    sent = Sent(Scenario(rate_per_s=1_000.0, duration_s=1.0), target="node")
    summary = json.loads(json.dumps(sent.summary_json(), allow_nan=False))
    assert summary["latency_planned_ms"] is None
    assert summary["rate_per_s"] == 0


def test_a_run_that_lost_a_sender_is_partial() -> None:
    sent = a_run(2)
    sent.end(Outcome(elapsed_s=2.0, troubles=["sender 1: killed"]))
    assert sent.is_partial
    assert sent.summary_json()["outcome"]["troubles"] == ["sender 1: killed"]


def test_quantiles_of_nothing() -> None:
    assert quantiles_ms(Second().lateness) is None
