"""How a figure is called and written in a table, for every reader of one.

Names are those of the lab where it has the metric (`headrace.lab.metrics`), with the unit last.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    title: str
    unit: str

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


# Of the sheets; those of the race are in its table.
METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric(name="memory_mb_peak", title="peak MB", unit="MB"),
        # Of Spark, between a topic and files. Its CPU is that of driver, JVM and Python workers; the broker's is apart.
        Metric(name="rows_per_s", title="rows/s", unit="/s"),
        Metric(name="cpu_s_per_m_rows", title="CPU-s/M rows", unit="s/M"),
        Metric(name="broker_cpu_s_per_m_rows", title="broker CPU-s/M rows", unit="s/M"),
        Metric(name="jvm_mb_peak", title="JVM MB", unit="MB"),
        Metric(name="workers_mb_peak", title="workers MB", unit="MB"),
        # From an event's time to the commit that made it a row of the lake.
        Metric(name="delay_s_mean", title="mean s", unit="s"),
        Metric(name="delay_s_p50", title="p50 s", unit="s"),
        Metric(name="delay_s_p99", title="p99 s", unit="s"),
        Metric(name="delay_s_max", title="max s", unit="s"),
        Metric(name="load_cpu_cores", title="load CPU, cores", unit="cores"),
        Metric(name="broker_cpu_cores", title="node CPU, cores", unit="cores"),
        # What the measurement itself suffered.
        Metric(name="others_cpu_share", title="CPU share of other processes", unit=""),
        Metric(name="steal_share", title="CPU share stolen by the host", unit=""),
    )
}
