"""The highest rate that is held: doubled until it is not, then halved in between until the two are near enough.

A rate is held when what was planned came through, steadily, and the quality gate let it pass. One trial that was not
may be chance, so it is tried again before it counts; that keeps a stall of the machine from ending the search below the
truth. Every trial that counts moves one of the two ends, so the search is over after as many as their ratio takes.

Decides which rate is next and what was found; what a trial is, whoever asks knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.lab.errors import LabError
from headrace.lab.results import PASSED, RepeatLine

# Of what was planned. At a constant rate less has come through only where something was in the way.
HELD_SHARE: Final = 0.99
_SHRINKS_MAX: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    rate_per_s: float
    is_held: bool
    why: str  # It was not; or what it reached.

    def __str__(self) -> str:
        return f"{self.rate_per_s:,.0f}/s: {'held' if self.is_held else 'not held'}, {self.why}"


def judge(line: RepeatLine, *, planned_per_s: float) -> Trial:
    """What a repeat at a rate says of that rate."""
    reached_per_s = line.metrics.get("rate_per_s", 0.0)
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
    if line.steady is not None and line.steady.is_steady is False:
        return str(line.steady)
    gate = line.gate.get("rate_per_s", PASSED)
    return None if gate == PASSED else gate


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
    def found_per_s(self) -> float:
        """The highest that was held. LabError where none was."""
        if self._held_per_s is None:
            raise LabError(f"no rate was held; the last trial, {self._trials[-1] if self._trials else 'none at all'}")
        return self._held_per_s

    def tell(self, trial: Trial) -> None:
        assert trial.rate_per_s == self._next_per_s
        self._trials.append(trial)
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
