"""The search for a ceiling, on a sink whose ceiling is known."""

import random
from collections.abc import Callable

import pytest

from headrace.lab.results import PASSED, RepeatLine, Steady
from headrace.lab.search import DISTURBED_MAX, RateSearch, Trial, judge, search_highest

LIMIT = 37_000.0
BUSY = "other processes took 40.0% of the CPU (at most 2%)"


def line(rate_per_s: float, **changes: object) -> RepeatLine:
    steady = Steady(is_steady=True, variation=0.001, slope_per_minute=0.0)
    made = {"cell": {}, "repeat": 0, "metrics": {"rate_per_s": rate_per_s}, "steady": steady, "gate": {}, **changes}
    return RepeatLine(**made)  # type: ignore[arg-type]


def sink(planned_per_s: float, *, limit_per_s: float = LIMIT) -> Trial:
    """What is planned comes through, up to the limit."""
    return judge(line(min(planned_per_s, limit_per_s)), planned_per_s=planned_per_s)


def searched(search: RateSearch, limit_per_s: float = LIMIT) -> RateSearch:
    while (rate_per_s := search.next_rate_per_s) is not None:
        search.tell(sink(rate_per_s, limit_per_s=limit_per_s))
        assert len(search.trials) < 100
    return search


@pytest.mark.parametrize("start_per_s", [1.0, 100.0, 36_999.0, 37_001.0, 250_000.0, 5_000_000.0])
def test_it_finds_a_sink_limited_to_37_000_within_3_percent(start_per_s: float) -> None:
    search = searched(RateSearch(start_per_s))
    assert search.held_per_s == pytest.approx(LIMIT, rel=0.03)
    assert search.lack is None


def test_it_converges_for_any_limit_and_start() -> None:
    chance = random.Random(7)
    for _ in range(300):
        limit_per_s, start_per_s = 10 ** chance.uniform(3, 6.5), 10 ** chance.uniform(3, 6)
        search = searched(RateSearch(start_per_s), limit_per_s)
        assert search.held_per_s == pytest.approx(limit_per_s, rel=0.03)
        assert len(search.trials) < 50


def test_one_stall_does_not_end_it_below_the_truth() -> None:
    search, chance = RateSearch(10_000.0), random.Random(3)
    while (rate_per_s := search.next_rate_per_s) is not None:
        is_stalled = len(search.trials) % 2 == 0 and chance.random() < 0.9  # Never twice in a row.
        search.tell(Trial(rate_per_s=rate_per_s, is_held=False, why="a stall") if is_stalled else sink(rate_per_s))
    assert search.held_per_s == pytest.approx(LIMIT, rel=0.03)


def test_a_sink_without_a_limit_ends_it_at_the_most_there_is() -> None:
    assert searched(RateSearch(1e6), 1e12).held_per_s == 20e6


def test_a_sink_that_takes_nothing_is_told() -> None:
    search = searched(RateSearch(1_000.0), limit_per_s=0.0)
    assert search.held_per_s is None
    assert search.lack == "no rate was held; the last trial, 0/s: not held, reached 0/s"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (line(980.0), "reached 980/s"),
        (line(1000.0, partial="node died"), "node died"),
        (
            line(1000.0, steady=Steady(is_steady=False, variation=0.2, slope_per_minute=-0.05)),
            "not steady: varies by 20.0%, slope -5.0% a minute",
        ),
        (line(1000.0, partial="node died", gate={"rate_per_s": BUSY}), "node died"),
        (line(0.0, metrics={}), "reached 0/s"),
    ],
)
def test_what_is_not_held(made: RepeatLine, why: str) -> None:
    assert judge(made, planned_per_s=1000.0) == Trial(rate_per_s=1000.0, is_held=False, why=why)


def test_what_is_held() -> None:
    too_short = Steady(is_steady=None, variation=0.0, slope_per_minute=0.0)
    for made in (
        line(995.0),
        line(1000.0, gate={"rate_per_s": PASSED, "send_latency_p99_ms": "late"}, steady=too_short),
    ):
        assert judge(made, planned_per_s=1000.0).is_held


@pytest.mark.parametrize("reached_per_s", [1000.0, 500.0])
def test_what_others_disturbed_says_nothing_of_the_rate(reached_per_s: float) -> None:
    trial = judge(line(reached_per_s, gate={"rate_per_s": BUSY}), planned_per_s=1000.0)
    assert trial == Trial(rate_per_s=1000.0, is_held=False, why=BUSY, is_disturbed=True)
    assert str(trial) == f"1,000/s: disturbed, {BUSY}"


# --- On a machine that others have, now and then or always -----------------------------------------------------------


class Machine:
    """A sink on a machine that is disturbed in some trials. One that is comes to half of what it would."""

    def __init__(self, is_disturbed: Callable[[int, float], bool], *, limit_per_s: float = LIMIT) -> None:
        self._is_disturbed = is_disturbed
        self._limit_per_s = limit_per_s
        self.told: list[Trial] = []

    def measure(self, rate_per_s: float, number: int) -> RepeatLine:
        assert number == len(self.told)
        reached_per_s = min(rate_per_s, self._limit_per_s)
        if self._is_disturbed(number, rate_per_s):
            return line(reached_per_s / 2, gate={"rate_per_s": BUSY})
        return line(reached_per_s, gate={"rate_per_s": PASSED})

    def search(self, start_per_s: float = 10_000.0) -> RepeatLine:
        return search_highest(RateSearch(start_per_s), self.measure, cell={"acks": 1}, repeat=2, tell=self.told.append)


def test_a_disturbed_trial_is_made_again_and_moves_nothing() -> None:
    calm, chance = Machine(lambda number, rate_per_s: False), random.Random(11)
    found = calm.search()
    assert found.metrics["max_rate_per_s"] == pytest.approx(LIMIT, rel=0.03)
    assert found.gate == {"max_rate_per_s": PASSED, "rate_per_s": PASSED}
    # Never so often in a row that the search gives up.
    busy = Machine(lambda number, rate_per_s: number % DISTURBED_MAX != 0 and chance.random() < 0.8)
    assert busy.search() == found
    assert sum(trial.is_disturbed for trial in busy.told) > 10
    assert [trial for trial in busy.told if not trial.is_disturbed] == calm.told


def test_a_machine_that_gets_busy_ends_it_with_what_was_held() -> None:
    machine = Machine(lambda number, rate_per_s: rate_per_s > 30_000)
    found = machine.search()
    assert found.metrics["max_rate_per_s"] == found.metrics["rate_per_s"] == 20_000
    assert found.gate == {"max_rate_per_s": f"{BUSY}, in 5 trials in a row of 40,000/s", "rate_per_s": PASSED}
    assert found.partial is None
    assert [trial.is_disturbed for trial in machine.told] == [False, False, *[True] * DISTURBED_MAX]


def test_a_machine_that_is_always_busy_costs_one_repeat_and_says_why() -> None:
    machine = Machine(lambda number, rate_per_s: True)
    found = machine.search()
    assert (found.cell, found.repeat, found.metrics, found.partial) == ({"acks": 1}, 2, {}, None)
    assert found.gate == {"max_rate_per_s": f"{BUSY}, in 5 trials in a row of 10,000/s"}
    assert found.events == [f"acks=1: {BUSY}, in 5 trials in a row of 10,000/s"]
    assert len(machine.told) == DISTURBED_MAX


def test_a_target_that_holds_no_rate_costs_one_repeat_and_says_why() -> None:
    found = Machine(lambda number, rate_per_s: False, limit_per_s=0.1).search()
    assert (found.metrics, found.partial) == ({}, None)
    assert found.gate["max_rate_per_s"].startswith("no rate was held; the last trial, 2/s: not held, reached 0/s")


def test_a_trial_that_was_cut_short_ends_it() -> None:
    told: list[Trial] = []
    dead = line(10.0, partial="node died", gate={"rate_per_s": BUSY})
    found = search_highest(RateSearch(1000.0), lambda rate_per_s, number: dead, cell={}, repeat=0, tell=told.append)
    assert found is dead
    assert told == []
