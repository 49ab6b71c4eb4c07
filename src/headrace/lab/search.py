"""The highest rate that is held: doubled until it is not, then halved in between until the two are near enough.

A rate is held when what was planned came through, and steadily. One trial that was not may be chance, so it is tried
again before it counts; that keeps a stall of the machine from ending the search below the truth. Every trial that
counts moves one of the two ends, so the search is over after as many as their ratio takes.

A trial while somebody else had the machine, by the quality gate, says nothing of the target and moves neither end. It
is made again, a few times; a machine that is not calm by then ends the search, and what was held so far is no highest
rate but one that is held. So does a target that holds no rate at all.

Decides which rate is next and what was found; how a rate is measured, whoever asks knows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.lab.results import PASSED, RepeatLine, cell_text

# Of what was planned. At a constant rate less has come through only where something was in the way.
HELD_SHARE: Final = 0.99
_SHRINKS_MAX: Final = 12
DISTURBED_MAX: Final = 5  # Trials in a row.
_MAX_RATE: Final = "max_rate_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    rate_per_s: float
    is_held: bool
    why: str  # It was not; or what it reached.
    is_disturbed: bool = False  # Others had the machine: whether the rate can be held is not known.

    def __str__(self) -> str:
        word = "disturbed" if self.is_disturbed else "held" if self.is_held else "not held"
        return f"{self.rate_per_s:,.0f}/s: {word}, {self.why}"


def judge(line: RepeatLine, *, planned_per_s: float) -> Trial:
    """What a repeat at a rate says of that rate."""
    reached_per_s = line.metrics.get("rate_per_s", 0.0)
    # What the gate says against the throughput of one repeat is that others had the machine, and nothing else.
    if line.partial is None and (disturbed := line.gate.get("rate_per_s", PASSED)) != PASSED:
        return Trial(rate_per_s=planned_per_s, is_held=False, why=disturbed, is_disturbed=True)
    return Trial(
        rate_per_s=planned_per_s,
        is_held=(why := _why_not(line, planned_per_s, reached_per_s)) is None,
        why=why or f"reached {reached_per_s:,.0f}/s",
    )


def _why_not(line: RepeatLine, planned_per_s: float, reached_per_s: float) -> str | None:
    if line.partial is not None:
        return line.partial
    if reached_per_s < HELD_SHARE * planned_per_s:
        return f"reached {reached_per_s:,.0f}/s"
    return str(line.steady) if line.steady is not None and line.steady.is_steady is False else None


class RateSearch:
    """Ask for `next_rate_per_s`, tell what came of it, until there is none."""

    def __init__(self, start_per_s: float, *, precision: float = 0.02, tries: int = 2, max_per_s: float = 20e6) -> None:
        assert start_per_s > 0
        assert 0 < precision < 1
        self._next_per_s: float | None = min(start_per_s, max_per_s)
        self._precision = precision
        self._tries = tries
        self._max_per_s = max_per_s
        self._tried = 0
        self._disturbed = 0  # Of the last trials.
        self._shrinks = 0
        self._held_per_s: float | None = None
        self._refused_per_s: float | None = None
        self._trials: list[Trial] = []

    @property
    def next_rate_per_s(self) -> float | None:
        """None when it is over."""
        return self._next_per_s

    @property
    def trials(self) -> Sequence[Trial]:
        return self._trials

    @property
    def held_per_s(self) -> float | None:
        """The highest that was held; None where none was."""
        return self._held_per_s

    @property
    def lack(self) -> str | None:
        """Why that is not known to be the highest there is; None where it is, and as long as it goes on."""
        if self._disturbed == DISTURBED_MAX:
            last = self._trials[-1]
            return f"{last.why}, in {self._disturbed} trials in a row of {last.rate_per_s:,.0f}/s"
        if self._next_per_s is None and self._held_per_s is None:
            return f"no rate was held; the last trial, {self._trials[-1]}"
        return None

    def tell(self, trial: Trial) -> None:
        assert trial.rate_per_s == self._next_per_s
        self._trials.append(trial)
        if trial.is_disturbed:
            self._disturbed += 1
            if self._disturbed == DISTURBED_MAX:
                self._next_per_s = None
            return
        self._disturbed = 0
        self._tried += 1
        if not trial.is_held and self._tried < self._tries:
            return  # Once more.
        self._tried = 0
        if trial.is_held:
            self._held_per_s = trial.rate_per_s
        else:
            self._refused_per_s = trial.rate_per_s
        self._next_per_s = self._decide_next()

    def _decide_next(self) -> float | None:
        held, refused = self._held_per_s, self._refused_per_s
        if held is None:
            assert refused is not None
            self._shrinks += 1
            return refused / 2 if self._shrinks <= _SHRINKS_MAX else None
        if refused is None:
            return None if held >= self._max_per_s else min(held * 2, self._max_per_s)
        return None if refused <= held * (1 + self._precision) else (held + refused) / 2


def search_highest(
    search: RateSearch,
    measure: Callable[[float, int], RepeatLine],
    *,
    cell: Mapping[str, Any],
    repeat: int,
    tell: Callable[[Trial], None],
) -> RepeatLine:
    """The repeat at the highest rate that was held, with that rate among its metrics; one without metrics, where none
    was. The gate says what keeps the rate from being known to be the highest.

    `measure` is given a rate and the number of the trial. A trial that was cut short ends it, and is what it came to.
    """
    best: RepeatLine | None = None
    while (rate_per_s := search.next_rate_per_s) is not None:
        line = measure(rate_per_s, len(search.trials))
        if line.partial is not None:
            return line  # The target is gone, or nobody wants to know any more.
        trial = judge(line, planned_per_s=rate_per_s)
        search.tell(trial)
        tell(trial)
        if trial.is_held:
            best = line
    if best is None or search.held_per_s is None:
        assert search.lack is not None
        told = f"{cell_text(cell)}: {search.lack}"
        return RepeatLine(cell=cell, repeat=repeat, metrics={}, gate={_MAX_RATE: search.lack}, events=[told])
    return replace(
        best,
        metrics={_MAX_RATE: round(search.held_per_s, 3), **best.metrics},
        gate={_MAX_RATE: search.lack or PASSED, **best.gate},
    )
