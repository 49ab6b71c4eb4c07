"""What the perf tests count."""

from headrace.lab.perf.statistics import Consumed, ConsumeStatistics, SendStatistics, Sent, percentiles, round_to_ms


def test_a_window_ends_with_the_record_that_finds_it_over() -> None:
    statistics = SendStatistics(records_planned=10, now_ms=1_000, interval_ms=5_000)
    assert statistics.record(latency_us=3_000, size_bytes=100, now_ms=2_000) is None
    assert statistics.record(latency_us=9_000, size_bytes=50, now_ms=5_999) is None
    assert statistics.record(latency_us=6_000, size_bytes=50, now_ms=6_200) == Sent(3, 200, 18_000, 9_000, 5_200)
    assert statistics.record(latency_us=1_000, size_bytes=10, now_ms=11_199) is None
    assert statistics.windows_ended == 1
    assert statistics.record(latency_us=2_000, size_bytes=10, now_ms=11_200) == Sent(2, 20, 3_000, 2_000, 5_000)
    assert statistics.total(now_ms=21_000) == Sent(5, 220, 21_000, 9_000, 20_000)


def test_of_very_many_records_some_give_their_latency() -> None:
    statistics = SendStatistics(records_planned=1_500_000, now_ms=0, interval_ms=5_000)
    for number in range(9):
        statistics.record(latency_us=number * 1_000, size_bytes=1, now_ms=0)
    assert statistics.percentiles_ms(0.0, 0.5, 0.99) == [0, 3, 6]


def test_percentiles_are_cut_to_an_index() -> None:
    values = [5, 1, 4, 2, 3, 9, 7, 8, 6, 0]
    assert percentiles(values, 0.5, 0.95, 0.99, 0.999) == [5, 9, 9, 9]
    assert percentiles([7], 0.5, 0.999) == [7, 7]
    assert percentiles([], 0.5, 0.99) == [0, 0]


def test_milliseconds_are_the_nearest() -> None:
    assert [round_to_ms(us) for us in (0, 499, 500, 1_499, 1_500)] == [0, 0, 1, 1, 2]


def test_an_interval_ends_with_the_first_record_of_a_poll() -> None:
    statistics = ConsumeStatistics(now_ms=0, interval_ms=1_000)
    statistics.assign({("t", 0)}, now_ms=300)
    assert statistics.record([10, 20, 30], now_ms=999) is None
    assert statistics.record([], now_ms=1_500) is None
    ended = statistics.record([1, 2, 3], now_ms=1_600)
    assert ended == Consumed(0, 1_600, 4, 0, 61, 0, 300)
    assert ended.fetch_ms == 1_300
    assert (statistics.records, statistics.size_bytes) == (6, 66)
    assert statistics.record([4], now_ms=2_600) == Consumed(1_600, 2_600, 7, 4, 70, 61, 0)
    assert statistics.total(now_ms=3_000) == Consumed(0, 3_000, 7, 0, 70, 0, 300)


def test_waiting_for_partitions_is_counted_while_none_are_held() -> None:
    statistics = ConsumeStatistics(now_ms=0, interval_ms=1_000)
    statistics.assign({("t", 0), ("t", 1)}, now_ms=100)
    statistics.assign({("t", 2)}, now_ms=500)
    statistics.revoke({("t", 1)}, now_ms=600)
    assert statistics.total(now_ms=1_000).rebalance_ms == 100
    statistics.revoke({("t", 0), ("t", 2)}, now_ms=1_000)
    statistics.assign({("t", 0)}, now_ms=1_250)
    assert statistics.total(now_ms=2_000).rebalance_ms == 350
