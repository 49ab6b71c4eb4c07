"""Kafka's one-minute rate, true windows, and what is steady."""

import math
import random
from collections.abc import Iterator

import pytest

from headrace.lab.rates import (
    SLOPE_PER_MIN_MAX,
    VARIATION_MAX,
    OneMinuteRate,
    one_minute_rates,
    steadiness,
    window_rates,
)


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
    assert (found.variation, found.slope_per_min.value, found.readings) == (0, 0, 12)
    assert str(found) == "steady: varies by 0.0%, slope +0.0% [+0.0%, +0.0%] a minute"


def noisy(mean: float, share: float, count: int) -> Iterator[float]:
    for n in range(count):
        yield mean * (1 + (share if n % 2 else -share))


def test_noise_within_five_percent_is_steady_and_beyond_is_not() -> None:
    assert steadiness([*noisy(1000, 0.04, 600)]).is_steady is True
    assert steadiness([*noisy(1000, 0.06, 600)]).is_steady is False


def test_a_slow_climb_is_not_steady_though_it_varies_little() -> None:
    climbing = [1000 + second * 0.5 for second in range(240)]  # 3% a minute.
    found = steadiness(climbing)
    assert found.variation < 0.05
    assert found.slope_per_min.value == pytest.approx(0.03, rel=0.15)
    assert found.is_steady is False
    assert steadiness(climbing[::-1]).slope_per_min.value == pytest.approx(-found.slope_per_min.value, rel=0.2)
    assert "not steady" in str(found)


def measured(
    seconds: int, *, noise: float, slope_per_min: float = 0.0, swing: float = 0.0, seed: int = 0
) -> list[float]:
    """A rate that is read once a second: what it is, and chance."""
    chance = random.Random(seed)
    return [
        1000
        * (1 + slope_per_min * (second - seconds) / 60 + swing * math.sin(second * math.tau / 7))
        * chance.gauss(1, noise)
        for second in range(seconds)
    ]


@pytest.mark.parametrize("noise", [0.001, 0.005, 0.02])
def test_a_constant_rate_is_hardly_ever_called_unsteady_for_being_measured_shortly(noise: float) -> None:
    """As the presets do that are scaled to minutes. Five intervals of a hundred do not have the true slope in them."""
    found = [steadiness(measured(24, noise=noise, seed=seed)).is_steady for seed in range(1000)]
    assert found.count(False) <= 50


def test_a_constant_rate_is_called_steady_once_that_can_be_known() -> None:
    for seconds, noise in ((24, 0.0003), (120, 0.005), (600, 0.04)):
        found = [steadiness(measured(seconds, noise=noise, seed=seed)).is_steady for seed in range(200)]
        assert found.count(True) > 190
        assert found.count(False) == 0


def test_a_rate_that_drifts_or_swings_is_not_steady() -> None:
    for seed in range(100):
        for slope_per_min in (0.02, -0.02):
            drift = measured(600, noise=0.01, slope_per_min=slope_per_min, seed=seed)
            assert steadiness(drift).is_steady is False
        for seconds in (24, 600):
            assert steadiness(measured(seconds, noise=0.01, swing=0.12, seed=seed)).is_steady is False


def test_a_drift_that_a_short_run_cannot_tell_is_untold() -> None:
    found = steadiness(measured(24, noise=0.01, slope_per_min=0.03))
    assert found.slope_per_min.low < SLOPE_PER_MIN_MAX < found.slope_per_min.high
    assert found.is_steady is None
    assert str(found).startswith("too short to tell: varies by ")


def test_of_a_long_run_the_verdict_is_the_definition() -> None:
    chance = random.Random(5)
    for seed in range(300):
        slope, noise = chance.uniform(-0.03, 0.03), chance.uniform(0, 0.08)
        found = steadiness(measured(1800, noise=noise, slope_per_min=slope, seed=seed))
        if abs(abs(found.slope_per_min.value) - SLOPE_PER_MIN_MAX) > 0.0015:
            is_level = abs(found.slope_per_min.value) <= SLOPE_PER_MIN_MAX
            assert found.is_steady is (is_level and found.variation <= VARIATION_MAX)


def test_a_slope_is_of_minutes_however_often_it_was_read() -> None:
    by_second = [1000 + second for second in range(600)]
    by_ten = by_second[::10]
    slope_per_min = steadiness(by_second).slope_per_min.value
    assert steadiness(by_ten, step_s=10).slope_per_min.value == pytest.approx(slope_per_min, rel=0.02)


@pytest.mark.parametrize("rates", [[], [5.0], [100.0] * 18])
def test_a_short_run_tells_nothing(rates: list[float]) -> None:
    assert steadiness(rates).is_steady is None
    assert "too short" in str(steadiness(rates))


def test_nothing_at_all_is_not_steady() -> None:
    found = steadiness([0.0] * 60)
    assert math.isinf(found.variation)
    assert found.is_steady is False
