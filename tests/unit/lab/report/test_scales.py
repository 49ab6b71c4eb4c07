"""Axes: round ends, ticks that can be read, values in their places."""

import pytest

from headrace.lab.report.scales import (
    extent_scale,
    figures,
    linear_scale,
    log_scale,
    margin_text,
    percentile_scale,
    short_number,
)


def texts(scale: object) -> list[str]:
    return [tick.text for tick in scale.ticks]  # type: ignore[attr-defined]


def test_lengths_begin_at_zero_and_end_on_a_round_number() -> None:
    scale = linear_scale([250_736, 371_892])
    assert texts(scale) == ["0", "100 K", "200 K", "300 K", "400 K"]
    assert scale.share_of(0) == 0
    assert scale.share_of(400_000) == 1
    assert scale.share_of(100_000) == 0.25


@pytest.mark.parametrize("values", [[], [0.0], [5.0, 5.0], [0.00012], [3e12], [-3.0, 2.0], [float("inf"), 2.0]])
def test_every_value_has_its_place(values: list[float]) -> None:
    scale = linear_scale(values)
    assert [tick.share for tick in scale.ticks] == sorted(tick.share for tick in scale.ticks)
    assert 2 <= len(scale.ticks) <= 8
    for value in values:
        assert value == float("inf") or -1e-9 <= scale.share_of(value) <= 1 + 1e-9


def test_time_ends_when_it_ends() -> None:
    scale = extent_scale([0, 69])
    assert texts(scale) == ["0", "20", "40", "60"]
    assert scale.share_of(69) == 1


def test_factors_are_equally_far_apart() -> None:
    scale = log_scale([0.02, 180])
    assert scale.share_of(10) - scale.share_of(1) == pytest.approx(scale.share_of(1) - scale.share_of(0.1))
    assert texts(scale) == ["0.1", "1", "10", "100"]
    assert texts(log_scale([3, 40])) == ["2", "5", "10", "20", "50"]
    assert log_scale([1, 10]).share_of(0) == 0


def test_each_further_nine_is_as_wide_as_the_last() -> None:
    scale = percentile_scale(0.9999)
    assert texts(scale) == ["0%", "50%", "90%", "99%", "99.9%", "99.99%"]
    assert scale.share_of(0.9999) == pytest.approx(1)
    assert scale.share_of(0.99) - scale.share_of(0.9) == pytest.approx(scale.share_of(0.9))


def test_numbers_are_short() -> None:
    assert [short_number(value) for value in (0, 0.25, 999, 1000, 420_000, 1.25e6, 3e9)] == [
        "0", "0.25", "999", "1 K", "420 K", "1.25 M", "3 G",
    ]  # fmt: skip
    assert [figures(value) for value in (0, 0.01234, 9.5671, 21.45, 130.84, 99845.2)] == [
        "0", "0.0123", "9.57", "21.45", "130.8", "99,845",
    ]  # fmt: skip
    assert margin_text(99_664, 100_026) == "± 181"
    assert margin_text(1.9, 2.156) == "± 0.13"
