"""Rows and values of any Arrow type as JSON and as bytes, for records that are made of tables and for results.

Bytes that are UTF-8 are a string, others `{"base64": "..."}`. Moments and dates are ISO. Decimals with a fraction are
strings, since a number in JSON is a float to many; what is not a number (NaN, infinity) is null, since JSON has no word
for it.
"""

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.cli.message_text import json_bytes

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def json_value(value: Any) -> Any:
    """A value as Arrow gives it to Python, as JSON has it."""
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return json_bytes(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(name): json_value(one) for name, one in value.items()}
        case list() | tuple():
            return [json_value(one) for one in value]
        case Decimal() if value.as_tuple().exponent == 0:
            return int(value)  # Such as sums of whole numbers are.
        case _:  # Other decimals, and whatever else writes itself.
            return str(value)


def json_text(value: Any) -> str:
    return _encode(json_value(value))


def json_objects(batch: pa.RecordBatch) -> pa.Array:
    """One object for each row."""
    return pa.array([json_text(row) for row in batch.to_pylist()], pa.string())


def as_bytes(column: pa.Array) -> pa.Array:
    """A column as keys or values can be: bytes and text as they are, anything else as JSON writes it."""
    return pa.array([field_bytes(value) for value in column.to_pylist()], pa.binary())


def field_bytes(value: Any) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case _:
            plain = json_value(value)
            return plain.encode() if isinstance(plain, str) else json_text(plain).encode()
