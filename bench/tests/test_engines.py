"""What the programs of the race are told, and what is made of what they print."""

import json

import pytest

from bench.engines import c_outcome, java_producer, parse_perf_report, producer_properties, whole_batches
from headrace.lab.engines import Terms
from headrace.lab.errors import LabError
from headrace.lab.programs import Job
from tests.oracle.toolbox import ToolMissing, without_tool

PERF = """\
1749 records sent, 349.5 records/sec (0.07 MB/sec), 2.2 ms avg latency, 410.0 ms max latency.
5000 records sent, 2500.000000 records/sec (0.48 MB/sec), 1.38 ms avg latency, 410.00 ms max latency, \
1 ms 50th, 2 ms 95th, 6 ms 99th, 409 ms 99.9th.
"""
JOB = Job(
    bootstrap="127.0.0.1:9092",
    topic="t",
    messages=5000,
    size_bytes=200,
    terms=Terms(acks="1", linger_ms=50, batch_bytes=16_384, batch_messages=300),
    client={"linger.ms": "7"},
)


def test_the_last_line_of_the_perf_tool_counts() -> None:
    outcome = parse_perf_report(PERF, JOB)
    assert (outcome.messages, outcome.size_bytes, outcome.seconds) == (5000, 1_000_000, 2.0)
    names = ("p50", "p95", "p99", "p999")
    expected = {f"send_latency_{name}_ms": value for name, value in zip(names, (1.0, 2.0, 6.0, 409.0), strict=True)}
    assert outcome.metrics == expected


@pytest.mark.parametrize("output", ["", PERF.splitlines()[0], PERF.replace("5000 records", "4999 records")])
def test_a_perf_run_that_sent_less_has_no_figures(output: str) -> None:
    with pytest.raises(LabError, match="did not send 5000 records"):
        parse_perf_report(output, JOB)


def test_a_report_of_the_c_load_becomes_rates_and_milliseconds() -> None:
    report = json.loads(
        '{"messages": 10, "bytes": 2000, "start_ns": 1000000000, "first_ns": 1500000000, "half_ns": 2000000000, '
        '"end_ns": 3000000000, "latency_us": {"count": 10, "p50": 500, "p99": 1500, "p999": 2500, "max": 9}, '
        '"lateness_us": {"count": 10, "p50": 50, "p99": 150, "p999": 250, "max": 9}}'
    )
    outcome = c_outcome(report, latency="end_to_end")
    assert (outcome.messages, outcome.size_bytes, outcome.seconds, outcome.waited_s) == (10, 2000, 2.0, 0.5)
    assert outcome.course_ns == (1_000_000_000, 2_000_000_000, 3_000_000_000)
    assert outcome.metrics == {
        "end_to_end_p50_ms": 0.5,
        "end_to_end_p99_ms": 1.5,
        "end_to_end_p999_ms": 2.5,
        "lateness_p99_ms": 0.15,
    }


def test_terms_are_in_each_clients_own_words_and_its_settings_win() -> None:
    told = producer_properties(JOB)
    assert (told["batch.size"], told["batch.num.messages"], told["linger.ms"]) == ("16384", "300", "7")
    try:
        command = java_producer(JOB)
    except ToolMissing as missing:
        without_tool(missing)
    assert {"acks=1", "batch.size=16384", "linger.ms=7"} <= set(command)


@pytest.mark.parametrize(("messages", "expected"), [(5000, 5100), (4949, 4800), (1, 600)])
def test_requests_made_beforehand_are_whole(messages: int, expected: int) -> None:
    job = Job(bootstrap="", topic="t", messages=messages, size_bytes=1, terms=JOB.terms)
    assert whole_batches(job) == expected
