"""Which rows are the first of their record."""

import pyarrow as pa

from headrace.audit.once import Once


def rows(*places: tuple[str | None, int, int]) -> pa.Table:
    schema = pa.schema({"topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64()})
    return pa.table([list(column) for column in zip(*places, strict=True)], schema=schema)


def test_a_record_is_kept_once_within_a_batch_and_across_batches() -> None:
    once = Once()
    assert once.keep(rows(("a", 0, 5), ("a", 0, 3), ("a", 0, 5))).to_pylist() == [True, True, False]
    assert once.keep(rows(("a", 0, 4), ("a", 0, 3), ("a", 0, 9))).to_pylist() == [True, False, True]
    assert once.keep(rows(("a", 0, 4), ("a", 0, 9))).to_pylist() == [False, False]


def test_other_partitions_and_lives_have_offsets_of_their_own() -> None:
    once = Once()
    first = [("a", 0, 5), ("a", 1, 5), ("b", 0, 5), (None, 0, 5)]
    assert once.keep(rows(*first)).to_pylist() == [True] * 4
    assert once.keep(rows(*first, (None, 1, 5))).to_pylist() == [False] * 4 + [True]
