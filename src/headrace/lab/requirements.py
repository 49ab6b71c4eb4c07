"""What a workload asks of a target: a bound on a metric, absolute or as a multiple of what another target does.

    require:
      rate_per_s: at least 1.5 x kafka
      start_s: at most 0.4

Judged are medians over repeats. A multiple has its confidence interval beside it: where the bound lies within that,
the repeats do not tell. Plain numbers in, verdicts out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.lab.intervals import Interval, ratio_interval

_FORM: Final = re.compile(r"at (least|most) (\d+(?:\.\d+)?)(?: x (\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    metric: str
    is_least: bool  # Else it is at most.
    bound: float
    rival: str | None = None  # Whose median the bound is a multiple of.

    @property
    def bound_text(self) -> str:
        sense = ">=" if self.is_least else "<="
        return f"{sense} {self.bound:g}{f' x {self.rival}' if self.rival else ''}"


def at_least(metric: str, bound: float, *, rival: str | None = None) -> Requirement:
    return Requirement(metric=metric, is_least=True, bound=bound, rival=rival)


def at_most(metric: str, bound: float, *, rival: str | None = None) -> Requirement:
    return Requirement(metric=metric, is_least=False, bound=bound, rival=rival)


def parse_requirement(metric: str, text: Any) -> Requirement:
    found = _FORM.fullmatch(str(text))
    if found is None:
        raise ConfigError(f"{metric}: {text!r} is not 'at least 1.5 x kafka' or 'at most 0.4'")
    sense, bound, rival = found.groups()
    return Requirement(metric=metric, is_least=sense == "least", bound=float(bound), rival=rival)


class Result(StrEnum):
    MET = "met"
    SHORT = "short"
    NOT_JUDGED = "not judged"  # A side was not measured.
    NOT_MEASURABLE = "not measurable here"  # It was, and what was measured was not the target.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    requirement: Requirement
    result: Result
    measured: float | None = None  # In the requirement's terms: the median, or the multiple of the rival's.
    interval: Interval | None = None  # Of the multiple, where there are repeats to tell it from.
    why: str | None = None  # It is not measurable.

    def text(self, title: str) -> str:
        """`title` is what people call the metric."""
        bound = self.requirement.bound_text
        if self.measured is None:
            return f"{self.result}: {title} {bound}" + (f" ({self.why})" if self.why else "")
        sure = "" if self.interval is None else f" ({self.interval.low:.3g}..{self.interval.high:.3g})"
        return f"{self.result}: {title} {self.measured:.3g}{sure} {bound}"


def judge(
    requirement: Requirement, ours: Sequence[float], rivals: Sequence[float] = (), *, refused: str | None = None
) -> Verdict:
    """`refused` is why a quality gate did not let the figures pass; then they are no evidence, for or against."""
    if refused is not None:
        return Verdict(requirement=requirement, result=Result.NOT_MEASURABLE, why=refused)
    if not ours or (requirement.rival is not None and (not rivals or median(rivals) == 0)):
        return Verdict(requirement=requirement, result=Result.NOT_JUDGED)
    measured, interval = median(ours), None
    if requirement.rival is not None:
        measured /= median(rivals)
        if min(*ours, *rivals) > 0 and (found := ratio_interval(ours, rivals)).is_known and found.count > 1:
            interval = found
    is_met = measured >= requirement.bound if requirement.is_least else measured <= requirement.bound
    return Verdict(
        requirement=requirement,
        result=Result.MET if is_met else Result.SHORT,
        measured=measured,
        interval=interval,
    )
