"""What the load programs print, and what is made of it."""

import json

import pytest

from bench.errors import LoadError
from bench.loads import parse_c_report, parse_perf_report

PERF = """\
1749 records sent, 349.5 records/sec (0.07 MB/sec), 2.2 ms avg latency, 410.0 ms max latency.
5000 records sent, 2500.000000 records/sec (0.48 MB/sec), 1.38 ms avg latency, 410.00 ms max latency, \
1 ms 50th, 2 ms 95th, 6 ms 99th, 409 ms 99.9th.
"""


def test_the_last_line_of_the_perf_tool_counts() -> None:
    outcome = parse_perf_report(PERF, messages=5000, message_bytes=200)
    assert (outcome.messages, outcome.value_bytes, outcome.seconds) == (5000, 1_000_000, 2.0)
    assert outcome.values == {"latency_ms_p50": 1.0, "latency_ms_p99": 6.0, "latency_ms_p999": 409.0}


@pytest.mark.parametrize("output", ["", PERF.splitlines()[0], PERF.replace("5000 records", "4999 records")])
def test_a_perf_run_that_sent_less_has_no_figures(output: str) -> None:
    with pytest.raises(LoadError, match="did not send 5000 records"):
        parse_perf_report(output, messages=5000, message_bytes=200)


def test_a_report_of_the_c_load_becomes_rates_and_milliseconds() -> None:
    report = json.loads(
        '{"messages": 10, "bytes": 2000, "start_ns": 1000000000, "first_ns": 1, "half_ns": 2000000000, '
        '"end_ns": 3000000000, "latency_us": {"count": 10, "p50": 500, "p99": 1500, "p999": 2500, "max": 9}, '
        '"lateness_us": null}'
    )
    outcome = parse_c_report(report)
    assert (outcome.messages, outcome.value_bytes, outcome.seconds) == (10, 2000, 2.0)
    assert outcome.course_ns == (1_000_000_000, 2_000_000_000, 3_000_000_000)
    assert outcome.values == {"latency_ms_p50": 0.5, "latency_ms_p99": 1.5, "latency_ms_p999": 2.5}
