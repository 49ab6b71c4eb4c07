"""What message tables are made of: types, fields, and the readers and writers that they compile to.

A type is compiled once per encoding (a version, flexible or not) into closures of the shape that
`protocol.primitives` has. Runs of neighbouring fixed-width fields become one `struct` call, which is what makes
a long Metadata response cheap.

The rules of the encoding are told in `protocol.schema`, which is what tables and their users import.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.errors import ApiError, ErrorCode, ProtocolError
from headrace.ports import Buffer
from headrace.protocol import primitives as p

Value: TypeAlias = dict[str, Any]
Reader: TypeAlias = p.Reader[Any]
Writer: TypeAlias = p.Writer[Any]


class Encoding(NamedTuple):
    """What decides the bytes of a type besides its value."""

    version: int
    flexible: bool


class Type:
    """A wire type: how it is read and written in one encoding, and what stands for it when it is absent."""

    __slots__ = ()

    def default(self) -> Any:
        """A fresh default; nobody else holds it."""
        raise NotImplementedError

    def is_default(self, value: Any) -> bool:
        return bool(value == self.default())

    def bytes_min(self, encoding: Encoding) -> int:
        """The fewest bytes that a value can take; counts are checked against it."""
        raise NotImplementedError

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        raise NotImplementedError

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        raise NotImplementedError


class Fixed(Type):
    """A number or bool of fixed width, by its `struct` code. Never null."""

    __slots__ = ("_default", "code", "name", "size")

    def __init__(self, name: str, code: str, default: Any) -> None:
        self.name, self.code, self._default = name, code, default
        self.size = struct.calcsize(">" + code)

    def default(self) -> Any:
        return self._default

    def bytes_min(self, encoding: Encoding) -> int:
        return self.size

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        assert not nullable
        return p.fixed_reader(self.code, self.name)

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        assert not nullable
        return p.fixed_writer(self.code, self.name)


class Uuid(Type):
    """Sixteen raw bytes. Never null: the zero UUID says so."""

    __slots__ = ()

    def default(self) -> bytes:
        return p.ZERO_UUID

    def bytes_min(self, encoding: Encoding) -> int:
        return p.UUID_BYTES

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        assert not nullable
        return p.read_uuid

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        assert not nullable
        return p.write_uuid


class String(Type):
    __slots__ = ()

    def default(self) -> str:
        return ""

    def bytes_min(self, encoding: Encoding) -> int:
        return 1 if encoding.flexible else 2

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        return p.string_reader(p.read_compact_length if encoding.flexible else p.read_int16, nullable=nullable)

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        return p.string_writer(p.write_compact_length if encoding.flexible else p.write_int16, nullable=nullable)


class Bytes(Type):
    """Raw bytes, always copied out of the buffer that was read. Record batches travel as nullable bytes."""

    __slots__ = ()

    def default(self) -> bytes:
        return b""

    def bytes_min(self, encoding: Encoding) -> int:
        return 1 if encoding.flexible else 4

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        return p.bytes_reader(p.read_compact_length if encoding.flexible else p.read_int32, nullable=nullable)

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        return p.bytes_writer(p.write_compact_length if encoding.flexible else p.write_int32, nullable=nullable)


BOOL: Final = Fixed("bool", "?", False)
INT8: Final = Fixed("int8", "b", 0)
INT16: Final = Fixed("int16", "h", 0)
INT32: Final = Fixed("int32", "i", 0)
INT64: Final = Fixed("int64", "q", 0)
UINT16: Final = Fixed("uint16", "H", 0)
UINT32: Final = Fixed("uint32", "I", 0)
FLOAT64: Final = Fixed("float64", "d", 0.0)
UUID: Final = Uuid()
STRING: Final = String()
BYTES: Final = Bytes()

_OF_TYPE: Final = object()  # Says that a field's default is that of its type, since None is a default too.


class F:
    """One field of a table: its name, its type and the versions that carry it.

    `nullable_since` is the first version that allows null; `tag` makes it a tagged field of flexible
    versions.
    """

    __slots__ = ("_default", "ignorable", "name", "nullable_since", "since", "tag", "type", "until")

    def __init__(
        self,
        name: str,
        type: Type,  # noqa: A002
        *,
        since: int = 0,
        until: int = 0x7FFF,
        nullable_since: int | None = None,
        default: Any = _OF_TYPE,
        tag: int | None = None,
        ignorable: bool = True,
    ) -> None:
        self.name, self.type = name, type
        self.since, self.until, self.nullable_since = since, until, nullable_since
        self.tag, self.ignorable = tag, ignorable
        self._default = default

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def default(self) -> Any:
        return self.type.default() if self._default is _OF_TYPE else self._default

    def is_default(self, value: Any) -> bool:
        if self._default is _OF_TYPE:
            return value is not None and self.type.is_default(value)
        return bool(value == self._default)

    def bytes_min(self, encoding: Encoding) -> int:
        if isinstance(self.type, Struct) and self.nullable(encoding.version):
            return 1  # The byte that says null.
        return self.type.bytes_min(encoding)

    def reader(self, encoding: Encoding) -> Reader:
        return self.type.reader(encoding, nullable=self.nullable(encoding.version))

    def writer(self, encoding: Encoding) -> Writer:
        return self.type.writer(encoding, nullable=self.nullable(encoding.version))


class Array(Type):
    """A list of one type, or of structs when it is given fields: `Array(INT32)`, `Array(F(...), F(...))`."""

    __slots__ = ("of",)

    def __init__(self, *of: Type | F) -> None:
        if len(of) == 1 and isinstance(of[0], Type):
            self.of: Type = of[0]
        else:
            self.of = Struct(*of)

    def default(self) -> list[Any]:
        return []

    def is_default(self, value: Any) -> bool:
        return len(value) == 0

    def bytes_min(self, encoding: Encoding) -> int:
        return 1 if encoding.flexible else 4

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        read_length: p.Reader[int] = p.read_compact_length if encoding.flexible else p.read_int32
        item_bytes_min = max(1, self.of.bytes_min(encoding))
        read_items = _items_reader(self.of, encoding)

        def read(data: Buffer, position: int) -> tuple[list[Any] | None, int]:
            count, start = read_length(data, position)
            if count <= 0:
                if count == 0:
                    return [], start
                if nullable:
                    return None, start
                raise ProtocolError(f"array at byte {position} is null, which is not allowed here")
            p.check_count(count, data, start, item_bytes_min=item_bytes_min)
            return read_items(data, start, count)

        return read

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        write_length = p.write_compact_length if encoding.flexible else p.write_int32
        write_items = _items_writer(self.of, encoding)

        def write(out: bytearray, items: Any) -> None:
            if items is None:
                assert nullable, "a null array where null is not allowed"
                write_length(out, -1)
                return
            write_length(out, len(items))
            write_items(out, items)

        return write


def _items_reader(of: Type, encoding: Encoding) -> Callable[[Buffer, int, int], tuple[list[Any], int]]:
    if isinstance(of, Fixed):
        code, size = of.code, of.size

        def read_numbers(data: Buffer, position: int, count: int) -> tuple[list[Any], int]:
            return list(struct.unpack_from(f">{count}{code}", data, position)), position + count * size

        return read_numbers

    read_item = of.reader(encoding, nullable=False)

    def read_items(data: Buffer, position: int, count: int) -> tuple[list[Any], int]:
        items = []
        for _ in range(count):
            item, position = read_item(data, position)
            items.append(item)
        return items, position

    return read_items


def _items_writer(of: Type, encoding: Encoding) -> Callable[[bytearray, Any], None]:
    if isinstance(of, Fixed):
        code = of.code

        def write_numbers(out: bytearray, items: Any) -> None:
            out += struct.pack(f">{len(items)}{code}", *items)

        return write_numbers

    write_item = of.writer(encoding, nullable=False)

    def write_items(out: bytearray, items: Any) -> None:
        for item in items:
            write_item(out, item)

    return write_items


# A step reads or writes a few neighbouring fields of a struct.
_ReadStep: TypeAlias = Callable[[Buffer, int, Value], int]
_WriteStep: TypeAlias = Callable[[bytearray, Mapping[str, Any]], None]


class Struct(Type):
    """Fields in wire order; in flexible versions its tagged fields follow."""

    __slots__ = ("fields",)

    def __init__(self, *fields: Type | F) -> None:
        self.fields = tuple(field for field in fields if isinstance(field, F))
        assert len(self.fields) == len(fields), "a struct is made of fields"
        assert len({field.name for field in self.fields}) == len(fields), "a field is named twice"

    def default(self) -> Value:
        return {field.name: field.default() for field in self.fields}

    def is_default(self, value: Any) -> bool:
        return all(field.name not in value or field.is_default(value[field.name]) for field in self.fields)

    def _plain(self, encoding: Encoding) -> list[F]:
        return [field for field in self.fields if field.tag is None and field.in_version(encoding.version)]

    def _tagged(self, encoding: Encoding) -> list[tuple[int, F]]:
        tagged = [
            (field.tag, field) for field in self.fields if field.tag is not None and field.in_version(encoding.version)
        ]
        assert encoding.flexible or not tagged, "only flexible versions carry tagged fields"
        return sorted(tagged, key=lambda pair: pair[0])

    def bytes_min(self, encoding: Encoding) -> int:
        return sum(field.bytes_min(encoding) for field in self._plain(encoding)) + encoding.flexible

    def reader(self, encoding: Encoding, *, nullable: bool) -> Reader:
        plain, tagged = self._plain(encoding), self._tagged(encoding)
        steps = [_read_step(run, encoding) for run in _runs(plain)]
        if encoding.flexible:
            steps.append(_read_tagged_step(tagged, encoding))
        # A default that is a list or a dict is made anew for every value, the rest is copied from one dict.
        absent = [field for field in self.fields if field not in plain]
        shared = {field.name: field.default() for field in absent}
        fresh = [(f.name, f.default) for f in absent if isinstance(shared[f.name], list | dict)]

        def read(data: Buffer, position: int) -> tuple[Value, int]:
            value = shared.copy()
            for name, default in fresh:
                value[name] = default()
            for step in steps:
                position = step(data, position, value)
            return value, position

        if not nullable:
            return read

        def read_nullable(data: Buffer, position: int) -> tuple[Value | None, int]:
            marker, position = p.read_int8(data, position)
            return (None, position) if marker < 0 else read(data, position)

        return read_nullable

    def writer(self, encoding: Encoding, *, nullable: bool) -> Writer:
        plain, tagged = self._plain(encoding), self._tagged(encoding)
        steps = [_write_step(run, encoding) for run in _runs(plain)]
        if encoding.flexible:
            steps.append(_write_tagged_step(tagged, encoding))
        names = frozenset(field.name for field in self.fields)
        precious = [f for f in self.fields if not f.ignorable and not f.in_version(encoding.version)]

        def write(out: bytearray, value: Mapping[str, Any]) -> None:
            assert names.issuperset(value), f"no such fields: {sorted(set(value) - names)}"
            for field in precious:
                if field.name in value and not field.is_default(value[field.name]):
                    raise ApiError(
                        ErrorCode.UNSUPPORTED_VERSION,
                        f"version {encoding.version} cannot carry {field.name}={value[field.name]!r}",
                    )
            for step in steps:
                step(out, value)

        if not nullable:
            return write

        def write_nullable(out: bytearray, value: Mapping[str, Any] | None) -> None:
            if value is None:
                p.write_int8(out, -1)
            else:
                p.write_int8(out, 1)
                write(out, value)

        return write_nullable


def _runs(fields: Iterable[F]) -> list[list[F]]:
    """Neighbouring fixed-width fields together, every other field alone."""
    runs: list[list[F]] = []
    for field in fields:
        if runs and isinstance(field.type, Fixed) and isinstance(runs[-1][-1].type, Fixed):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _layout(run: list[F]) -> struct.Struct:
    return struct.Struct(">" + "".join(field.type.code for field in run if isinstance(field.type, Fixed)))


def _read_step(run: list[F], encoding: Encoding) -> _ReadStep:
    if isinstance(run[0].type, Fixed):
        layout = _layout(run)
        unpack_from, size = layout.unpack_from, layout.size
        names = tuple(field.name for field in run)

        def read_run(data: Buffer, position: int, value: Value) -> int:
            try:
                value.update(zip(names, unpack_from(data, position), strict=True))
            except struct.error:
                raise p.too_short(", ".join(names), need_bytes=size, data=data, position=position) from None
            return position + size

        return read_run

    (field,) = run
    name, read = field.name, field.reader(encoding)

    def read_field(data: Buffer, position: int, value: Value) -> int:
        value[name], position = read(data, position)
        return position

    return read_field


def _read_tagged_step(tagged: list[tuple[int, F]], encoding: Encoding) -> _ReadStep:
    readers = {tag: (field.name, field.reader(encoding)) for tag, field in tagged}
    if not readers:
        return lambda data, position, _value: p.skip_tagged_fields(data, position)

    def read_tagged(data: Buffer, position: int, value: Value) -> int:
        sent, position = p.read_tagged_fields(data, position)
        for tag, start, end in sent:
            if (known := readers.get(tag)) is not None:
                name, read = known
                value[name], reached = read(data, start)
                if reached != end:
                    raise ProtocolError(
                        f"tagged field {name} at byte {start} is {reached - start} bytes, not {end - start}"
                    )
        return position

    return read_tagged


def _write_step(run: list[F], encoding: Encoding) -> _WriteStep:
    if isinstance(run[0].type, Fixed):
        pack = _layout(run).pack
        names = tuple(field.name for field in run)
        defaults = tuple(field.default() for field in run)

        def write_run(out: bytearray, value: Mapping[str, Any]) -> None:
            out += pack(*map(value.get, names, defaults))

        return write_run

    (field,) = run
    name, write, default = field.name, field.writer(encoding), field.default()

    def write_field(out: bytearray, value: Mapping[str, Any]) -> None:
        write(out, value.get(name, default))

    return write_field


def _write_tagged_step(tagged: list[tuple[int, F]], encoding: Encoding) -> _WriteStep:
    writers = [(tag, field, field.writer(encoding)) for tag, field in tagged]
    if not writers:
        return lambda out, _value: out.append(0)

    def write_tagged(out: bytearray, value: Mapping[str, Any]) -> None:
        contents: list[tuple[int, Buffer]] = []
        for tag, field, write in writers:
            if field.name in value and not field.is_default(value[field.name]):
                content = bytearray()
                write(content, value[field.name])
                contents.append((tag, content))
        p.write_tagged_fields(out, contents)

    return write_tagged
