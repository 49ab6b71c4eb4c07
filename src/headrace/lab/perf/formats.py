"""The lines of Kafka's perf tests, to the letter, from what was counted. MB are of 2^20 bytes, as there.

The rate in a producer's last line has six decimals, as in Kafka up to 3.9 and again since 4.2; in 4.0 and 4.1 it
has one.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headrace.lab.perf.java_text import divide, fixed, shortest
from headrace.lab.perf.statistics import Consumed, Sent, round_to_ms

_MB: Final = 1024.0 * 1024.0
SUMMARY_FRACTIONS: Final = (0.5, 0.95, 0.99, 0.999)
LATENCY_FRACTIONS: Final = (0.5, 0.99, 0.999)
IN_STEADY_STATE: Final = "In steady state."

_CONSUMER_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


# --- producer ----------------------------------------------------------------------------------------------------


def window_line(sent: Sent) -> str:
    return (
        f"{sent.records} records sent, {fixed(_records_per_s(sent), 1)} records/sec "
        f"({fixed(_mb_per_s(sent), 2)} MB/sec), {fixed(_mean_ms(sent), 1)} ms avg latency, "
        f"{fixed(round_to_ms(sent.latency_us_max), 1)} ms max latency."
    )


def summary_line(sent: Sent, percentiles_ms: Sequence[int], *, is_steady_state: bool = False) -> str:
    """`percentiles_ms` are at SUMMARY_FRACTIONS."""
    p50, p95, p99, p999 = percentiles_ms
    return (
        f"{sent.records}{' steady state' if is_steady_state else ''} records sent, "
        f"{fixed(_records_per_s(sent), 6)} records/sec ({fixed(_mb_per_s(sent), 2)} MB/sec), "
        f"{fixed(_mean_ms(sent), 2)} ms avg latency, {fixed(round_to_ms(sent.latency_us_max), 2)} ms max latency, "
        f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
    )


def warmup_line(records: int) -> str:
    return f"Warmup first {records} records. Steady state results will print after the complete test summary."


def _records_per_s(sent: Sent) -> float:
    return divide(1000.0 * sent.records, sent.elapsed_ms)


def _mb_per_s(sent: Sent) -> float:
    return divide(1000.0 * sent.size_bytes, sent.elapsed_ms) / _MB


def _mean_ms(sent: Sent) -> float:
    return divide(sent.latency_us_total / 1000.0, sent.records)


# --- consumer ----------------------------------------------------------------------------------------------------


def consumer_header(*, is_detailed: bool) -> str:
    return f"{'time, threadId' if is_detailed else 'start.time, end.time'}, {_CONSUMER_COLUMNS}"


def detailed_line(consumed: Consumed, date_text: Callable[[int], str]) -> str:
    """One interval: totals so far, rates of the interval."""
    elapsed_ms = float(consumed.end_ms - consumed.start_ms)
    records = consumed.records - consumed.records_before
    mb = (consumed.size_bytes - consumed.size_bytes_before) / _MB
    fetch_ms = consumed.fetch_ms
    fields = (
        date_text(consumed.end_ms),
        "0",
        fixed(consumed.size_bytes / _MB, 4),
        fixed(divide(1000.0 * mb, elapsed_ms), 4),
        str(consumed.records),
        fixed(divide(records, elapsed_ms) * 1000.0, 4),
        str(consumed.rebalance_ms),
        str(fetch_ms),
        fixed(0.0 if fetch_ms <= 0 else 1000.0 * mb / fetch_ms, 4),
        fixed(0.0 if fetch_ms <= 0 else 1000.0 * records / fetch_ms, 4),
    )
    return ", ".join(fields)


def total_line(consumed: Consumed, date_text: Callable[[int], str]) -> str:
    elapsed_s = (consumed.end_ms - consumed.start_ms) / 1000.0
    fetch_s = consumed.fetch_ms / 1000.0
    mb = consumed.size_bytes / _MB
    fields = (
        date_text(consumed.start_ms),
        date_text(consumed.end_ms),
        fixed(mb, 4),
        fixed(divide(mb, elapsed_s), 4),
        str(consumed.records),
        fixed(divide(consumed.records, elapsed_s), 4),
        str(consumed.rebalance_ms),
        str(consumed.fetch_ms),
        fixed(divide(mb, fetch_s), 4),
        fixed(divide(consumed.records, fetch_s), 4),
    )
    return ", ".join(fields)


def timed_out_line(timeout_ms: int) -> str:
    return (
        f"WARNING: Exiting before consuming the expected number of messages: timeout ({timeout_ms} ms) exceeded. "
        "You can use the --timeout option to increase the timeout."
    )


# --- end to end --------------------------------------------------------------------------------------------------


def progress_line(number: int, elapsed_ns: int) -> str:
    return f"{number}\t{shortest(elapsed_ns / 1000.0 / 1000.0)}"


def latency_lines(elapsed_ns_total: int, count: int, percentiles_ms: Sequence[int]) -> tuple[str, str]:
    """`percentiles_ms` are at LATENCY_FRACTIONS."""
    p50, p99, p999 = percentiles_ms
    return (
        f"Avg latency: {fixed(divide(elapsed_ns_total, count) / 1000.0 / 1000.0, 4)} ms",
        f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}",
    )


def topic_created_line(topic: str) -> str:
    return f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
