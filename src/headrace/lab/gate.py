"""The quality gate: of each metric, whether it was measured here or only the machine and the sender were.

- A latency, when the sender itself was so late that its lateness is a good part of what is reported; and when many
  messages have none: quantiles of those that came through say nothing of those that did not.
- A throughput, when it differs too much from repeat to repeat: only all repeats of a cell can tell.
- Anything, when somebody else had the machine: CPU stolen by the host behind it, stalls of a thread that never pauses,
  processes that are none of the run's.

What does not pass is reported with the reason, never hidden. Decides from numbers, and measures nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.errors import ConfigError
from headrace.lab.intervals import mean_interval
from headrace.lab.results import PASSED, RepeatLine

THROUGHPUTS: Final = ("rate_per_s", "max_rate_per_s", "mb_per_s", "consumed_per_s", "consumed_mb_per_s")
# Families of metrics, each with a p99 that the sender's lateness is compared with.
LATENCIES: Final = ("planned_latency", "send_latency", "end_to_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Shares: 0.05 is 5%."""

    lateness: float = 0.10  # The sender's p99, of the p99 reported.
    interval: float = 0.05  # Half of a throughput's confidence interval over repeats, of its mean.
    disturbance: float = 0.02  # CPU stolen, a thread stalled, cores taken by others.
    missing: float = 0.01  # Messages that have no latency, of those that should have one.

    def __post_init__(self) -> None:
        for name in ("lateness", "interval", "disturbance", "missing"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} of {getattr(self, name):g} lets nothing pass; it is a share above 0")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What others did to the machine while something was measured."""

    steal_share: float | None = None  # Of all cores; None where it is not counted.
    stall_share: float | None = None  # Of the time of a thread that never pauses, just before.
    others_share: float | None = None  # Of all cores, by processes that are none of the run's.
    busiest: str | None = None  # Which of those took most.

    def excess(self, limit: float) -> float:
        """In multiples of what is let pass."""
        return max(self.steal_share or 0.0, self.stall_share or 0.0, self.others_share or 0.0) / limit

    def reason(self, limit: float) -> str | None:
        """None where it was calm enough."""
        found = []
        if (self.steal_share or 0.0) > limit:
            found.append(f"the host took {self.steal_share:.1%} of the CPU")
        if (self.stall_share or 0.0) > limit:
            found.append(f"a busy thread was held off {self.stall_share:.1%} of the time")
        if (self.others_share or 0.0) > limit:
            who = f", most of it {self.busiest}" if self.busiest else ""
            found.append(f"other processes took {self.others_share:.1%} of the CPU{who}")
        return f"{'; '.join(found)} (at most {limit:.0%})" if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Messages that have no latency, of those that were planned."""

    planned: int = 0
    failed: int = 0
    unsent: int = 0
    unanswered: int = 0  # Sent, and neither answered nor failed when nobody waited any longer.
    unconsumed: int = 0  # Acknowledged, or given to the network, and not consumed by one of the groups.

    def reason(self, family: str, limit: float) -> str | None:
        """None where nearly all have one."""
        of = self.planned
        lost = {"failed": self.failed, "were not answered": self.unanswered}
        if family == "send_latency":
            of -= self.unsent  # It counts from sending.
        else:
            lost["were never sent"] = self.unsent
        if family == "end_to_end":
            lost["were not consumed"] = self.unconsumed
        if sum(lost.values()) <= limit * of:
            return None
        share = min(1.0, sum(lost.values()) / max(1, of))
        told = ", ".join(f"{count:,} {what}" for what, count in lost.items() if count)
        return f"{share:.1%} of {of:,} messages have no latency: {told} (at most {limit:.0%})"


def repeat_gate(
    metrics: Mapping[str, float],
    disturbance: Disturbance,
    thresholds: Thresholds | None = None,
    *,
    losses: Losses | None = None,
) -> dict[str, str]:
    """What one repeat can tell of each of its metrics."""
    limits = thresholds or Thresholds()
    disturbed = disturbance.reason(limits.disturbance)
    lateness_ms = metrics.get("lateness_p99_ms")
    missing = {family: (losses or Losses()).reason(family, limits.missing) for family in LATENCIES}

    def reason(name: str) -> str | None:
        """What others did to the machine takes no message away: both are told."""
        both = [why for why in (disturbed, missing.get(_family(name) or "")) if why is not None]
        return "; ".join(both) or _late(name, metrics, lateness_ms, limits)

    return {name: reason(name) or PASSED for name in metrics}


def _family(name: str) -> str | None:
    return next((each for each in LATENCIES if name.startswith(each)), None)


def _late(name: str, metrics: Mapping[str, float], lateness_ms: float | None, limits: Thresholds) -> str | None:
    family = _family(name)
    if family is None or lateness_ms is None:
        return None
    reported_ms = metrics.get(f"{family}_p99_ms")
    if reported_ms is None or lateness_ms <= limits.lateness * reported_ms:
        return None
    return (
        f"the sender itself was late by {_ms_text(lateness_ms)} at p99, "
        f"more than {limits.lateness:.0%} of the {_ms_text(reported_ms)} measured"
    )


def _ms_text(value_ms: float) -> str:
    return f"{value_ms:,.0f} ms" if value_ms >= 100 else f"{value_ms:.3g} ms"


def cell_gate(repeats: Sequence[RepeatLine], thresholds: Thresholds | None = None) -> dict[str, str]:
    """What all repeats of a cell together can tell of each metric. Those that were cut short count for nothing."""
    limits = thresholds or Thresholds()
    whole = [line for line in repeats if line.partial is None]
    names = dict.fromkeys(name for line in whole for name in line.metrics)
    return {name: _refused(name, whole) or _uncertain(name, whole, limits) or PASSED for name in names}


def mostly_refused(repeats: Sequence[RepeatLine], name: str) -> str | None:
    """Why, where more than half of the repeats can tell nothing of this metric: their median is no evidence."""
    whole = [line for line in repeats if line.partial is None]
    refused = sum(line.gate.get(name, PASSED) != PASSED for line in whole)
    return _refused(name, whole) if 2 * refused > len(whole) else None


def _refused(name: str, whole: Sequence[RepeatLine]) -> str | None:
    reasons = [why for line in whole if (why := line.gate.get(name, PASSED)) != PASSED]
    if not reasons:
        return None
    return reasons[0] if len(whole) == 1 else f"in {len(reasons)} of {len(whole)} repeats: {reasons[0]}"


def _uncertain(name: str, whole: Sequence[RepeatLine], limits: Thresholds) -> str | None:
    if name not in THROUGHPUTS:
        return None
    values = [line.metrics[name] for line in whole if name in line.metrics]
    if len(values) == 1:
        return "one repeat alone does not tell how sure it is"
    share = mean_interval(values).share
    if share <= limits.interval:
        return None
    return f"its 95% interval over {len(values)} repeats is ±{share:.1%} (at most {limits.interval:.0%})"
