"""A function of the user's between decoding and the table: what it may do, and what it is told when it may not."""

import sys
import types
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from headrace.columnar.schema import COLUMNS, schema_of
from headrace.errors import ConfigError
from headrace.ids import TopicName
from headrace.pipeline.columns import RAW
from headrace.pipeline.decoding import RawDecoder
from headrace.pipeline.origins import Origin
from headrace.pipeline.transforming import Transformed, TransformFailed, transformed

ORIGIN = Origin("cluster", TopicName("clicks"), "id-1")
BATCH = pa.RecordBatch.from_pydict(
    {
        "topic": ["clicks"] * 2,
        "partition": [0] * 2,
        "offset": [7, 8],
        "timestamp": pa.array([1_763_208_000_000] * 2).cast(COLUMNS["timestamp"]),
        "timestamp_type": [0] * 2,
        "key": [None] * 2,
        "value": [b"long", b""],
        "headers": [[]] * 2,
    },
    schema=schema_of(list(COLUMNS)),
)


def sizes(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["value"]).append_column("size", pc.binary_length(rows["value"]))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[pa.Table], Any]], Transformed]:
    """A transform as somebody might have it in a module of their own."""

    def make(function: Callable[[pa.Table], Any]) -> Transformed:
        module = types.ModuleType("web")
        module.clean = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "web", module)
        return transformed(RawDecoder(), "web:clean")

    return make


def test_columns_are_the_functions_own_and_the_source_stays(made: Any) -> None:
    decoder = made(sizes)
    assert decoder.schema.names == [*[name for name in RAW.names if name != "value"], "size"]
    rows, dead = decoder.decode(BATCH, ORIGIN)
    assert rows.schema.equals(decoder.schema)
    assert rows.select(["offset", "size"]).to_pylist() == [{"offset": 7, "size": 4}, {"offset": 8, "size": 0}]
    assert dead.num_rows == 0


def test_it_travels_to_where_its_module_is_not_installed(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"__name__": "web"}
    exec("def clean(rows): return rows.drop_columns(['value'])", namespace)
    packed = cloudpickle.dumps(made(namespace["clean"]))
    monkeypatch.delitem(sys.modules, "web")
    rows, _ = cloudpickle.loads(packed).decode(BATCH, ORIGIN)
    assert rows.num_rows == 2


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows.slice(1) if rows.num_rows else rows, "does not leave topic as it is"),
        (lambda rows: pa.concat_tables([rows, rows]), "does not leave topic as it is"),
        (lambda rows: rows.sort_by([("offset", "descending")]), "does not leave offset as it is"),
        (lambda rows: rows.to_pylist(), "gave back a list, not a pyarrow.Table"),
        (lambda rows: rows.drop_columns(["topic_id"]), "does not leave topic_id as it is"),
        (lambda rows: rows.slice(0, 1 // (2 - rows.num_rows)), "web:clean failed: ZeroDivisionError"),
        (lambda rows: rows.append_column("n", rows["offset" if rows.num_rows else "key"]), "gave the columns"),
    ],
)
def test_what_it_may_not_do_is_told(made: Any, function: Callable[[pa.Table], Any], said: str) -> None:
    with pytest.raises(TransformFailed, match=said):
        made(function).decode(BATCH, ORIGIN)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows.append_column("event_date", pa.nulls(0, pa.date32())), "which every table has already"),
        (lambda rows: rows.append_column("n", pa.nulls(0)), "column n is null, which no Delta table holds"),
        (lambda rows: rows.append_column("n", pa.nulls(0, pa.uint64())), "column n is uint64, which no Delta table"),
    ],
)
def test_columns_that_a_table_cannot_have_are_refused(made: Any, function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(function)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:clean", "No module named 'nowhere'"),
        ("", "it is MODULE:FUNCTION"),
        ("json:clean", "there is no function 'clean' in json"),
        ("json", "there is no function '' in json"),
    ],
)
def test_what_names_no_function_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        transformed(RawDecoder(), name)
