"""Values of any type as JSON and as bytes."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.cli.tables.row_json import as_bytes, json_objects


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([True, False]), [True, False]),
        (pa.array([0.5, float("inf")]), [0.5, None]),
        (pa.array(["ü", ""]), ["ü", ""]),
        (pa.array([b"a", b"\xff"]), ["a", {"base64": "/w=="}]),
        (pa.array([Decimal("1.10")]), ["1.10"]),
        (pa.array([Decimal(2**100)]), [2**100]),
        (pa.array([date(2026, 1, 31)]), ["2026-01-31"]),
        (pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC)]), ["2026-01-31T12:00:00+00:00"]),
        (pa.array([timedelta(seconds=1.5)]), [1.5]),
        (pa.array([{"a": [1.5, float("nan")], "b": b"\xfe"}]), [{"a": [1.5, None], "b": {"base64": "/g=="}}]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [[["k", 1]]]),
        (pa.array(["x", "x"]).dictionary_encode(), ["x", "x"]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_rows_as_objects(column: pa.Array, values: list[object]) -> None:
    batch = pa.RecordBatch.from_arrays([column], ["it"])
    assert [json.loads(text) for text in json_objects(batch).to_pylist()] == [{"it": value} for value in values]


def test_columns_as_bytes() -> None:
    assert as_bytes(pa.array(["ü", None])).to_pylist() == ["ü".encode(), None]
    assert as_bytes(pa.array([b"\xff", b""])).to_pylist() == [b"\xff", b""]
    assert as_bytes(pa.array([42, 7])).to_pylist() == [b"42", b"7"]
    assert as_bytes(pa.array([date(2026, 1, 31)])).to_pylist() == [b"2026-01-31"]
    assert as_bytes(pa.array([[1, 2]])).to_pylist() == [b"[1,2]"]
