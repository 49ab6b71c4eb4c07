from math import exp

import pytest

from headrace.node.meters import BUCKETS, TICK_US, Histogram, Meter, bucket_floor

_S = 1_000_000


def filled(*values: int) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


class TestHistogram:
    def test_nothing_recorded(self) -> None:
        nothing = Histogram().snapshot()
        assert (nothing.recorded, nothing.mean, nothing.quantile(0.99)) == (0, 0.0, 0.0)

    def test_the_mean_is_exact(self) -> None:
        snapshot = filled(1, 10, 1_000_003).snapshot()
        assert (snapshot.recorded, snapshot.total, snapshot.mean) == (3, 1_000_014, 1_000_014 / 3)

    def test_small_values_are_exact(self) -> None:
        snapshot = filled(*range(32)).snapshot()
        assert [snapshot.quantile((nth + 1) / 32) for nth in range(32)] == list(range(32))

    def test_every_bucket_begins_where_the_one_before_ends(self) -> None:
        floors = [bucket_floor(index) for index in range(BUCKETS + 1)]
        assert floors == sorted(set(floors))
        for index, floor in enumerate(floors[:-1]):
            for value in {floor, floors[index + 1] - 1}:
                assert filled(value).counts[index] == 1

    def test_values_beyond_the_last_bucket_are_counted_in_it(self) -> None:
        histogram = filled(2**36 - 1, 2**36, 2**60)
        assert histogram.counts[-1] == 3
        assert histogram.total == 2**36 - 1 + 2**36 + 2**60

    def test_quantiles(self) -> None:
        snapshot = filled(*[100] * 99, 10_000).snapshot()
        assert snapshot.quantile(0.5) == pytest.approx(100, rel=0.04)
        assert snapshot.quantile(0.99) == pytest.approx(100, rel=0.04)
        assert snapshot.quantile(1.0) == pytest.approx(10_000, rel=0.04)

    def test_counts_below_a_power_of_two_are_exact(self) -> None:
        snapshot = filled(1023, 1024, 1025, 2047, 2048).snapshot()
        assert [snapshot.count_below(1 << bit) for bit in (0, 10, 11, 12)] == [0, 1, 4, 5]

    def test_merging_adds_up(self) -> None:
        merged = filled(1, 2)
        merged.merge(filled(2, 5000))
        assert merged.snapshot() == filled(1, 2, 2, 5000).snapshot()

    def test_between_two_snapshots(self) -> None:
        histogram = filled(7)
        earlier = histogram.snapshot()
        histogram.record(9)
        assert histogram.snapshot().since(earlier) == filled(9).snapshot()

    def test_a_snapshot_stays_as_it_was(self) -> None:
        histogram = filled(7)
        snapshot = histogram.snapshot()
        histogram.record(7)
        assert snapshot == filled(7).snapshot()


class Stopwatch:
    """A meter that is settled once a tick, as a node settles its own."""

    def __init__(self) -> None:
        self.meter = Meter(now_us=0)
        self.tick = 0

    def pass_tick(self, *, counting: int) -> None:
        self.meter.count += counting
        self.tick += 1
        self.meter.settle(self.tick, since=self.tick - 1)


class TestMeter:
    def test_nothing_counted(self) -> None:
        assert Meter(now_us=0).rates(now_us=0) == (0, 0.0, 0.0)
        assert Meter(now_us=3 * _S).rates(now_us=9 * _S) == (0, 0.0, 0.0)

    def test_a_steady_rate_is_that_rate(self) -> None:
        watch = Stopwatch()
        for _ in range(40):
            watch.pass_tick(counting=50)
        rates = watch.meter.rates(now_us=watch.tick * TICK_US)
        assert rates.counted == 2000
        assert rates.per_s_ewma == pytest.approx(10)
        assert rates.per_s_window == pytest.approx(10)

    def test_a_minute_of_rest_leaves_one_eth(self) -> None:
        watch = Stopwatch()
        watch.pass_tick(counting=50)
        for _ in range(12):
            watch.pass_tick(counting=0)
        rates = watch.meter.rates(now_us=watch.tick * TICK_US)
        assert rates.per_s_ewma == pytest.approx(10 * exp(-1))
        assert rates.per_s_window == 0

    def test_the_window_is_the_last_minute_and_what_has_begun(self) -> None:
        watch = Stopwatch()
        for counting in (1000, *[0] * 11):
            watch.pass_tick(counting=counting)
        now_us = watch.tick * TICK_US
        assert watch.meter.rates(now_us=now_us).per_s_window == pytest.approx(1000 / 60)
        assert watch.meter.rates(now_us=now_us + 3 * _S).per_s_window == pytest.approx(1000 / 63)
        watch.pass_tick(counting=0)
        assert watch.meter.rates(now_us=watch.tick * TICK_US).per_s_window == 0

    def test_a_young_meter_divides_by_its_age(self) -> None:
        meter = Meter(now_us=7 * _S)
        meter.count += 30
        assert meter.rates(now_us=10 * _S).per_s_window == pytest.approx(10)

    @pytest.mark.parametrize("rest", [1, 2, 11, 12, 13, 14, 100])
    def test_rest_may_be_settled_late(self, rest: int) -> None:
        punctual, lazy = Stopwatch(), Stopwatch()
        for watch in (punctual, lazy):
            for counting in (10, 20, 30):
                watch.pass_tick(counting=counting)
        for _ in range(rest):
            punctual.pass_tick(counting=0)
        punctual.pass_tick(counting=70)
        lazy.meter.count += 70
        lazy.meter.settle(punctual.tick, since=punctual.tick - 1)
        now_us = punctual.tick * TICK_US + _S
        assert lazy.meter.rates(now_us=now_us) == pytest.approx(punctual.meter.rates(now_us=now_us))

    @pytest.mark.parametrize("ticks", [2, 12, 13, 40])
    def test_work_settled_late_is_spread_over_the_time_since(self, ticks: int) -> None:
        meter = Meter(now_us=0)
        meter.count += 50 * ticks
        meter.settle(ticks, since=0)
        rates = meter.rates(now_us=ticks * TICK_US)
        assert rates.per_s_ewma == pytest.approx(10)
        assert rates.per_s_window == pytest.approx(10, rel=0.01)

    def test_settling_twice_or_backwards_changes_nothing(self) -> None:
        watch = Stopwatch()
        watch.pass_tick(counting=50)
        before = watch.meter.rates(now_us=6 * _S)
        watch.meter.settle(1, since=1)
        watch.meter.settle(0, since=0)
        assert watch.meter.rates(now_us=6 * _S) == before
