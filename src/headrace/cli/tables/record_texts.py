"""Records as text and back: the lines that `headrace consume --json` prints, and CSV.

Both carry every record without loss. A JSON line has bytes that are UTF-8 as a string and others as
`{"base64": "..."}`. CSV has the bytes themselves, in quotes; nothing at all is null, and `""` is empty. Headers are a
list of pairs in JSON, in both.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.cli.message_text import Message, json_bytes, message_from, parse_json, parse_object
from headrace.columnar.schema import COLUMNS
from headrace.errors import ConfigError

# Milliseconds are numbers in JSON, which has no times.
JSON_NAMES: Final = {name: "timestamp_ms" if name == "timestamp" else name for name in COLUMNS}
# What `consume --json` prints, and all that is needed to make the same records again.
JSON_COLUMNS: Final = tuple(name for name in COLUMNS if name != "timestamp_type")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_lines(batch: pa.RecordBatch) -> bytes:
    names = [JSON_NAMES[name] for name in batch.schema.names]
    columns = [_json_values(name, batch.column(name)) for name in batch.schema.names]
    lines = [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
    return "".join([line + "\n" for line in lines]).encode()


def _json_values(name: str, column: pa.Array) -> Sequence[Any]:
    if name == "timestamp":
        return _list(column.cast(pa.int64()))
    if name == "headers":
        return [_json_headers(headers) for headers in _list(column)]
    values = _list(column)
    return [json_bytes(value) for value in values] if pa.types.is_binary(column.type) else values


def _json_headers(headers: Iterable[dict[str, Any]]) -> list[list[Any]]:
    return [[header["key"], json_bytes(header["value"])] for header in headers]


def _list(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def csv_head(names: Sequence[str]) -> bytes:
    return ",".join(names).encode() + b"\n"


def csv_lines(batch: pa.RecordBatch) -> bytes:
    columns = [_csv_cells(name, batch.column(name)) for name in batch.schema.names]
    return b"".join([b",".join(row) + b"\n" for row in zip(*columns, strict=True)])


def _csv_cells(name: str, column: pa.Array) -> Sequence[bytes]:
    """Arrow's own writer refuses bytes that are not UTF-8."""
    if name == "headers":
        return [_quoted(_encode(_json_headers(headers)).encode()) for headers in _list(column)]
    if name == "timestamp":
        column = column.cast(pa.string())
    if pa.types.is_binary(column.type):
        return [b"" if value is None else _quoted(value) for value in _list(column)]
    return [b"" if value is None else str(value).encode() for value in _list(column)]


def _quoted(data: bytes) -> bytes:
    return b'"%s"' % data.replace(b'"', b'""')


def parse_json_lines(lines: Iterable[bytes]) -> pa.RecordBatch:
    """What can be written again; ConfigError for a line that is no record."""
    objects = [parse_object(line) for line in lines]
    return _records([message_from(one) for one in objects], [one.get("partition") for one in objects])


def _records(messages: Sequence[Message], partitions: Sequence[int | None]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value} for name, value in message.headers] for message in messages]
    try:
        return pa.RecordBatch.from_pydict(
            {
                "partition": pa.array(partitions, COLUMNS["partition"]),
                "timestamp": pa.array([message.timestamp_ms for message in messages], COLUMNS["timestamp"]),
                "key": pa.array([message.key for message in messages], COLUMNS["key"]),
                "value": pa.array([message.value for message in messages], COLUMNS["value"]),
                "headers": pa.array(headers, COLUMNS["headers"]),
            }
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConfigError(str(error)) from None


def parse_headers(texts: pa.Array) -> pa.Array:
    """Headers as CSV has them."""
    made = []
    for text in _list(texts):
        message = parse_json(b'{"headers":%s}' % (text or b"[]"))
        made.append([{"key": name, "value": value} for name, value in message.headers])
    return pa.array(made, COLUMNS["headers"])
