"""Random messages, drawn from the tables themselves: every field of a version, nulls where it allows them."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from headrace.protocol.fields import BOOL, FLOAT64, Array, Bytes, F, Fixed, String, Struct, Type, Uuid
from headrace.protocol.messages import MESSAGES
from headrace.protocol.schema import Message

VERSIONED = [
    (message, version)
    for api in MESSAGES.values()
    for message in (api.request, api.response)
    for version in range(api.version_min, api.version_max + 1)
]


def versioned_id(case: object) -> str:
    return case.name.replace(" ", "-") if isinstance(case, Message) else f"v{case}"


@cache
def message_values(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Values that name every field that the version carries, and no other."""
    return _struct(message.struct, version)


def _struct(struct: Struct, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field.name: _field(field, version) for field in struct.fields if field.in_version(version)}
    )


def _field(field: F, version: int) -> st.SearchStrategy[Any]:
    values = _error_codes() if field.name.endswith("error_code") else _type(field.type, version)
    # Defaults matter by themselves: a tagged field at its default is not written.
    choices = [values, values, st.just(field.default())] if field.tag is not None else [values]
    if field.nullable(version):
        choices.append(st.none())
    return st.one_of(choices)


def _error_codes() -> st.SearchStrategy[int]:
    return st.integers(-1, 127)  # Codes that every implementation knows.


def _type(type_: Type, version: int) -> st.SearchStrategy[Any]:
    match type_:
        case Fixed() if type_ is BOOL:
            return st.booleans()
        case Fixed() if type_ is FLOAT64:
            return st.floats(allow_nan=False)
        case Fixed():
            bits = 8 * type_.size
            return st.integers(0, (1 << bits) - 1) if type_.code.isupper() else _signed(bits)
        case String():
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("x" * 200)
        case Bytes():
            return st.binary(max_size=40)
        case Uuid():
            return st.binary(min_size=16, max_size=16)
        case Array():
            return st.lists(_type(type_.of, version), max_size=3)
        case Struct():
            return _struct(type_, version)
        case _:
            raise AssertionError(f"no values for {type_}")


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def with_defaults(struct: Struct, value: dict[str, Any]) -> dict[str, Any]:
    """What decoding gives for a value: every field of the table, those that were not sent at their defaults."""
    return {
        field.name: _filled(field.type, value[field.name]) if field.name in value else field.default()
        for field in struct.fields
    }


def _filled(type_: Type, value: Any) -> Any:
    match type_:
        case Struct() if value is not None:
            return with_defaults(type_, value)
        case Array() if value is not None:
            return [_filled(type_.of, item) for item in value]
        case _:
            return value
