"""The comparison alone and in company: which rows, in which order, and when a rate fell."""

import pytest

from bench.in_company import ALONE, FELL, HOLDS, IN_COMPANY, OPEN, interval, lines, orders, with_a_rate
from bench.results import Reading
from bench.scenarios import SCENARIOS


def _readings(row: str, how: str, rates: list[float]) -> list[Reading]:
    return [
        Reading(row=row, system=how, repeat=repeat, values={"messages_per_s": rate, "cpu_s_per_gb": 1.0})
        for repeat, rate in enumerate(rates)
    ]


def test_rows_have_a_rate_and_bring_what_they_read() -> None:
    names = [row.name for row in with_a_rate(SCENARIOS)]
    assert {"produce-200b", "consume-200b", "consume-200b-bare", "single-acks-1", "fan-out"} <= set(names)
    assert not {"start", "restart", "end-to-end-low", "log-10gb-produce"} & set(names)


def test_neither_way_is_always_first() -> None:
    assert [order[0] for _, order in orders(4)] == [ALONE, IN_COMPANY, ALONE, IN_COMPANY]


@pytest.mark.parametrize(("count", "left_out"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (12, 2), (20, 5)])
def test_the_interval_of_a_median_leaves_out_as_many_as_the_table_says(count: int, left_out: int) -> None:
    """The table of order statistics for 95%; fewer than six values never reach it and are all kept."""
    found = interval([float(value) for value in range(count)])
    assert (found.least, found.greatest) == (left_out, count - 1 - left_out)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([0.96] * 8, HOLDS), ([0.94] * 8, FELL), ([0.9] * 4 + [1.0] * 4, OPEN), ([0.96] * 10 + [0.5, 2.0], HOLDS)],
)
def test_a_rate_holds_or_fell_where_the_whole_interval_says_so(ratios: list[float], verdict: str) -> None:
    """However fast the machine was at each turn."""
    row = SCENARIOS[1]
    alone = [100.0 * (turn + 1) for turn in range(len(ratios))]
    readings = _readings(row.name, ALONE, alone)
    readings += _readings(row.name, IN_COMPANY, [rate * ratio for rate, ratio in zip(alone, ratios, strict=True)])
    (line,) = lines([row], readings)
    assert line[-1] == verdict


def test_a_row_measured_one_way_only_has_no_line() -> None:
    assert not list(lines([SCENARIOS[1]], _readings(SCENARIOS[1].name, ALONE, [1.0])))
