import pyarrow as pa
import pytest

from headrace.columnar.rebatching import rebatch


def batches(*sizes: int) -> list[pa.RecordBatch]:
    numbers = iter(range(sum(sizes)))
    return [pa.record_batch({"n": pa.array([next(numbers) for _ in range(size)], pa.int64())}) for size in sizes]


def sizes_of(given: list[pa.RecordBatch], **limits: int | None) -> list[int]:
    made = list(rebatch(given, **({"rows_max": None, "bytes_max": None} | limits)))
    rows = [row for batch in made for row in batch["n"].to_pylist()]
    assert rows == list(range(len(rows))) == [row for batch in given for row in batch["n"].to_pylist()]
    return [batch.num_rows for batch in made]


def test_without_a_size_they_come_as_they_are() -> None:
    assert sizes_of(batches(3, 1, 5)) == [3, 1, 5]


@pytest.mark.parametrize(
    ("given", "rows_max", "expected"),
    [
        ((10,), 4, [4, 4, 2]),
        ((3, 3, 3), 4, [4, 4, 1]),
        ((4, 4), 4, [4, 4]),
        ((1, 1, 1), 10, [3]),
        ((0, 2, 0), 1, [1, 1]),
        ((), 3, []),
    ],
)
def test_every_batch_but_the_last_has_the_rows_asked_for(
    given: tuple[int, ...], rows_max: int, expected: list[int]
) -> None:
    assert sizes_of(batches(*given), rows_max=rows_max) == expected


def test_bytes_are_a_limit_of_their_own() -> None:
    assert sizes_of(batches(10), bytes_max=32) == [4, 4, 2]
    assert sizes_of(batches(3, 3), bytes_max=32) == [4, 2]
    assert sizes_of(batches(10), rows_max=3, bytes_max=32) == [3, 3, 3, 1]


def test_a_row_larger_than_the_limit_comes_alone() -> None:
    assert sizes_of(batches(3), bytes_max=1) == [1, 1, 1]
