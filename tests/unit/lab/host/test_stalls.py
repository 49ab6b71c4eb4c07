"""A thread that spins, on a clock that jumps."""

from collections.abc import Callable

import numpy as np
import pytest

from headrace.lab.histogram import Histogram
from headrace.lab.host.stalls import STALL_NS_MIN, Stalls, measure_stalls, spin


def clock(jumps_ns: dict[int, int]) -> Callable[[], int]:
    """Moves by 100 ns a look, but by so much at the n-th."""
    now = looks = 0

    def look() -> int:
        nonlocal now, looks
        looks += 1
        now += jumps_ns.get(looks, 100)
        return now

    return look


def test_only_jumps_are_stalls() -> None:
    elapsed_ns, jumps = spin(
        duration_ns=10_000_000, clock=clock({50: STALL_NS_MIN, 70: STALL_NS_MIN - 1, 90: 3_000_000})
    )
    assert jumps == [STALL_NS_MIN, 3_000_000]
    assert 10_000_000 <= elapsed_ns <= 10_000_100


def test_a_stall_beyond_the_end_counts_and_so_does_its_time() -> None:
    elapsed_ns, jumps = spin(duration_ns=1_000_000, clock=clock({5: 9_000_000}))
    assert jumps == [9_000_000]
    assert elapsed_ns >= 9_000_000


def test_shares_are_of_the_time_that_it_took() -> None:
    stalls = Histogram()
    stalls.add(np.array([100_000, 300_000]))
    found = Stalls(elapsed_ns=20_000_000, stalls=stalls, waited_ns=200_000, stolen_share=None)
    assert found.share == pytest.approx(0.02)
    assert found.waited_share == pytest.approx(0.01)
    assert found.per_s == pytest.approx(100)
    assert found.to_json()["share_of_cpu_stolen_by_the_host"] is None


def test_a_real_thread_runs_most_of_the_time() -> None:
    found = measure_stalls(duration_s=0.05)
    assert found.elapsed_ns >= 50_000_000
    assert 0 <= found.share < 1
