"""Declared schemas of JSON records: what a field has to be, and nothing is bent to make it so.

    {"page": "string", "user": {"id": "long", "name": "string"}, "tags": ["string"], "at": "timestamp"}

An object is a struct, a list of one type is an array. Every field may be null or missing, and one that is not declared
may be there as long as it is null or empty, of which no type could be told. A number is no text, 1.5 is no
long and "7" is no number; a long is a double only where the double is the same number. What does not fit is a
`Mismatch` that says which field and why.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa

from headrace.errors import ConfigError, HeadraceError
from headrace.pipeline.columns import EVENT, SOURCE

Convert = Callable[[Any, str], Any]

_SHOWN_CHARS_MAX: Final = 40
_NOTHING: Final[tuple[Any, ...]] = (None, [], {})
_DOUBLE_EXACT_MAX: Final = 2**53


class Mismatch(HeadraceError):
    """A value that is not what was declared."""


def parse_declaration(text: str) -> dict[str, Any]:
    """A declaration that can be used, or a `ConfigError` that says what is wrong with it."""
    try:
        declared = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the schema is not JSON: {error}") from None
    if not isinstance(declared, dict) or not declared:
        raise ConfigError('the schema is not an object of fields, like {"page": "string", "count": "long"}')
    taken = {*SOURCE.names, *EVENT.names}
    for name, kind in declared.items():
        if name in taken:
            raise ConfigError(
                f"the schema declares {name}, which is a column of every table; there are {_listed(taken)}"
            )
        arrow_type(kind, name)
    folded = [name.lower() for name in declared]
    if len(set(folded)) != len(folded):
        raise ConfigError("the schema declares two fields whose names differ in case only")
    return declared


def arrow_schema(declared: Mapping[str, Any]) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(kind, name)) for name, kind in declared.items()])


def arrow_type(kind: Any, path: str) -> pa.DataType:
    match kind:
        case str() if kind in _PLAIN:
            return _PLAIN[kind][0]
        case [inner]:
            return pa.list_(arrow_type(inner, f"{path}[]"))
        case dict() if kind:
            return pa.struct([pa.field(name, arrow_type(inner, f"{path}.{name}")) for name, inner in kind.items()])
        case _:
            raise ConfigError(
                f"the schema says that {path} is {json.dumps(kind)}; there are {_listed(_PLAIN)}, "
                f'objects of fields, and lists of one type like ["string"]'
            )


def converter(kind: Any) -> Convert:
    """What makes a column's value of a parsed JSON value, given the path of the field for its complaints."""
    match kind:
        case str():
            return _or_null(_PLAIN[kind][1], kind)
        case [inner]:
            return _or_null(_array(converter(inner)), "array")
        case _:
            return _or_null(struct_converter(kind), "object")


def struct_converter(kind: Mapping[str, Any]) -> Convert:
    fields = {name: converter(inner) for name, inner in kind.items()}

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise TypeError
        prefix = f"{path}." if path else ""
        for name, inner in value.items():
            if name not in fields and inner not in _NOTHING:
                raise Mismatch(f"field {prefix}{_whole(name)} is not declared")
        return {name: convert_one(value.get(name), f"{prefix}{name}") for name, convert_one in fields.items()}

    return convert


def _array(convert_one: Convert) -> Convert:
    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise TypeError
        return [convert_one(each, f"{path}[{index}]") for index, each in enumerate(value)]

    return convert


def _or_null(convert: Convert, kind: str) -> Convert:
    article = "an" if kind[0] in "aeiou" else "a"

    def convert_or_null(value: Any, path: str) -> Any:
        if value is None:
            return None
        try:
            return convert(value, path)
        except (TypeError, ValueError, OverflowError):
            raise Mismatch(f"field {path} is {_shown(value)}, not {article} {kind}") from None

    return convert_or_null


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "nested deeply"
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "..."


def _whole(name: str) -> str:
    """A name that can be written down: JSON can spell half a character, which no table can hold."""
    return name.encode(errors="backslashreplace").decode()


def _string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not value.isascii():
        value.encode()  # Half a character?
    return value


def _integer(bits: int) -> Convert:
    def convert(value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise TypeError
        return value

    return convert


def _double(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if (isinstance(value, int) and abs(value) > _DOUBLE_EXACT_MAX) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _timestamp(value: Any, path: str) -> datetime:
    if not isinstance(value, str):
        raise TypeError
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError  # Of which place?
    return moment.astimezone(UTC)  # In the years 1 to 9999 there as well, or it overflows.


def _date(value: Any, path: str) -> date:
    if not isinstance(value, str):
        raise TypeError
    return date.fromisoformat(value)


# Each type's name, what it is in a table, and what makes it of JSON.
_PLAIN: Final[Mapping[str, tuple[pa.DataType, Convert]]] = {
    "string": (pa.string(), _string),
    "long": (pa.int64(), _integer(64)),
    "integer": (pa.int32(), _integer(32)),
    "double": (pa.float64(), _double),
    "boolean": (pa.bool_(), _boolean),
    "timestamp": (pa.timestamp("us", "UTC"), _timestamp),
    "date": (pa.date32(), _date),
}


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
