"""The comparison alone and in company: which rows, in which order, and when a rate fell."""

import pytest

from bench.in_company import ALONE, FELL, HOLDS, IN_COMPANY, OPEN, Measured, cell_of, order, with_a_rate
from headrace.lab.race import Race
from headrace.lab.results import RepeatLine
from headrace.lab.workload import Workload


@pytest.fixture
def bulk(race: Race) -> Workload:
    return next(each for each in with_a_rate(race) if each.name == "bulk")


def lines(workload: Workload, how: str, rates: list[float]) -> list[RepeatLine]:
    (cell,) = workload.cells
    costs = {"sending_cpu_s_per_gb": 1.0}
    return [
        RepeatLine(cell=cell_of(workload, cell, how), repeat=repeat, metrics={"rate_per_s": rate, **costs})
        for repeat, rate in enumerate(rates)
    ]


def test_rows_have_a_rate_and_are_not_restarted(race: Race) -> None:
    found = with_a_rate(race)
    names = [each.row_name(cell) for each in found for cell in each.cells]
    assert {"bulk", "bare", "single/acks-1", "fan-out", "end-to-end/max"} <= set(names)
    assert not {"start", "end-to-end/low", "long", "open-loop/50"} & set(names)
    assert not any(cell.load.restart for each in found for cell in each.cells)


def test_the_long_row_is_measured_only_where_it_is_named(race: Race) -> None:
    assert "long" in {each.name for each in with_a_rate(race, named=["long"])}
    assert "long" not in {each.name for each in with_a_rate(race, named=["*"])}


def test_neither_way_is_always_first() -> None:
    assert [order(repeat)[0] for repeat in range(4)] == [ALONE, IN_COMPANY, ALONE, IN_COMPANY]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([0.96] * 8, HOLDS), ([0.94] * 8, FELL), ([0.9] * 4 + [1.0] * 4, OPEN), ([0.96] * 10 + [0.5, 2.0], HOLDS)],
)
def test_a_rate_holds_or_fell_where_the_whole_interval_says_so(
    bulk: Workload, ratios: list[float], verdict: str
) -> None:
    """However fast the machine was at each turn."""
    alone = [100.0 * (turn + 1) for turn in range(len(ratios))]
    both = [rate * ratio for rate, ratio in zip(alone, ratios, strict=True)]
    (line,) = Measured([*lines(bulk, ALONE, alone), *lines(bulk, IN_COMPANY, both)]).table_lines([bulk])
    assert line[-1] == verdict


def test_a_row_measured_one_way_only_has_no_line(bulk: Workload) -> None:
    assert not list(Measured(lines(bulk, ALONE, [1.0])).table_lines([bulk]))
