"""What each metric is called for people, and which way of it is the better one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    text: str
    higher_is_better: bool | None  # None for what is neither.


def _rate(text: str) -> Metric:
    return Metric(text=text, higher_is_better=True)


def _duration(text: str) -> Metric:
    return Metric(text=text, higher_is_better=False)


_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9"}


def _costs(phase: str) -> dict[str, Metric]:
    """Of the broker meanwhile. The second half of the work against the first shows whether they grow with the log."""
    return {
        f"{phase}_cpu_s_per_gb": _duration(f"broker's CPU for a GB, {phase}"),
        f"{phase}_memory_mb_peak": _duration(f"broker's memory at most, {phase}"),
        f"{phase}_cpu_second_half_ratio": _duration(f"broker's CPU of the second half to the first, {phase}"),
        f"{phase}_memory_mb_growth": _duration(f"broker's memory grown in the second half, {phase}"),
    }


# In the order in which they are shown; one that is not here is shown after these, by its own name.
METRICS: Final[Mapping[str, Metric]] = {
    "max_rate_per_s": _rate("highest rate held"),
    "rate_per_s": _rate("rate"),
    "mb_per_s": _rate("throughput"),
    # Where there are any.
    "failed": _duration("failed"),
    "never_sent": _duration("never sent"),
    "not_answered": _duration("not answered in time"),
    **{f"planned_latency_{name}_ms": _duration(f"planned to answered, {text}") for name, text in _QUANTILES.items()},
    **{f"send_latency_{name}_ms": _duration(f"sent to answered, {text}") for name, text in _QUANTILES.items()},
    **{f"end_to_end_{name}_ms": _duration(f"planned to consumed, {text}") for name, text in _QUANTILES.items()},
    **{f"lateness_{name}_ms": _duration(f"sender's lateness, {text}") for name, text in _QUANTILES.items()},
    "consumed_per_s": _rate("consumed"),
    "consumed_mb_per_s": _rate("consumed throughput"),
    "broker_cpu_percent": _duration("broker's CPU"),
    "client_cpu_percent": _duration("clients' CPU"),
    "load": Metric(text="system load", higher_is_better=None),
    "received_packets_per_s": Metric(text="packets from elsewhere", higher_is_better=None),
    **_costs("sending"),
    **_costs("consuming"),
    "start_s": _duration("start to the first answer"),
    "restart_s": _duration("restart to the first records"),
    "idle_memory_mb": _duration("broker's memory, idle"),
}
HISTOGRAMS: Final[Mapping[str, str]] = {
    "planned_latency": "planned to answered",
    "send_latency": "sent to answered",
    "end_to_end": "planned to consumed",
    "lateness": "sender's lateness",
}


def metric_text(name: str) -> str:
    return METRICS[name].text if name in METRICS else name


def metric_title(name: str) -> str:
    """To stand alone."""
    text = metric_text(name)
    return text[:1].upper() + text[1:]


def in_order(names: set[str]) -> list[str]:
    return [name for name in METRICS if name in names] + sorted(names - METRICS.keys())
