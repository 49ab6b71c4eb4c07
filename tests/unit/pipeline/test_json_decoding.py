"""JSON by a declared schema: what fits is a row, what does not is a dead letter that says why, nothing is bent."""

import json
import pickle
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.columnar.schema import COLUMNS, schema_of
from headrace.errors import ConfigError
from headrace.ids import TopicName
from headrace.pipeline.columns import SOURCE
from headrace.pipeline.declared import parse_declaration
from headrace.pipeline.json_decoding import JsonDecoder
from headrace.pipeline.origins import Origin

ORIGIN = Origin("cluster", TopicName("clicks"), "id-1")
DECLARED = {
    "page": "string",
    "count": "long",
    "small": "integer",
    "price": "double",
    "paid": "boolean",
    "at": "timestamp",
    "day": "date",
    "tags": ["string"],
    "user": {"id": "long", "names": ["string"]},
}


def batch(*values: bytes | None, times_ms: list[int] | None = None) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "topic": ["clicks"] * count,
        "partition": [0] * count,
        "offset": list(range(count)),
        "timestamp": pa.array(times_ms or [1_763_208_000_000] * count, pa.int64()).cast(COLUMNS["timestamp"]),
        "timestamp_type": [0] * count,
        "key": [b"k"] * count,
        "value": values,
        "headers": [[]] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=schema_of(list(COLUMNS)))


def decode(*values: bytes | None, declared: Any = DECLARED) -> tuple[list[dict[str, Any]], list[str]]:
    """Declared columns of the rows, and the reasons of the dead letters."""
    decoder = pickle.loads(pickle.dumps(JsonDecoder(json.dumps(declared))))  # As it travels to tasks.
    rows, dead = decoder.decode(batch(*values), ORIGIN)
    assert rows.schema.equals(decoder.schema)
    assert rows.num_rows + dead.num_rows == len(values)
    return rows.drop_columns(SOURCE.names).to_pylist(), dead["reason"].to_pylist()


def test_every_type() -> None:
    value = {
        "page": "/a\u00e9",
        "count": 2**63 - 1,
        "small": -(2**31),
        "price": 3,
        "paid": False,
        "at": "2026-11-15T12:00:00.5+01:00",
        "day": "2026-11-15",
        "tags": ["a", None],
        "user": {"id": 7, "names": []},
    }
    ((row,), reasons) = decode(json.dumps(value).encode())
    assert not reasons
    assert row == value | {
        "price": 3.0,
        "at": datetime(2026, 11, 15, 11, 0, 0, 500_000, tzinfo=UTC),
        "day": date(2026, 11, 15),
    }


def test_a_field_that_is_not_declared_may_be_there_if_it_holds_nothing() -> None:
    rows, reasons = decode(
        b'{"count": 1, "old": null, "list": [], "user": {"more": {}}}', b'{"zero": 0}', b'{"no": ""}'
    )
    assert [row["count"] for row in rows] == [1]
    assert reasons == ["field zero is not declared", "field no is not declared"]


def test_every_field_may_be_missing_or_null() -> None:
    rows, reasons = decode(b"{}", json.dumps(dict.fromkeys(DECLARED)).encode())
    assert not reasons
    assert rows == [dict.fromkeys(DECLARED)] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"count": 1.5}, "field count is 1.5, not a long"),
        ({"count": "7"}, 'field count is "7", not a long'),
        ({"count": True}, "field count is true, not a long"),
        ({"count": 2**63}, f"field count is {2**63}, not a long"),
        ({"small": 2**31}, f"field small is {2**31}, not an integer"),
        ({"price": 2**53 + 1}, f"field price is {2**53 + 1}, not a double"),
        ({"price": "1"}, 'field price is "1", not a double'),
        ({"page": 7}, "field page is 7, not a string"),
        ({"page": "\ud800"}, 'field page is "\\ud800", not a string'),
        ({"paid": 1}, "field paid is 1, not a boolean"),
        ({"at": "2026-11-15T12:00:00"}, 'field at is "2026-11-15T12:00:00", not a timestamp'),
        ({"at": 7}, "field at is 7, not a timestamp"),
        ({"day": "yesterday"}, 'field day is "yesterday", not a date'),
        ({"tags": "a"}, 'field tags is "a", not an array'),
        ({"tags": ["a", 1]}, "field tags[1] is 1, not a string"),
        ({"user": []}, "field user is [], not an object"),
        ({"user": {"id": "x"}}, 'field user.id is "x", not a long'),
        ({"user": {"age": 7}}, "field user.age is not declared"),
        ({"pages": "typo"}, "field pages is not declared"),
        ({"\ud800": 1}, "field \\ud800 is not declared"),
        ({"at": "0001-01-01T00:00:00+14:00"}, 'field at is "0001-01-01T00:00:00+14:00", not a timestamp'),
        ({"page": ["x" * 100]}, 'field page is ["' + "x" * 38 + "..., not a string"),
    ],
)
def test_what_does_not_fit_is_not_made_to(value: Any, reason: str) -> None:
    rows, reasons = decode(json.dumps(value).encode(), b'{"count": 1}')
    assert reasons == [reason]
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "there is no value"),
        (b"", "the value is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{}{}", "the value is not JSON: Extra data: line 1 column 3 (char 2)"),
        (b'{"page": "\xff"}', "the value is not UTF-8: invalid start byte at byte 10"),
        (b'{"price": NaN}', "the value is not JSON: NaN is no number"),
        (b"[1]", "the value is not a JSON object"),
        (b"[" * 100_000, "the value is nested too deeply"),
        ("{}".encode("utf-16"), "the value is not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_what_is_no_json_object_is_a_dead_letter(value: bytes | None, reason: str) -> None:
    assert decode(value) == ([], [reason])


def test_a_number_that_is_too_long_is_a_dead_letter() -> None:
    rows, (reason,) = decode(b'{"count": ' + b"9" * 5_000 + b"}")
    assert not rows
    assert reason.startswith("the value is not JSON: ")


def test_rows_keep_what_tells_where_they_come_from_and_dead_letters_the_record() -> None:
    decoder = JsonDecoder('{"count": "long"}')
    rows, dead = decoder.decode(
        batch(b'{"count": 1}', b"oops", b'{"count": 2}', times_ms=[1_763_208_000_000, 0, 2**62]), ORIGIN
    )
    assert rows.select(["offset", "key", "count", "topic_id"]).to_pylist() == [
        {"offset": 0, "key": b"k", "count": 1, "topic_id": "id-1"}
    ]
    assert dead.select(["offset", "value"]).to_pylist() == [
        {"offset": 1, "value": b"oops"},
        {"offset": 2, "value": b'{"count": 2}'},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the schema is not JSON"),
        ("{}", "is not an object of fields"),
        ('["string"]', "is not an object of fields"),
        ('{"a": "text"}', r'the schema says that a is "text"; there are boolean, date, double'),
        ('{"a": {"b": ["long", "long"]}}', r"the schema says that a.b is "),
        ('{"a": {}}', "the schema says that a is {}"),
        ('{"offset": "long"}', "declares offset, which is a column of every table"),
        ('{"event_date": "date"}', "declares event_date"),
        ('{"Page": "long", "page": "long"}', "differ in case only"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_declaration(text)
