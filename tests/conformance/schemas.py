"""Kafka's messages as plain dictionaries, by Kafka's own schemas.

The JSON schemas come out of the pinned kafka-clients jar, so this codec shares neither code nor tables with
Headrace: a mistake in one cannot hide in the other. Field names are written in snake case. What a request does
not mention takes the schema's default; a field that the version does not have is left out, so that one
dictionary serves every version; a name that the schema does not know at all is a mistake in the test.

Speed is no concern here, and neither is leniency: a response must be read to its last byte.
"""

import json
import re
import struct
import uuid
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from tests.oracle.kafka import KAFKA_VERSION, kafka_jars

Message = dict[str, Any]
Kind = Literal["Request", "Response"]

_FIXED = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
_FOREVER = 1 << 15


class Malformed(Exception):
    """A response that is not what the schema says."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range as the schemas write it: '0-4', '3+', '7' or 'none'."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), _FOREVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


_NEVER = Versions(1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    type: str
    versions: Versions
    nullable: Versions
    flexible: Versions | None
    tagged: Versions
    tag: int
    default: Any
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    name: str
    api_key: int
    versions: Versions
    unstable_latest: bool
    flexible: Versions
    fields: tuple[Field, ...]


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def _sources() -> dict[str, Any]:
    with zipfile.ZipFile(kafka_jars() / f"kafka-clients-{KAFKA_VERSION}.jar") as jar:
        texts = [jar.read(name).decode() for name in jar.namelist() if name.startswith("common/message/")
                 and name.endswith(".json")]  # fmt: skip
    parsed = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return {one["name"]: one for one in parsed}


@cache
def schema(name: str) -> Schema:
    """One message's schema, such as 'FetchRequest' or 'RequestHeader'."""
    source = _sources()[name]
    structs = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", ())}
    return Schema(
        name=name,
        api_key=source.get("apiKey", -1),
        versions=Versions.parse(source["validVersions"]),
        unstable_latest=source.get("latestVersionUnstable", False),
        flexible=Versions.parse(source.get("flexibleVersions", "none")),
        fields=_fields(source.get("fields", []), structs),
    )


def _fields(sources: list[Any], structs: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(
        Field(
            name=snake_case(source["name"]),
            type=source["type"],
            versions=Versions.parse(source["versions"]),
            nullable=Versions.parse(source.get("nullableVersions", "none")),
            flexible=Versions.parse(source["flexibleVersions"]) if "flexibleVersions" in source else None,
            tagged=Versions.parse(source.get("taggedVersions", "none")),
            tag=source.get("tag", -1),
            default=source.get("default"),
            fields=_fields(source.get("fields") or structs.get(source["type"].removeprefix("[]"), []), structs),
        )
        for source in sources
    )


def api_names() -> dict[int, str]:
    """Every API of this Kafka that a client may call on a broker, by key."""
    return {
        source["apiKey"]: source["name"].removesuffix("Request")
        for source in _sources().values()
        if source["type"] == "request" and "broker" in source.get("listeners", ())
    }


def encode(message: str, version: int, values: Message) -> bytes:
    """The bytes of a message body or header."""
    found = schema(message)
    out = bytearray()
    _write_struct(out, found.fields, version, flexible=version in found.flexible, values=values, path=message)
    return bytes(out)


def decode(message: str, version: int, data: bytes, position: int = 0) -> tuple[Message, int]:
    """A message body or header, and the position after it."""
    found = schema(message)
    reader = _Reader(data, position)
    values = _read_struct(reader, found.fields, version, flexible=version in found.flexible)
    return values, reader.position


def request_header_version(api: str, version: int) -> int:
    return 2 if version in schema(f"{api}Request").flexible else 1


def response_header_version(api: str, version: int) -> int:
    """An ApiVersions response has the old header always: its reader cannot know the version yet (KIP-511)."""
    return 1 if api != "ApiVersions" and version in schema(f"{api}Response").flexible else 0


def _has_null_mark(field: Field, kind: str, version: int) -> bool:
    """A struct that may be null has a byte in front to say so; the items of a nullable list have not."""
    return kind == field.type and version in field.nullable


# Writing.


def _write_struct(
    out: bytearray, fields: tuple[Field, ...], version: int, *, flexible: bool, values: Message, path: str
) -> None:
    known = {field.name for field in fields}
    assert values.keys() <= known, f"{path} has no field {sorted(values.keys() - known)}"
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        if version not in field.versions:
            continue
        value = values.get(field.name, _ABSENT)
        where = f"{path}.{field.name}"
        if version in field.tagged:
            if value is not _ABSENT:
                piece = bytearray()
                _write(piece, field, field.type, version, flexible=flexible, value=value, path=where)
                tagged.append((field.tag, bytes(piece)))
            continue
        chosen = _default(field, version) if value is _ABSENT else value
        _write(out, field, field.type, version, flexible=flexible, value=chosen, path=where)
    if flexible:
        out += unsigned_varint(len(tagged))
        for tag, content in sorted(tagged):
            out += unsigned_varint(tag) + unsigned_varint(len(content)) + content


_ABSENT = object()


def _default(field: Field, version: int) -> Any:
    if field.default == "null" and version in field.nullable:
        return None
    if field.type.startswith("[]"):
        return []
    if field.type in _FIXED:
        return int(str(field.default or 0), 0)
    match field.type:
        case "string":
            return field.default or ""
        case "bytes" | "records":
            return b""
        case "bool":
            return field.default in (True, "true")
        case "uuid":
            return uuid.UUID(int=0)
        case _:
            return {}


def _write(out: bytearray, field: Field, kind: str, version: int, *, flexible: bool, value: Any, path: str) -> None:
    if field.flexible is not None:
        flexible = flexible and version in field.flexible
    if kind.startswith("[]"):
        _write_size(out, None if value is None else len(value), flexible=flexible, width=">i")
        for index, item in enumerate(value or ()):
            _write(out, field, kind[2:], version, flexible=flexible, value=item, path=f"{path}[{index}]")
    elif kind in _FIXED:
        out += struct.pack(_FIXED[kind], value)
    elif kind == "bool":
        out.append(int(value))
    elif kind == "uuid":
        out += value.bytes
    elif kind == "string":
        # Bytes stand for a string that is not text, for the cases about bad input.
        data = value.encode() if isinstance(value, str) else value
        _write_size(out, None if data is None else len(data), flexible=flexible, width=">h")
        out += data or b""
    elif kind in ("bytes", "records"):
        _write_size(out, None if value is None else len(value), flexible=flexible, width=">i")
        out += value or b""
    else:
        if _has_null_mark(field, kind, version):
            out += b"\xff" if value is None else b"\x01"
        if value is not None:
            _write_struct(out, field.fields, version, flexible=flexible, values=value, path=path)


def _write_size(out: bytearray, size: int | None, *, flexible: bool, width: str) -> None:
    if flexible:
        out += unsigned_varint(0 if size is None else size + 1)
    else:
        out += struct.pack(width, -1 if size is None else size)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Reading.


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self._data):
            raise Malformed(f"{size} bytes at {self.position} of {len(self._data)}")
        self.position += size
        return self._data[self.position - size : self.position]

    def fixed(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def size(self, *, flexible: bool, width: str) -> int | None:
        size = self.varint() - 1 if flexible else self.fixed(width)
        if size < -1:
            raise Malformed(f"a size of {size} before {self.position}")
        return None if size == -1 else size


def _read_struct(reader: _Reader, fields: tuple[Field, ...], version: int, *, flexible: bool) -> Message:
    values: Message = {
        field.name: _read(reader, field, field.type, version, flexible=flexible)
        for field in fields
        if version in field.versions and version not in field.tagged
    }
    if not flexible:
        return values
    tags = {field.tag: field for field in fields if version in field.tagged}
    for _ in range(reader.varint()):
        tag, size = reader.varint(), reader.varint()
        end = reader.position + size
        if tag in tags:
            values[tags[tag].name] = _read(reader, tags[tag], tags[tag].type, version, flexible=True)
        else:
            values[f"tag {tag}"] = reader.take(size)
        if reader.position != end:
            raise Malformed(f"tag {tag} announced {size} bytes and had another size")
    return values


def _read(reader: _Reader, field: Field, kind: str, version: int, *, flexible: bool) -> Any:
    if field.flexible is not None:
        flexible = flexible and version in field.flexible
    if kind.startswith("[]"):
        count = reader.size(flexible=flexible, width=">i")
        if count is None:
            return None
        return [_read(reader, field, kind[2:], version, flexible=flexible) for _ in range(count)]
    if kind in _FIXED:
        return reader.fixed(_FIXED[kind])
    match kind:
        case "bool":
            return bool(reader.fixed(">b"))
        case "uuid":
            return uuid.UUID(bytes=reader.take(16))
        case "string":
            size = reader.size(flexible=flexible, width=">h")
            return None if size is None else reader.take(size).decode()
        case "bytes" | "records":
            size = reader.size(flexible=flexible, width=">i")
            return None if size is None else reader.take(size)
    if _has_null_mark(field, kind, version) and reader.fixed(">b") < 0:
        return None
    return _read_struct(reader, field.fields, version, flexible=flexible)
