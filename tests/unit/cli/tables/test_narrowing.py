"""Bounds out of filters: as narrow as they can be told, and never so narrow that a row is missed."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.tables.narrowing import Narrowed, columns_of, narrow
from headrace.columnar.schema import COLUMNS

partition, offset, timestamp = pc.field("partition"), pc.field("offset"), pc.field("timestamp")


def at(milliseconds: int) -> pa.Scalar:
    return pa.scalar(milliseconds, COLUMNS["timestamp"])


@pytest.mark.parametrize(
    ("where", "narrowed"),
    [
        (partition == 2, Narrowed([2], 10, 90, None)),
        (partition.isin([0, 2, 7]), Narrowed([0, 2], 10, 90, None)),
        (partition > 5, Narrowed([], 10, 90, None)),
        ((offset >= 20) & (offset <= 30), Narrowed([0, 1, 2], 20, 31, None)),
        (offset == 20, Narrowed([0, 1, 2], 20, 21, None)),
        (offset < 5, Narrowed([0, 1, 2], 90, 90, None)),
        ((offset < 20) | (offset > 80), Narrowed([0, 1, 2], 10, 90, None)),
        (timestamp >= at(5000), Narrowed([0, 1, 2], 10, 90, 5000)),
        ((timestamp >= at(5000)) | pc.is_null(timestamp), Narrowed([0, 1, 2], 10, 90, None)),
        (timestamp < at(5000), Narrowed([0, 1, 2], 10, 90, None)),
        (pc.is_valid(pc.field("value")) & (partition == 1), Narrowed([1], 10, 90, None)),
        (pc.binary_length(pc.field("value")) > 3, Narrowed([0, 1, 2], 10, 90, None)),
    ],
    ids=str,
)
def test_what_a_filter_tells(where: pc.Expression, narrowed: Narrowed) -> None:
    found = narrow(where, partitions=[0, 1, 2], first=10, end=90)
    if narrowed.first == narrowed.end:
        assert found.first == found.end
    else:
        assert found == narrowed


def comparisons() -> st.SearchStrategy[pc.Expression]:
    numbers = st.integers(-1, 6)
    operators = st.sampled_from([pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal])
    plain = st.builds(
        lambda operator, field, number: operator(field, pa.scalar(number)),
        operators,
        st.sampled_from([partition, offset]),
        numbers,
    )
    times = st.builds(
        lambda operator, number: operator(timestamp, at(max(0, number))), operators, numbers
    )  # fmt: skip
    nulls = st.sampled_from([pc.is_null(timestamp), pc.is_valid(timestamp), pc.is_null(pc.field("key"))])
    lists = st.builds(lambda numbers: offset.isin(numbers), st.lists(numbers, min_size=1, max_size=3))
    return plain | times | nulls | lists


def filters() -> st.SearchStrategy[pc.Expression]:
    return st.recursive(
        comparisons(),
        lambda inner: (
            st.builds(lambda a, b: a & b, inner, inner)
            | st.builds(lambda a, b: a | b, inner, inner)
            | st.builds(lambda a: ~a, inner)
        ),
        max_leaves=5,
    )


ROWS = pa.RecordBatch.from_pylist(
    [
        {"partition": number, "offset": position, "timestamp": time_ms, "key": key}
        for number in range(3)
        for position in range(5)
        for time_ms in (None, 0, 1, 3, 5)
        for key in (None, b"k")
    ],
    pa.schema([(name, COLUMNS[name]) for name in ("partition", "offset", "timestamp", "key")]),
)


@given(where=filters())
def test_no_row_that_passes_is_outside_of_the_bounds(where: pc.Expression) -> None:
    found = narrow(where, partitions=[0, 1, 2], first=0, end=5)
    for row in ROWS.filter(where).to_pylist():
        assert row["partition"] in found.partitions
        assert found.first <= row["offset"] < found.end
        if found.time_ms is not None:
            assert row["timestamp"].timestamp() * 1000 >= found.time_ms


def test_the_columns_that_a_filter_looks_at() -> None:
    where = pc.is_valid(pc.field("value")) & ((partition == 1) | (offset < 3))
    assert columns_of(where) == ["partition", "offset", "value"]
    assert columns_of(pc.scalar(True)) == []
