"""What is measured, in which unit, and how a number is written: one table for every reader of a result.

A metric's name is its key in the JSON lines, with the unit last. MB is 10^6 bytes and GB 10^9, of message
values alone.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    title: str
    unit: str
    more_is_better: bool = False
    column: bool = True  # Whether it has a column of its own in the table; the rest is in the JSON lines.

    def write(self, value: float) -> str:
        """Three significant digits: repeats differ in the second."""
        if self.unit == "/s":
            for divisor, suffix in ((1e6, " M"), (1e3, " K")):
                if value >= divisor:
                    return _three_digits(value / divisor) + suffix
        return _three_digits(value)


def _three_digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric(name="messages_per_s", title="messages/s", unit="/s", more_is_better=True),
        Metric(name="mb_per_s", title="MB/s", unit="MB/s", more_is_better=True),
        Metric(name="cpu_s_per_gb", title="CPU-s/GB", unit="s/GB"),
        Metric(name="latency_ms_p50", title="p50 ms", unit="ms"),
        Metric(name="latency_ms_p99", title="p99 ms", unit="ms"),
        Metric(name="latency_ms_p999", title="p99.9 ms", unit="ms"),
        Metric(name="memory_mb_idle", title="idle MB", unit="MB"),
        Metric(name="memory_mb_peak", title="peak MB", unit="MB"),
        Metric(name="start_s", title="start s", unit="s"),
        # Of the second half of the work, to show that cost and memory do not grow with the log.
        Metric(name="cpu_second_half_ratio", title="CPU of 2nd half / 1st", unit="x", column=False),
        Metric(name="memory_mb_growth", title="memory grown in 2nd half MB", unit="MB", column=False),
        # Of Spark, between a topic and files. Its CPU is that of driver, JVM and Python workers; the broker's is apart.
        Metric(name="rows_per_s", title="rows/s", unit="/s", more_is_better=True, column=False),
        Metric(name="cpu_s_per_m_rows", title="CPU-s/M rows", unit="s/M", column=False),
        Metric(name="broker_cpu_s_per_m_rows", title="broker CPU-s/M rows", unit="s/M", column=False),
        Metric(name="jvm_mb_peak", title="JVM MB", unit="MB", column=False),
        Metric(name="workers_mb_peak", title="workers MB", unit="MB", column=False),
        # From an event's time to the commit that made it a row of the lake.
        Metric(name="delay_s_mean", title="mean s", unit="s", column=False),
        Metric(name="delay_s_p50", title="p50 s", unit="s", column=False),
        Metric(name="delay_s_p99", title="p99 s", unit="s", column=False),
        Metric(name="delay_s_max", title="max s", unit="s", column=False),
        Metric(name="load_cpu_cores", title="load CPU, cores", unit="cores", column=False),
        Metric(name="broker_cpu_cores", title="node CPU, cores", unit="cores", column=False),
        # What the measurement itself cost or suffered.
        Metric(name="lateness_ms_p99", title="generator lateness p99 ms", unit="ms", column=False),
        Metric(name="others_cpu_share", title="CPU share of other processes", unit="", column=False),
        Metric(name="steal_share", title="CPU share stolen by the host", unit="", column=False),
    )
}

COLUMNS: Final = tuple(metric for metric in METRICS.values() if metric.column)
