import hypothesis.strategies as st
from hypothesis import given

from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.splitting import OffsetRange, limit, split


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(TopicName("t"), number), 10, 10 + size) for number, size in enumerate(sizes)]


def sizes_of(ranges: list[OffsetRange]) -> list[int]:
    return [each.size for each in ranges]


RANGES = st.lists(st.integers(0, 1000), max_size=6).map(lambda sizes: ranges_of(*sizes))
COUNTS = st.none() | st.integers(1, 50)


@given(RANGES, COUNTS, COUNTS)
def test_the_tasks_together_are_the_ranges(
    ranges: list[OffsetRange], min_tasks: int | None, max_records: int | None
) -> None:
    tasks = split(ranges, min_tasks=min_tasks, max_records=max_records)
    read = [(task.place, offset) for task in tasks for offset in range(task.first, task.end)]
    assert read == [(each.place, offset) for each in ranges for offset in range(each.first, each.end)]
    assert all(task.size > 0 for task in tasks)
    if max_records is not None:
        assert all(task.size <= max_records for task in tasks)


def test_the_large_ones_are_cut_most() -> None:
    assert sizes_of(split(ranges_of(100, 300, 0), min_tasks=8)) == [50] * 8


def test_the_small_ones_are_not_cut_and_do_not_count_against_the_large() -> None:
    """As in the official connector, where one large partition among small ones is cut into all that is left."""
    assert sizes_of(split(ranges_of(1, 1, 1, 1, 40), min_tasks=6)) == [1, 1, 1, 1, 20, 20]


def test_a_partition_is_a_task_unless_told_otherwise() -> None:
    assert split(ranges_of(5, 0, 7)) == [ranges_of(5, 0, 7)[0], ranges_of(5, 0, 7)[2]]
    assert split(ranges_of(5, 7), min_tasks=2) == ranges_of(5, 7)


def test_a_range_that_ends_before_it_begins_is_empty() -> None:
    backwards = OffsetRange(TopicPartition(TopicName("t"), 0), 10, 3)
    assert backwards.size == 0
    assert split([backwards]) == []
    assert limit([backwards, *ranges_of(50)], 5) == [backwards, ranges_of(5)[0]]


@given(RANGES, st.integers(1, 500))
def test_a_limit_takes_from_every_partition_that_has_something(ranges: list[OffsetRange], offsets: int) -> None:
    limited = limit(ranges, offsets)
    assert [each[:2] for each in limited] == [each[:2] for each in ranges]
    assert all(0 <= after.size <= before.size for before, after in zip(ranges, limited, strict=True))
    assert all(after.size for before, after in zip(ranges, limited, strict=True) if before.size)
    assert sum(sizes_of(limited)) <= offsets + len(ranges)


def test_without_a_limit_everything_is_taken() -> None:
    assert limit(ranges_of(5, 7), None) == ranges_of(5, 7)
    assert limit(ranges_of(5, 7), 12) == ranges_of(5, 7)
    assert sizes_of(limit(ranges_of(5, 15), 10)) == [2, 7]
