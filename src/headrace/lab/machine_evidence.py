"""Questions about the machine: its load against its cores, and the packets that came from elsewhere.

A load is told by the number of cores, for there are machines of eight and of two: one that is above it has work that
waits.
"""

from collections.abc import Callable
from functools import partial
from statistics import fmean
from typing import Any, Final

from headrace.lab.evidence import (
    ALIKE,
    TELLING,
    Answer,
    Evidence,
    NotMeasurable,
    Question,
    Verdict,
    guarded,
    ratio_of,
    together,
    verdict,
    within,
)
from headrace.lab.intervals import Interval
from headrace.lab.metrics import metric_text
from headrace.lab.readings.machine_metrics import LOAD
from headrace.lab.results import Cell, Results, cell_text

Where = tuple[Results, Cell]

_ELSEWHERE: Final = "cluster"  # The kind of target whose machine is not the one that was read.


def steady_ones_have_cores_left(evidence: Evidence) -> Answer:
    steady, _, untold = _by_steadiness(evidence)
    if not steady and not untold:
        raise NotMeasurable("no configuration was steady here")
    return together([*_answers(steady, lambda where: _against_cores(evidence, where, is_above=False)), *untold])


def unsteady_ones_are_overloaded(evidence: Evidence) -> Answer:
    """Those that were not steady have more work than cores, and a higher load than those that were."""
    steady, unsteady, untold = _by_steadiness(evidence)
    if not unsteady and not untold:
        raise NotMeasurable("every configuration was steady here")
    answers = [*_answers(unsteady, lambda where: _against_cores(evidence, where, is_above=True)), *untold]
    if steady and unsteady:
        answers.append(guarded(lambda: _is_highest(evidence, unsteady, steady)))
    return together(answers)


def _is_highest(evidence: Evidence, unsteady: list[Where], steady: list[Where]) -> Answer:
    """Every load of the one is above every load of the other, or one of them is below one for certain."""
    ones, others = ([_load(evidence, where) for where in cells] for cells in (unsteady, steady))
    lowest, highest = min(each.value for each in ones), max(each.value for each in others)
    why = f"from {lowest:.1f} on where it was not steady, up to {highest:.1f} where it was"
    if min(each.low for each in ones) > max(each.high for each in others):
        return verdict(True, why)
    if min(each.high for each in ones) < max(each.low for each in others):
        return verdict(False, why)
    raise NotMeasurable(f"{why}: too uncertain to tell")


def overloaded(**match: Any) -> Question:
    """Every cell with these values has more work than there are cores."""

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells(**match) or [evidence.one(**match)]
        return _each(cells, lambda where: _against_cores(evidence, where, is_above=True))

    return question


def load_is_not_proportional(evidence: Evidence) -> Answer:
    """To the rate: what a message costs is not the same in all cells."""
    cells = evidence.cells() or [evidence.one()]
    costs = sorted((evidence.per(where, LOAD, "rate_per_s") for where in cells), key=fmean)
    if len(costs) < 2:
        raise NotMeasurable("of one configuration alone nothing is in proportion")
    lowest, highest = costs[0], costs[-1]
    why = f"a load of {1000 * fmean(lowest):.4f} to {1000 * fmean(highest):.4f} for every 1,000 messages/s"
    is_alike = within(ratio_of("load", lowest, highest, why=why), why, least=1 - ALIKE)
    return verdict(is_alike.verdict is not Verdict.HOLDS, why)


def load_at_most(share: float, **match: Any) -> Question:
    """Of each host, in every cell with these values, and as a share of its cores.

    The machine that was read has senders and broker both, or senders alone: of the one a low load tells of each, and of
    the other only a high one tells anything.
    """

    def answer(evidence: Evidence, where: Where) -> Answer:
        run, cell = where
        load, cores = _load(evidence, where), _cores(run)
        is_low = _is_below(load, share * cores, _load_text(load, cores, cell))
        is_elsewhere = run.scenario.target.get("kind") == _ELSEWHERE
        if is_low and is_elsewhere:
            raise NotMeasurable("only the senders' host was read, and not the brokers'")
        if not is_low and not is_elsewhere:
            raise NotMeasurable(f"{_load_text(load, cores, cell)}: that of the broker and its senders together")
        return verdict(is_low, _load_text(load, cores, cell))

    def question(evidence: Evidence) -> Answer:
        cells = evidence.cells(**match) or [evidence.one(**match)]
        return _each(cells, lambda where: answer(evidence, where))

    return question


def more(metric: str, *, this: dict[str, Any], than: dict[str, Any]) -> Question:
    """A metric that may be nothing at all is higher in one cell than in another, and not by chance."""

    def question(evidence: Evidence) -> Answer:
        one, other = evidence.one(**this), evidence.one(**than)
        found, base = evidence.interval(one, metric), evidence.interval(other, metric)
        if not found.is_known or not base.is_known:
            raise NotMeasurable(f"{metric_text(metric)}: one repeat alone does not tell how sure a difference is")
        why = (
            f"{metric_text(metric)}: {found.value:,.0f} with {cell_text(one[1])}, "
            f"{base.value:,.0f} with {cell_text(other[1])}"
        )
        is_apart = found.low > base.high or found.high < base.low
        span = max(found.high, base.high) - min(found.low, base.low)
        if not is_apart and span > 2 * TELLING * max(found.value, base.value):
            raise NotMeasurable(f"{why}: too uncertain to tell")
        return verdict(found.low > base.high, why)

    return question


def _by_steadiness(evidence: Evidence) -> tuple[list[Where], list[Where], list[Answer]]:
    """Cells that were steady, cells that were not, and why it is not known of others. Those may be either, so that no
    finding on all of one kind holds beside them; one of a kind that is known is enough for it not to hold."""
    steady: list[Where] = []
    unsteady: list[Where] = []
    untold: list[Answer] = []
    for where in evidence.cells() or [evidence.one()]:
        try:
            (steady if evidence.is_steady(where) else unsteady).append(where)
        except NotMeasurable as reason:
            untold.append(Answer(verdict=Verdict.NOT_MEASURABLE, why=str(reason)))
    return steady, unsteady, untold


def _each(cells: list[Where], ask: Callable[[Where], Answer]) -> Answer:
    return together(_answers(cells, ask))


def _answers(cells: list[Where], ask: Callable[[Where], Answer]) -> list[Answer]:
    return [guarded(partial(ask, where)) for where in cells]


def _against_cores(evidence: Evidence, where: Where, *, is_above: bool) -> Answer:
    load, cores = _load(evidence, where), _cores(where[0])
    why = _load_text(load, cores, where[1])
    return verdict(_is_below(load, cores, why) != is_above, why)


def _load(evidence: Evidence, where: Where) -> Interval:
    return evidence.interval(where, LOAD)


def _cores(run: Results) -> int:
    cores = run.scenario.host.get("cores")
    if not cores:
        raise NotMeasurable("how many cores the machine has is not known")
    return int(cores)


def _is_below(load: Interval, limit: float, why: str) -> bool:
    if load.contains(limit):
        raise NotMeasurable(f"{why}: too uncertain to tell")
    return load.high < limit


def _load_text(load: Interval, cores: int, cell: Cell) -> str:
    return f"a load of {load.value:.1f} on {cores} cores with {cell_text(cell)}"
