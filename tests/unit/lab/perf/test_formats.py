"""The lines, to the letter. The first two consumer lines are of the CKU paper's section Example Output."""

from headrace.lab.perf.formats import (
    consumer_header,
    detailed_line,
    latency_lines,
    progress_line,
    summary_line,
    timed_out_line,
    topic_created_line,
    total_line,
    warmup_line,
    window_line,
)
from headrace.lab.perf.statistics import Consumed, Sent


def stamp(now_ms: int) -> str:
    return f"@{now_ms}"


def test_a_producers_window() -> None:
    assert window_line(Sent(249_231, 249_231 * 512, 249_231 * 14_100, 212_000, 5_010)) == (
        "249231 records sent, 49746.7 records/sec (24.29 MB/sec), 14.1 ms avg latency, 212.0 ms max latency."
    )


def test_a_producers_summary() -> None:
    sent = Sent(54_000_000, 54_000_000 * 512, 54_000_000 * 16_880, 1_851_000, 1_063_600)
    assert summary_line(sent, [7, 57, 211, 566]) == (
        "54000000 records sent, 50770.966529 records/sec (24.79 MB/sec), 16.88 ms avg latency, 1851.00 ms max latency, "
        "7 ms 50th, 57 ms 95th, 211 ms 99th, 566 ms 99.9th."
    )
    steady = summary_line(sent, [7, 57, 211, 566], is_steady_state=True)
    assert steady.startswith("54000000 steady state records sent, ")
    assert warmup_line(10) == (
        "Warmup first 10 records. Steady state results will print after the complete test summary."
    )


def test_nothing_sent_is_not_a_number() -> None:
    assert summary_line(Sent(0, 0, 0, 0, 0), [0, 0, 0, 0]) == (
        "0 records sent, NaN records/sec (NaN MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th."
    )


def test_a_consumers_headings() -> None:
    columns = (
        "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
        "fetch.nMsg.sec"
    )
    assert consumer_header(is_detailed=False) == f"start.time, end.time, {columns}"
    assert consumer_header(is_detailed=True) == f"time, threadId, {columns}"


def test_a_consumers_interval() -> None:
    before, after = 1_009_990 - 247_205, 1_009_990
    consumed = Consumed(15_528, 20_530, after, before, after * 512, before * 512, 0)
    assert detailed_line(consumed, stamp) == (
        "@20530, 0, 493.1592, 24.1315, 1009990, 49421.2315, 0, 5002, 24.1315, 49421.2315"
    )
    waited = Consumed(0, 5_000, 10, 0, 10 << 20, 0, 5_000)
    assert detailed_line(waited, stamp) == "@5000, 0, 10.0000, 2.0000, 10, 2.0000, 5000, 0, 0.0000, 0.0000"


def test_a_consumers_total() -> None:
    consumed = Consumed(1_000, 5_000, 1_000, 0, 1 << 20, 0, 2_000)
    assert total_line(consumed, stamp) == ("@1000, @5000, 1.0000, 0.2500, 1000, 250.0000, 2000, 2000, 0.5000, 500.0000")
    assert total_line(Consumed(0, 0, 1, 0, 1 << 20, 0, 0), stamp) == (
        "@0, @0, 1.0000, Infinity, 1, Infinity, 0, 0, Infinity, Infinity"
    )
    assert timed_out_line(60_000) == (
        "WARNING: Exiting before consuming the expected number of messages: timeout (60000 ms) exceeded. "
        "You can use the --timeout option to increase the timeout."
    )


def test_end_to_end() -> None:
    assert progress_line(1_000, 1_234_567) == "1000\t1.234567"
    assert progress_line(0, 250_000) == "0\t0.25"
    assert latency_lines(3_300_000_000, 1_000, [3, 9, 12]) == (
        "Avg latency: 3.3000 ms",
        "Percentiles: 50th = 3, 99th = 9, 99.9th = 12",
    )
    assert topic_created_line("t") == (
        'Topic "t" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
