"""Questions to results, each answered with a verdict and the numbers behind it: what findings are made of.

A question has three answers. Where results cannot tell, because a cell is missing, was cut short, did not pass the
quality gate or was measured too few times, the answer is that it is not measurable here, and why. Numbers are told
apart, from each other and from a limit, by confidence intervals over repeats, never by their order alone: of one repeat
there is none.
"""

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.lab.comparison import doubts_of
from headrace.lab.intervals import Interval, mean_interval, ratio_interval
from headrace.lab.metrics import metric_text
from headrace.lab.quantities import parse_rate_per_s
from headrace.lab.report.scales import figures
from headrace.lab.results import PASSED, Cell, RepeatLine, Results, cell_text
from headrace.lab.sender_places import LOCAL

# A configured rate is reached by this share of it: a run's first and last seconds are not whole.
REACHED: Final = 0.98
# As alike as makes no difference to anybody.
ALIKE: Final = 0.10
# An interval of a ratio that is wider than this, either way, tells nothing from nothing.
TELLING: Final = 0.25


# What a workload means that does not say.
_UNSAID: Final = {"sender": LOCAL, "consume": "during"}


class Verdict(StrEnum):
    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_MEASURABLE = "not measurable here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    verdict: Verdict
    why: str


class NotMeasurable(Exception):
    """Why a question has no answer here."""


Question = Callable[["Evidence"], Answer]
Factor = Callable[["Evidence", tuple[Results, Cell]], float]


def answered(question: Question, runs: Sequence[Results]) -> Answer:
    try:
        return question(Evidence(runs))
    except NotMeasurable as reason:
        return Answer(verdict=Verdict.NOT_MEASURABLE, why=str(reason))


@dataclass(frozen=True, slots=True)
class Evidence:
    runs: Sequence[Results]

    def cells(self, *, part: str | None = None, **match: Any) -> list[tuple[Results, Cell]]:
        """Cells with these values, or with any of several; of the runs of a workload of this name if one is given."""
        return [
            (run, cell)
            for run in self.runs
            if part is None or run.scenario.name == part
            for cell in run.cells
            if all(self.parameter(run, cell, name) in _texts(value) for name, value in match.items())
        ]

    @staticmethod
    def parameter(run: Results, cell: Cell, name: str) -> str:
        """As text, for YAML's 1 and "1" are one to a workload."""
        said = cell.get(name, run.scenario.workload.get(name))
        return str(_UNSAID.get(name) if said is None else said)

    def one(self, *, part: str | None = None, **match: Any) -> tuple[Results, Cell]:
        found = self.cells(part=part, **match)
        if not found:
            raise NotMeasurable(f"nothing was measured with {cell_text(match)}")
        return found[0]

    def values(self, where: tuple[Results, Cell], metric: str, *, may_differ: bool = False) -> list[float]:
        """Of all whole repeats, if the gate let them pass. They `may_differ` where their interval is asked."""
        run, cell = where
        values = run.values(cell, metric)
        if not values:
            told = [line.partial or line.gate.get(metric, PASSED) for line in run.repeats_of(cell)]
            why = next((f": {each}" for each in told if each != PASSED), "")
            raise NotMeasurable(f"{metric_text(metric)} was not measured with {cell_text(cell)}{why}")
        if (doubt := doubts_of(run, cell, may_differ=may_differ).get(metric)) is not None:
            raise NotMeasurable(f"{metric_text(metric)} with {cell_text(cell)}: {doubt}")
        return values

    def interval(self, where: tuple[Results, Cell], metric: str) -> Interval:
        return mean_interval(self.values(where, metric))

    def together(
        self, where: tuple[Results, Cell], one: str, other: str, of: Callable[[float, float], float]
    ) -> list[float]:
        """What two metrics of one repeat make together, of every repeat."""
        ones, others = self.values(where, one), self.values(where, other)
        if len(ones) != len(others):
            lacks = metric_text(one if len(ones) < len(others) else other)
            raise NotMeasurable(f"{lacks} was not measured in every repeat with {cell_text(where[1])}")
        return [of(*each) for each in zip(ones, others, strict=True)]

    def per(self, where: tuple[Results, Cell], metric: str, of: str) -> list[float]:
        """One metric for each unit of another."""
        if min(self.values(where, of)) <= 0:
            raise NotMeasurable(f"{metric_text(of)} is zero with {cell_text(where[1])}")
        return self.together(where, metric, of, operator.truediv)

    def planned_per_s(self, where: tuple[Results, Cell]) -> float:
        run, cell = where
        try:
            return parse_rate_per_s(self.parameter(run, cell, "rate"))
        except ConfigError:
            raise NotMeasurable(f"no rate was configured with {cell_text(cell)}") from None

    def is_steady(self, where: tuple[Results, Cell]) -> bool:
        """What all repeats say alike. One of several that says otherwise may be chance, or may not."""
        _, cell = where
        told = [
            line.steady.is_steady
            for line in self.calm_repeats(where, "whether it was steady")
            if line.steady is not None
        ]
        if not told or None in told:
            raise NotMeasurable(f"with {cell_text(cell)} it was too short to tell whether it was steady")
        if len({*told}) > 1:
            steady = sum(each is True for each in told)
            raise NotMeasurable(f"with {cell_text(cell)} {steady} of {len(told)} repeats were steady, and others not")
        return told[0] is True

    def bottlenecks(self, where: tuple[Results, Cell]) -> list[str]:
        told = [line.bottleneck for line in self.calm_repeats(where, "the bottleneck") if line.bottleneck]
        if not told:
            raise NotMeasurable(f"no bottleneck was named with {cell_text(where[1])}")
        return list(dict.fromkeys(each.verdict for each in told))

    @staticmethod
    def calm_repeats(where: tuple[Results, Cell], what: str) -> list[RepeatLine]:
        """Whole ones, and none on a machine that others had: that makes anything unsteady, and holds anything up, as
        does whatever cuts a repeat short. Intervals over repeats are no reason to doubt what each tells by itself."""
        run, cell = where
        whole = [line for line in run.repeats_of(cell) if line.partial is None]
        if not whole:
            why = next((line.partial for line in run.repeats_of(cell)), "no repeat came to its end")
            raise NotMeasurable(f"{what} with {cell_text(cell)}: {why}")
        for line in whole:
            if (doubt := line.gate.get("rate_per_s", PASSED)) != PASSED:
                raise NotMeasurable(f"{what} with {cell_text(cell)}: {doubt}")
        return whole


def _texts(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, tuple) else (value,))]


def verdict(holds: bool, why: str) -> Answer:
    return Answer(verdict=Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD, why=why)


def together(answers: Sequence[Answer]) -> Answer:
    """One that does not hold decides; else one that cannot be told."""
    assert answers
    for worst in (Verdict.DOES_NOT_HOLD, Verdict.NOT_MEASURABLE):
        found = [answer.why for answer in answers if answer.verdict is worst]
        if found:
            return Answer(verdict=worst, why="; ".join(found))
    return Answer(verdict=Verdict.HOLDS, why="; ".join(answer.why for answer in answers))


def all_of(*questions: Question) -> Question:
    return lambda evidence: together([answered(question, evidence.runs) for question in questions])


def within(found: Interval, why: str, *, least: float = -math.inf, most: float = math.inf) -> Answer:
    """Whether a number lies between the two: it does, or does not, with all of its interval."""
    if not found.is_known:
        raise NotMeasurable(f"{why}: one repeat alone does not tell how sure it is")
    if least <= found.low and found.high <= most:
        return verdict(True, why)
    if found.high < least or found.low > most:
        return verdict(False, why)
    raise NotMeasurable(f"{why}: between {figures(found.low)} and {figures(found.high)}, too uncertain to tell")


# --- Kinds of questions ----------------------------------------------------------------------------------------------


def each_reaches(*, reaches: bool = True, **match: Any) -> Question:
    """Every cell with these values comes up to the rate that was configured, or none does."""

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells(**match) or [evidence.one(**match)]
        return together([guarded(partial(_reached, evidence, where, reaches)) for where in cells])

    return question


def _reached(evidence: Evidence, where: tuple[Results, Cell], reaches: bool) -> Answer:
    planned = evidence.planned_per_s(where)
    found = mean_interval(evidence.values(where, "rate_per_s", may_differ=True))
    why = f"{figures(found.value)} of {figures(planned)}/s with {cell_text(where[1])}"
    is_reached = within(found, why, least=REACHED * planned).verdict is Verdict.HOLDS
    return verdict(is_reached == reaches, why)


def higher(metric: str, *, this: dict[str, Any], than: dict[str, Any], part: str | None = None) -> Question:
    """A metric is higher in one cell than in another, and not by chance."""

    def question(evidence: Evidence) -> Answer:
        one, other = evidence.one(part=part, **this), evidence.one(part=part, **than)
        return _is_higher(evidence, metric, one, other)

    return question


def _is_higher(evidence: Evidence, metric: str, one: tuple[Results, Cell], other: tuple[Results, Cell]) -> Answer:
    why = f"with {cell_text(one[1])} against {cell_text(other[1])}"
    return higher_of(metric_text(metric), evidence.values(one, metric), evidence.values(other, metric), why=why)


def higher_of(what: str, values: Sequence[float], base: Sequence[float], *, why: str) -> Answer:
    """Some values are higher than others, and not by chance."""
    ratio = ratio_of(what, values, base, why=why)
    why = f"{what} is {_ratio_text(ratio)} {why}"
    if ratio.contains(1.0) and ratio.low < 1.0 < ratio.high and ratio.share > TELLING:
        raise NotMeasurable(f"{why}: too uncertain to tell")
    return verdict(ratio.low > 1.0, why)


def alike(
    metric: str, *, this: dict[str, Any], that: dict[str, Any], factor: float = 1.0, by: float = ALIKE
) -> Question:
    """A metric is the same in two cells, or so many times the other: it differs `by` no larger a share."""

    def question(evidence: Evidence) -> Answer:
        one, other = evidence.one(**this), evidence.one(**that)
        ratio = _ratio(evidence, metric, one, other)
        why = f"{metric_text(metric)} is {_ratio_text(ratio)} with {cell_text(one[1])} against {cell_text(other[1])}"
        return within(ratio, why, least=factor * (1 - by), most=factor / (1 - by))

    return question


def monotone(metric: str, parameter: str, *, rises: bool) -> Question:
    """Along a sweep over numbers the metric goes one way. One step that goes the other way for certain is enough to say
    that it does not; all must go it for certain to say that it does."""

    def question(evidence: Evidence) -> Answer:
        cells = [(float(cell[parameter]), (run, cell)) for run, cell in evidence.cells() if parameter in cell]
        if len(cells) < 3:
            raise NotMeasurable(f"a course needs three values of {parameter}, and {len(cells)} were measured")
        ordered = [where for _, where in sorted(cells, key=lambda each: each[0])]
        means = [evidence.interval(where, metric).value for where in ordered]
        why = f"{metric_text(metric)} by {parameter}: {', '.join(map(figures, means))}"
        if not rises:
            ordered.reverse()
        steps = [_ratio(evidence, metric, later, earlier) for earlier, later in itertools.pairwise(ordered)]
        if any(step.high < 1.0 for step in steps):
            return verdict(False, why)
        ends = _is_higher(evidence, metric, ordered[-1], ordered[0])
        if ends.verdict is Verdict.HOLDS and any(step.low <= 1.0 for step in steps):
            raise NotMeasurable(f"{why}; {ends.why}; of two neighbours it is too uncertain which is more")
        return verdict(ends.verdict is Verdict.HOLDS, f"{why}; {ends.why}")

    return question


def steady(is_steady: bool, **match: Any) -> Question:
    """Every cell with these values is steady, or none is."""

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells(**match) or [evidence.one(**match)]
        return together([guarded(partial(_steady, evidence, where, is_steady)) for where in cells])

    return question


def _steady(evidence: Evidence, where: tuple[Results, Cell], wanted: bool) -> Answer:
    found = evidence.is_steady(where)
    return verdict(found == wanted, f"{'steady' if found else 'not steady'} with {cell_text(where[1])}")


def times(metric: str, of: str, *, factor: Factor, by: float) -> Question:
    """In every cell one metric is so many times another: it differs `by` no larger a share."""

    def answer(evidence: Evidence, where: tuple[Results, Cell]) -> Answer:
        found, wanted = mean_interval(evidence.per(where, metric, of)), factor(evidence, where)
        why = f"{metric_text(metric)} is {found.value:.2f} times {metric_text(of)}, of {wanted:g} expected"
        return within(found, why, least=wanted * (1 - by), most=wanted * (1 + by))

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells() or [evidence.one()]
        return together([guarded(partial(answer, evidence, where)) for where in cells])

    return question


def guarded(question: Callable[[], Answer]) -> Answer:
    try:
        return question()
    except NotMeasurable as reason:
        return Answer(verdict=Verdict.NOT_MEASURABLE, why=str(reason))


def _ratio(evidence: Evidence, metric: str, one: tuple[Results, Cell], other: tuple[Results, Cell]) -> Interval:
    why = f"with {cell_text(one[1])} against {cell_text(other[1])}"
    return ratio_of(metric_text(metric), evidence.values(one, metric), evidence.values(other, metric), why=why)


def ratio_of(what: str, values: Sequence[float], base: Sequence[float], *, why: str) -> Interval:
    if min(*values, *base) <= 0:
        raise NotMeasurable(f"{what} is zero {why}")
    ratio = ratio_interval(values, base)
    if ratio.count < 2:
        raise NotMeasurable(f"{what}: one repeat alone does not tell how sure a difference is")
    return ratio


def _ratio_text(ratio: Interval) -> str:
    return f"{ratio.value:.2f} times [{ratio.low:.2f}, {ratio.high:.2f}]"
