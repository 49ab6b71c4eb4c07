"""Every message and version against kio, an implementation made apart from ours from Kafka's schemas.

The same value is written by both, to the same bytes, and each reads the other's.
"""

import datetime
import importlib
import io
import re
import types
import typing
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

from headrace.protocol.fields import Array, F, Struct, Type
from headrace.protocol.schema import Message
from tests.message_values import VERSIONED, message_values, versioned_id, with_defaults

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# kio holds some of these as dates and durations, which reach less far than 64 bits of milliseconds.
YEAR_2100_MS = 4_102_444_800_000
RENAMED = {"enable_2pc": "enable2_pc"}


@cache
def kio_entity(message: Message, version: int) -> Any:
    name, direction = message.name.split()
    folder = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    module = importlib.import_module(f"kio.schema.{folder}.v{version}.{direction}")
    return getattr(module, name + direction.capitalize())


def kio_name(name: str) -> str:
    return RENAMED.get(name, name.removesuffix("_ms"))


def to_kio(entity: Any, struct: Struct, version: int, value: dict[str, Any]) -> Any:
    """The same value as kio's class. Fails unless kio has exactly our fields in this version, as nullable as ours."""
    carried = [field for field in struct.fields if field.in_version(version)]
    hints = type_hints(entity)
    assert [field.name for field in fields(entity)] == [kio_name(field.name) for field in carried]
    assert [kio_nullable(hints[kio_name(field.name)]) for field in carried] == [
        field.nullable(version) for field in carried
    ]
    return entity(
        **{
            kio_name(field.name): to_kio_item(hints[kio_name(field.name)], field.type, version, value[field.name])
            for field in carried
        }
    )


@cache
def type_hints(entity: Any) -> dict[str, Any]:
    return typing.get_type_hints(entity)


def kio_nullable(hint: Any) -> bool:
    """Whether null is on the wire. kio's own nulls stand for the zero UUID and for a date of -1."""
    choices = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
    return type(None) in choices and not choices & {uuid.UUID, TZAware}


def to_kio_item(hint: Any, type_: Type, version: int, value: Any) -> Any:
    if isinstance(hint, types.UnionType):
        choices = [choice for choice in typing.get_args(hint) if choice is not type(None)]
        (hint,) = choices
        if value is None or (hint is uuid.UUID and value == bytes(16)) or (hint is TZAware and value == -1):
            return None
    match type_:
        case Array():
            item_hint, _ = typing.get_args(hint)
            return tuple(to_kio_item(item_hint, type_.of, version, item) for item in value)
        case Struct():
            assert is_dataclass(hint)
            return to_kio(hint, type_, version, value)
    if hint is uuid.UUID:
        return uuid.UUID(bytes=value)
    if hint is ErrorCode:
        return ErrorCode(value)
    if hint in {i32Timedelta, i64Timedelta}:
        return datetime.timedelta(milliseconds=value)
    if hint is TZAware:
        return EPOCH + datetime.timedelta(milliseconds=value)
    return value


def within_kio(fields_: tuple[F, ...], value: dict[str, Any]) -> dict[str, Any]:
    """The value with its dates and durations brought into the range that kio can hold."""
    bounded = dict(value)
    for field in fields_:
        item = bounded.get(field.name)
        if field.name in {"log_append_time_ms", "retention_time_ms"} and item is not None:
            bounded[field.name] = item % YEAR_2100_MS if item >= 0 else -1
        elif isinstance(field.type, Array) and isinstance(field.type.of, Struct) and item is not None:
            bounded[field.name] = [within_kio(field.type.of.fields, each) for each in item]
    return bounded


@pytest.mark.parametrize(("message", "version"), VERSIONED, ids=versioned_id)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_kio_writes_and_reads_the_same(message: Message, version: int, data: st.DataObject) -> None:
    value = within_kio(message.struct.fields, data.draw(message_values(message, version)))
    entity_type = kio_entity(message, version)
    entity = to_kio(entity_type, message.struct, version, value)
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, entity)

    encoded = message.encode(value, version)
    assert encoded.hex() == buffer.getvalue().hex()
    assert message.decode(buffer.getvalue(), version) == with_defaults(message.struct, value)
    assert entity_reader(entity_type)(encoded, 0) == (entity, len(encoded))
