import datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.columnar.schema import schema_of as columnar_schema
from headrace.pipeline.arrow_rows import our_columns, spark_batch
from headrace.pipeline.source import schema_of

HEADERS = [
    [("a", b"1"), ("b", None)],
    [],
    [("c", b"")],
]


def records(names: list[str]) -> pa.RecordBatch:
    columns = {
        "topic": ["t", "t", "t"],
        "partition": [0, 0, 0],
        "offset": [5, 6, 9],
        "timestamp": [1_700_000_000_123, None, 0],
        "timestamp_type": [0, 0, 1],
        "key": [b"k", None, b""],
        "value": [None, b"v", b""],
        "headers": [[{"key": key, "value": value} for key, value in each] for each in HEADERS],
    }
    schema = columnar_schema(our_columns(names))
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


@pytest.mark.parametrize("includes", ["true", "false"])
def test_the_schema_is_what_spark_asks_for_to_the_letter(includes: str) -> None:
    schema = schema_of({"includeHeaders": includes})
    names = schema.fieldNames()
    made = spark_batch(records(names), names)
    wanted = to_arrow_schema(schema, timezone="UTC")
    assert made.schema.equals(wanted, check_metadata=True)
    assert str(made.schema) == str(wanted)
    made.validate(full=True)


def test_the_values() -> None:
    names = schema_of({"includeHeaders": "true"}).fieldNames()
    made = spark_batch(records(names), names).to_pydict()
    assert made["key"] == [b"k", None, b""]
    assert made["value"] == [None, b"v", b""]
    assert made["offset"] == [5, 6, 9]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [round((moment - epoch).total_seconds() * 1000) for moment in made["timestamp"]] == [
        1_700_000_000_123,
        -1,
        0,
    ]
    assert made["headers"] == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [{"key": "c", "value": b""}],
    ]


def test_a_slice_of_a_batch() -> None:
    names = ["offset", "headers"]
    made = spark_batch(records(names).slice(1, 2), names)
    made.validate(full=True)
    assert made.to_pydict() == {"offset": [6, 9], "headers": [None, [{"key": "c", "value": b""}]]}
