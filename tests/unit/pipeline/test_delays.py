"""Delays from made-up rows and ledgers."""

from datetime import UTC, datetime

import pyarrow as pa

from headrace.pipeline.columns import LEDGER
from headrace.pipeline.delays import delays_ms


def moment(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def rows(*told: tuple[str, int, int, float | None]) -> pa.Table:
    columns = zip(*[(*place, None if at is None else moment(at)) for *place, at in told], strict=True)
    types = (pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
    names = ("topic_id", "partition", "offset", "timestamp")
    return pa.table({name: pa.array(one, kind) for name, one, kind in zip(names, columns, types, strict=True)})


def ledger(*told: tuple[str, int, int, int, float, str]) -> pa.Table:
    names = ("topic_id", "partition", "first", "end")
    made = [
        dict(zip(names, place, strict=True)) | {"committed_at": moment(at), "kind": kind} for *place, at, kind in told
    ]
    return pa.Table.from_pylist(made, LEDGER)


def test_each_row_counts_from_its_time_to_its_commit() -> None:
    told = ledger(("a", 0, 0, 2, 10, "load"), ("a", 0, 2, 9, 20, "load"), ("a", 1, 0, 1, 30, "load"))
    found = delays_ms(rows(("a", 0, 0, 9), ("a", 0, 1, 9.5), ("a", 0, 2, 15), ("a", 1, 0, 29.999)), told)
    assert sorted(found) == [1, 500, 1000, 5000]


def test_a_replay_brings_nothing_new() -> None:
    told = ledger(("a", 0, 0, 5, 10, "load"), ("a", 0, 1, 3, 99, "replay"))
    assert list(delays_ms(rows(("a", 0, 2, 8)), told)) == [2000]


def test_what_nobody_knows_of_is_left_out() -> None:
    told = ledger(("a", 0, 5, 7, 10, "load"))
    strangers = rows(("a", 0, 4, 1), ("a", 0, 7, 1), ("b", 0, 5, 1), ("a", 1, 5, 1), ("a", 0, 5, None))
    assert len(delays_ms(strangers, told)) == 0
    assert len(delays_ms(rows(("a", 0, 5, 1)), ledger())) == 0
