"""What consumers count: by the second in which a message came, and by its age then."""

from collections import Counter

import numpy as np

from headrace.lab.consumed import Consumed, ConsumedTimeline
from headrace.lab.schedule import SECOND_NS

START = 1_700_000_000 * SECOND_NS
MS = 1_000_000


def add(timeline: ConsumedTimeline, at_ms: int, *planned_ms: int) -> None:
    stamps = np.array([START // MS + each for each in planned_ms], np.int64)
    timeline.add(stamps, 10 * len(stamps), now_utc_ns=START + at_ms * MS, start_utc_ns=START)


def test_messages_are_counted_when_they_come_with_the_age_that_they_have_then() -> None:
    timeline = ConsumedTimeline()
    add(timeline, 500, 480, 490)
    add(timeline, 1_500, 400)
    add(timeline, 1_600)
    rows = dict(timeline.take(2 * SECOND_NS))
    assert [(row.messages, row.size_bytes) for row in rows.values()] == [(2, 20), (1, 10)]
    assert (rows[0].end_to_end.min_ns, rows[0].end_to_end.max_ns) == (10 * MS, 20 * MS)
    assert rows[1].end_to_end.max_ns == 1_100 * MS
    assert timeline.last_ns == 1_500 * MS


def test_a_second_is_told_once_and_an_empty_one_too() -> None:
    timeline = ConsumedTimeline()
    add(timeline, 2_100, 2_000)
    assert [(second, row.messages) for second, row in timeline.take(2 * SECOND_NS)] == [(0, 0), (1, 0)]
    assert list(timeline.take(2 * SECOND_NS)) == []
    assert [(second, row.messages) for second, row in timeline.take_all()] == [(2, 1)]
    assert list(timeline.take_all()) == []


def test_before_the_start_and_from_the_future_are_no_negative_times() -> None:
    timeline = ConsumedTimeline()
    add(timeline, -50, -60)
    add(timeline, 10, 700)
    ((second, row),) = timeline.take_all()
    assert (second, row.messages, row.end_to_end.min_ns) == (0, 2, 0)


def test_a_clock_that_goes_back_loses_nothing() -> None:
    timeline = ConsumedTimeline()
    add(timeline, 1_500, 1_400)
    assert [row.messages for _, row in timeline.take(2 * SECOND_NS)] == [0, 1]
    add(timeline, 1_900, 1_400)
    assert [(second, row.messages) for second, row in timeline.take_all()] == [(2, 1)]


def test_rows_survive_json() -> None:
    timeline = ConsumedTimeline()
    add(timeline, 500, 480, 490)
    timeline.add_throttled(70 * MS, now_ns=500 * MS)
    ((_, row),) = timeline.take_all()
    other = Consumed.from_json(row.to_json(), consumer=7)
    other.merge(row)
    assert (other.messages, other.size_bytes, other.end_to_end.count, other.throttled_ns) == (
        4,
        40,
        4,
        {7: 70 * MS, 0: 70 * MS},
    )


def test_how_long_brokers_held_back_is_of_the_second_in_which_they_said_so() -> None:
    timeline = ConsumedTimeline()
    timeline.add_throttled(0, now_ns=100 * MS)
    assert list(timeline.take_all()) == []
    timeline.add_throttled(20 * MS, now_ns=-5 * MS)
    timeline.add_throttled(30 * MS, now_ns=900 * MS)
    timeline.add_throttled(3_000 * MS, now_ns=1_100 * MS)
    assert [row.throttled_ns_max for _, row in timeline.take_all()] == [50 * MS, 3_000 * MS]


def test_of_several_consumers_it_is_the_one_that_was_held_back_most() -> None:
    one, other = (Consumed(throttled_ns=Counter(each)) for each in ({1: 700}, {1: 10, 2: 705}))
    assert Consumed().throttled_ns_max == 0
    assert other.throttled_ns_max == 705
    other.merge(one)
    assert other.throttled_ns_max == 710
    other.merge(Consumed())
    assert other.throttled_ns_max == 710
