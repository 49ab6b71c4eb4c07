"""Records whose values are JSON, as rows of declared columns beside those that tell where a record comes from."""

import functools
import json
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from headrace.pipeline.columns import SOURCE
from headrace.pipeline.declared import Convert, Mismatch, arrow_schema, parse_declaration, struct_converter
from headrace.pipeline.decoding import Decoded, dead_letters, set_aside_strange_times, source_rows
from headrace.pipeline.origins import Origin


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Made from the text of a declaration, since it travels to tasks."""

    declaration: str

    @property
    def schema(self) -> pa.Schema:
        return _schema(self.declaration)

    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded:
        records, strange = set_aside_strange_times(batch, origin)
        convert = _converter(self.declaration)
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        left: list[int] = []
        reasons: list[str] = []
        for index, value in enumerate(records.column("value").to_pylist()):
            try:
                rows.append(decode_value(value, convert))
            except Mismatch as mismatch:
                left.append(index)
                reasons.append(str(mismatch))
            else:
                kept.append(index)
        schema = self.schema
        told = source_rows(records.take(pa.array(kept, pa.int64())), origin).select(SOURCE.names).cast(SOURCE)
        declared = pa.schema(list(schema)[len(SOURCE) :])
        columns = pa.Table.from_pylist(rows, declared)
        whole = pa.table([*told.columns, *columns.columns], schema=schema)
        dead = dead_letters(records.take(pa.array(left, pa.int64())), reasons, origin)
        return Decoded(whole, pa.concat_tables([strange, dead]).sort_by("offset"))


def decode_value(value: bytes | None, convert: Convert) -> dict[str, Any]:
    """The columns of one record, or a `Mismatch` that says why there are none."""
    if value is None:
        raise Mismatch("there is no value")
    try:
        parsed = json.loads(value.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Mismatch(f"the value is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise Mismatch("the value is nested too deeply") from None
    except ValueError as error:
        raise Mismatch(f"the value is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Mismatch("the value is not a JSON object")
    row: dict[str, Any] = convert(parsed, "")
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


@functools.lru_cache
def _schema(declaration: str) -> pa.Schema:
    return pa.schema([*SOURCE, *arrow_schema(parse_declaration(declaration))])


@functools.lru_cache
def _converter(declaration: str) -> Convert:
    return struct_converter(parse_declaration(declaration))
