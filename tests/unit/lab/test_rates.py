"""Kafka's one-minute rate, true windows, and what is steady."""

import math
from collections.abc import Iterator

import pytest

from headrace.lab.rates import OneMinuteRate, one_minute_rates, steadiness, window_rates


def test_a_step_is_63_percent_in_after_a_minute_and_95_after_three() -> None:
    shown = one_minute_rates([1000.0] * 180)
    assert shown[59] == pytest.approx(632, abs=1)
    assert shown[179] == pytest.approx(950, abs=1)


def test_it_moves_every_five_seconds_only() -> None:
    shown = one_minute_rates([100.0] * 12)
    assert shown[:4] == [0.0] * 4
    assert shown[4] == shown[8] != shown[9]


def test_a_new_meter_begins_with_its_first_tick() -> None:
    meter = OneMinuteRate(None)
    assert [meter.add_second(count) for count in (50, 50, 50, 50)] == [None] * 4
    assert meter.add_second(50) == 50


def test_windows_are_true_and_begin_when_they_are_full() -> None:
    counts = [10, 20, 30, 40]
    assert [*window_rates(counts, window_s=2)] == [None, 15, 25, 35]
    assert [*window_rates([], window_s=60)] == []
    with pytest.raises(ValueError, match="no window"):
        [*window_rates(counts, window_s=0)]


def test_a_flat_rate_is_steady_whatever_its_first_half_did() -> None:
    found = steadiness([0, 5, 900, 3, 17, 0, 0, 0, 0, 0, 0, 0, *[100.0] * 12])
    assert found.is_steady is True
    assert (found.variation, found.slope_per_min, found.readings) == (0, 0, 12)


def noisy(mean: float, share: float, count: int) -> Iterator[float]:
    for n in range(count):
        yield mean * (1 + (share if n % 2 else -share))


def test_noise_within_five_percent_is_steady_and_beyond_is_not() -> None:
    assert steadiness([*noisy(1000, 0.04, 240)]).is_steady is True
    assert steadiness([*noisy(1000, 0.06, 240)]).is_steady is False


def test_a_slow_climb_is_not_steady_though_it_varies_little() -> None:
    climbing = [1000 + second * 0.5 for second in range(240)]  # 3% a minute.
    found = steadiness(climbing)
    assert found.variation < 0.05
    assert found.slope_per_min == pytest.approx(0.03, rel=0.15)
    assert found.is_steady is False
    assert steadiness(climbing[::-1]).slope_per_min == pytest.approx(-found.slope_per_min, rel=0.2)
    assert "not steady" in str(found)


def test_a_slope_is_of_minutes_however_often_it_was_read() -> None:
    by_second = [1000 + second for second in range(600)]
    by_ten = by_second[::10]
    assert steadiness(by_ten, step_s=10).slope_per_min == pytest.approx(steadiness(by_second).slope_per_min, rel=0.02)


@pytest.mark.parametrize("rates", [[], [5.0], [100.0] * 18])
def test_a_short_run_tells_nothing(rates: list[float]) -> None:
    assert steadiness(rates).is_steady is None
    assert "too short" in str(steadiness(rates))


def test_nothing_at_all_is_not_steady() -> None:
    found = steadiness([0.0] * 60)
    assert math.isinf(found.variation)
    assert found.is_steady is False
