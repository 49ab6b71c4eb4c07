"""Kafka's throttle."""

import pytest

from headrace.lab.perf.throttle import Throttle


def test_whoever_is_behind_does_not_pause() -> None:
    throttle = Throttle(1_000, start_ns=0)
    assert throttle.pause_s(500, now_ns=1_000_000_000) == 0
    assert throttle.pause_s(0, now_ns=0) == 0
    assert throttle.pause_s(1_000, now_ns=0) == 0  # No time has passed in which to be ahead.


def test_pauses_too_short_to_take_are_owed() -> None:
    throttle = Throttle(1_000, start_ns=0)
    assert [throttle.pause_s(100, now_ns=1_000_000) for _ in range(4)] == [0, 0.002, 0, 0.002]
    throttle = Throttle(10, start_ns=0)
    assert throttle.pause_s(100, now_ns=1_000_000) == 0.1


@pytest.mark.parametrize("rate_per_s", [0.5, 7.5, 333, 60_000])
def test_a_sender_that_takes_no_time_keeps_the_rate(rate_per_s: float) -> None:
    throttle = Throttle(rate_per_s, start_ns=0)
    now_s, records = 0.000_001, int(rate_per_s * 20)
    for number in range(records):
        now_s += throttle.pause_s(number, now_ns=int(now_s * 1e9))
    assert records / now_s == pytest.approx(rate_per_s, rel=0.15 if rate_per_s < 1 else 0.01)
