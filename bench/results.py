"""From readings to medians, spreads and verdicts. Pure: numbers in, numbers out."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.metrics import METRICS

MET: Final = "met"
SHORT: Final = "short"
NOT_JUDGED: Final = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One row measured once on one system."""

    row: str
    system: str
    repeat: int
    values: Mapping[str, float]  # By metric name.


# What others may take of the machine's CPU during a row that says something: processes beside the race, and the host.
DISTURBANCE_MAX: Final = {"others_cpu_share": 0.05, "steal_share": 0.02}


def disturbance(reading: Reading) -> float:
    """In multiples of what is let pass."""
    return max(reading.values.get(metric, 0.0) / limit for metric, limit in DISTURBANCE_MAX.items())


def calmest(attempts: Iterable[Reading]) -> list[Reading]:
    """Of each row the attempt that was disturbed least, whatever it measured."""
    chosen: dict[str, Reading] = {}
    for reading in attempts:
        best = chosen.setdefault(reading.row, reading)
        if disturbance(reading) < disturbance(best):
            chosen[reading.row] = reading
    return list(chosen.values())


@dataclass(frozen=True, slots=True)
class Spread:
    """A median never stands alone: the least and the greatest say how far to trust it."""

    median: float
    least: float
    greatest: float
    count: int

    def overlaps(self, other: "Spread") -> bool:
        return self.least <= other.greatest and other.least <= self.greatest


Summary = Mapping[tuple[str, str, str], Spread]  # By row, system and metric.


def summarise(readings: Iterable[Reading]) -> Summary:
    values: dict[tuple[str, str, str], list[float]] = {}
    for reading in readings:
        for metric, value in reading.values.items():
            values.setdefault((reading.row, reading.system, metric), []).append(value)
    return {key: spread_of(some) for key, some in values.items()}


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A bound on a metric of ours: absolute, or as a multiple of the rival's median."""

    metric: str
    bound: float
    times_rival: bool
    rival: str = "Kafka"

    def text(self) -> str:
        return f"{METRICS[self.metric].title} {self.bound_text()}"

    def bound_text(self) -> str:
        sense = ">=" if METRICS[self.metric].more_is_better else "<="
        return f"{sense} {self.bound:g}{f' x {self.rival}' if self.times_rival else ''}"


def times_kafka(metric: str, bound: float) -> Requirement:
    """At least so many times Kafka's where more is better, at most where less is."""
    return times(metric, bound, rival="Kafka")


def times(metric: str, bound: float, *, rival: str) -> Requirement:
    """The same of anything else that is measured beside it."""
    return Requirement(metric=metric, bound=bound, times_rival=True, rival=rival)


def at_most(metric: str, bound: float) -> Requirement:
    assert not METRICS[metric].more_is_better
    return Requirement(metric=metric, bound=bound, times_rival=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    requirement: Requirement
    result: str  # MET, SHORT, or NOT_JUDGED when a side was not measured.
    measured: float | None = None  # In the requirement's terms: the value, or the multiple of the rival's.
    ranges_overlap: bool = False  # The two systems' ranges overlap: the repeats do not tell them apart.

    def text(self) -> str:
        if self.measured is None:
            return f"{self.result}: {self.requirement.text()}"
        title, bound = METRICS[self.requirement.metric].title, self.requirement.bound_text()
        noise = " (ranges overlap)" if self.ranges_overlap else ""
        return f"{self.result}: {title} {self.measured:.3g} {bound}{noise}"


def judge(requirement: Requirement, *, ours: Spread | None, rival: Spread | None) -> Verdict:
    if ours is None or (requirement.times_rival and rival is None):
        return Verdict(requirement=requirement, result=NOT_JUDGED)
    measured, overlap = ours.median, False
    if requirement.times_rival:
        assert rival is not None
        if rival.median == 0:
            return Verdict(requirement=requirement, result=NOT_JUDGED)
        measured, overlap = ours.median / rival.median, ours.overlaps(rival)
    more_is_better = METRICS[requirement.metric].more_is_better
    met = measured >= requirement.bound if more_is_better else measured <= requirement.bound
    return Verdict(
        requirement=requirement,
        result=MET if met else SHORT,
        measured=measured,
        ranges_overlap=overlap,
    )
