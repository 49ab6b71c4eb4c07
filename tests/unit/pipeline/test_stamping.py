"""Stamps that a repeat of a batch gives again, whatever the order in which its rows come."""

import random
from typing import Any

import pyarrow as pa

from headrace.pipeline.stamping import STAMP_HEADER, Task, with_stamps

TASK = Task(query="q", batch=12, partition=3)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.binary()), ("headers", HEADERS)])


def stamped(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, *, per_batch: int = 4) -> list[dict[str, Any]]:
    batches = [
        pa.RecordBatch.from_pylist(rows[first : first + per_batch], schema) for first in range(0, len(rows), per_batch)
    ]
    return [row for batch in with_stamps(iter(batches), TASK) for row in batch.to_pylist()]


def stamps(rows: list[dict[str, Any]]) -> list[str]:
    assert all(row["headers"][-1]["key"] == STAMP_HEADER for row in rows)
    return [row["headers"][-1]["value"].decode() for row in rows]


def contents(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["key"], row["value"], repr(row["headers"])) for row in rows]


def made(count: int) -> list[dict[str, Any]]:
    """Many of them alike in some column, some in all."""
    return [
        {
            "key": None if number % 7 == 0 else f"k{number % 5}",
            "value": None if number % 11 == 0 else b"%d" % (number % 3),
            "headers": [None, [], [{"key": "a", "value": b"1"}], [{"key": "a", "value": None}]][number % 4],
        }
        for number in range(count)
    ]


def test_a_stamp_names_stream_batch_task_and_sequence() -> None:
    schema = pa.schema([("value", pa.string())])
    found = stamped([{"value": value} for value in ("b", "a", "c")], schema)
    assert stamps(found) == ["1;q;12;3;1", "1;q;12;3;0", "1;q;12;3;2"]
    assert [row["value"] for row in found] == ["b", "a", "c"]


def test_rows_keep_their_order_and_their_headers() -> None:
    rows = made(40)
    found = stamped(rows)
    assert [(row["key"], row["value"]) for row in found] == [(row["key"], row["value"]) for row in rows]
    assert [row["headers"][:-1] for row in found] == [row["headers"] or [] for row in rows]
    assert len(set(stamps(found))) == 40


def test_the_same_rows_in_another_order_have_the_same_stamps() -> None:
    rows = made(200)
    first = sorted(contents(stamped(rows)), key=repr)
    for seed in range(5):
        other = rows.copy()
        random.Random(seed).shuffle(other)
        assert sorted(contents(stamped(other, per_batch=1 + 30 * seed)), key=repr) == first


def test_nothing_is_stamped_where_there_is_nothing() -> None:
    assert list(with_stamps(iter(()), TASK)) == []
    empty = pa.RecordBatch.from_pylist([], SCHEMA)
    assert [len(batch) for batch in with_stamps(iter([empty]), TASK)] == [0]
