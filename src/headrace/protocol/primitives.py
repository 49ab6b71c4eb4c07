"""Kafka's primitive types on the wire.

Readers share one shape: `read(data, position) -> (value, position after it)`. Writers share another:
`write(out, value)` appends to a bytearray. A reader trusts nothing: every length and count is checked against
the bytes left before anything is sliced or allocated, and whatever is wrong with the bytes is a
`ProtocolError`. What is wrong with a value to be written is our own mistake, and an `AssertionError`.

Two deliberate differences from Kafka, both on input that no client writes: a varint must fit its type (Kafka
drops the surplus bits), and a string must be UTF-8 (Kafka substitutes U+FFFD).

This module knows neither messages nor versions.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.errors import ProtocolError
from headrace.ports import Buffer

T = TypeVar("T")
Reader = Callable[[Buffer, int], tuple[T, int]]
Writer = Callable[[bytearray, T], None]

STRING_BYTES_MAX = 0x7FFF  # Kafka's limit for compact strings too, though their length could say more.
UUID_BYTES = 16
ZERO_UUID = bytes(UUID_BYTES)


def too_short(what: str, *, need_bytes: int, data: Buffer, position: int) -> ProtocolError:
    left_bytes = max(0, len(data) - position)
    return ProtocolError(f"{what} at byte {position} needs {need_bytes} bytes, but {left_bytes} are left")


# Fixed widths.


def fixed_reader(code: str, what: str) -> Reader[Any]:
    layout = struct.Struct(">" + code)
    unpack_from, size = layout.unpack_from, layout.size

    def read(data: Buffer, position: int) -> tuple[Any, int]:
        try:
            return unpack_from(data, position)[0], position + size
        except struct.error:
            raise too_short(what, need_bytes=size, data=data, position=position) from None

    return read


def fixed_writer(code: str, what: str) -> Writer[Any]:
    pack = struct.Struct(">" + code).pack

    def write(out: bytearray, value: Any) -> None:
        try:
            out += pack(value)
        except struct.error as error:
            raise AssertionError(f"{value!r} is no {what}: {error}") from error

    return write


read_bool: Reader[bool] = fixed_reader("?", "bool")  # Any byte but zero is true, as in Kafka.
read_int8: Reader[int] = fixed_reader("b", "int8")
read_int16: Reader[int] = fixed_reader("h", "int16")
read_int32: Reader[int] = fixed_reader("i", "int32")
read_int64: Reader[int] = fixed_reader("q", "int64")
read_uint16: Reader[int] = fixed_reader("H", "uint16")
read_uint32: Reader[int] = fixed_reader("I", "uint32")
read_float64: Reader[float] = fixed_reader("d", "float64")

write_bool: Writer[bool] = fixed_writer("?", "bool")
write_int8: Writer[int] = fixed_writer("b", "int8")
write_int16: Writer[int] = fixed_writer("h", "int16")
write_int32: Writer[int] = fixed_writer("i", "int32")
write_int64: Writer[int] = fixed_writer("q", "int64")
write_uint16: Writer[int] = fixed_writer("H", "uint16")
write_uint32: Writer[int] = fixed_writer("I", "uint32")
write_float64: Writer[float] = fixed_writer("d", "float64")


def read_uuid(data: Buffer, position: int) -> tuple[bytes, int]:
    end = position + UUID_BYTES
    if end > len(data):
        raise too_short("uuid", need_bytes=UUID_BYTES, data=data, position=position)
    return bytes(data[position:end]), end


def write_uuid(out: bytearray, value: bytes) -> None:
    assert len(value) == UUID_BYTES, f"a uuid is {UUID_BYTES} bytes, not {value!r}"
    out += value


# Variable-length integers: seven bits a byte, least significant first.


def _read_base128(data: Buffer, position: int, *, bits: int, bytes_max: int) -> tuple[int, int]:
    value = 0
    end = position + bytes_max
    for at, byte in enumerate(data[position:end]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            if value >> bits:
                raise ProtocolError(f"varint at byte {position} does not fit {bits} bits")
            return value, position + at + 1
    if end > len(data):
        raise ProtocolError(f"varint at byte {position} is cut off by the end of the data")
    raise ProtocolError(f"varint at byte {position} is longer than {bytes_max} bytes")


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    # Nearly every length is below 128, so the first byte has a path of its own.
    if position < len(data) and (byte := data[position]) < 0x80:
        return byte, position + 1
    return _read_base128(data, position, bits=32, bytes_max=5)


def read_unsigned_varlong(data: Buffer, position: int) -> tuple[int, int]:
    if position < len(data) and (byte := data[position]) < 0x80:
        return byte, position + 1
    return _read_base128(data, position, bits=64, bytes_max=10)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    value, position = read_unsigned_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    value, position = read_unsigned_varlong(data, position)
    return (value >> 1) ^ -(value & 1), position


def _write_base128(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    assert 0 <= value < 1 << 32, f"{value} is no uint32"
    _write_base128(out, value)


def write_unsigned_varlong(out: bytearray, value: int) -> None:
    assert 0 <= value < 1 << 64, f"{value} is no uint64"
    _write_base128(out, value)


def write_varint(out: bytearray, value: int) -> None:
    assert -(1 << 31) <= value < 1 << 31, f"{value} is no int32"
    _write_base128(out, (value << 1) ^ (value >> 31))


def write_varlong(out: bytearray, value: int) -> None:
    assert -(1 << 63) <= value < 1 << 63, f"{value} is no int64"
    _write_base128(out, (value << 1) ^ (value >> 63))


# Lengths and counts. A null is any negative number, or a compact zero.


def read_compact_length(data: Buffer, position: int) -> tuple[int, int]:
    """A length that was written plus one, so that -1 can say null."""
    value, position = read_unsigned_varint(data, position)
    return value - 1, position


def write_compact_length(out: bytearray, length: int) -> None:
    if length < 0x7F:
        out.append(length + 1)
    else:
        write_unsigned_varint(out, length + 1)


def check_count(count: int, data: Buffer, position: int, *, item_bytes_min: int) -> None:
    """Refuse a count that the bytes left cannot hold, before a list of that size exists."""
    if count * item_bytes_min > len(data) - position:
        raise too_short(f"an array of {count} items", need_bytes=count * item_bytes_min, data=data, position=position)


# Strings and bytes: one maker for each, since they differ only in how the length is written and in whether
# null is allowed.


def string_reader(read_length: Reader[int], *, nullable: bool) -> Reader[Any]:
    def read(data: Buffer, position: int) -> tuple[str | None, int]:
        size, start = read_length(data, position)
        if size < 0:
            if nullable:
                return None, start
            raise ProtocolError(f"string at byte {position} is null, which is not allowed here")
        end = start + size
        if end > len(data):
            raise too_short("string", need_bytes=size, data=data, position=start)
        if size > STRING_BYTES_MAX:
            raise ProtocolError(f"string at byte {position} of {size} bytes exceeds {STRING_BYTES_MAX}")
        try:
            return str(data[start:end], "utf-8"), end
        except UnicodeDecodeError as error:
            raise ProtocolError(f"string at byte {position} is not UTF-8: {error.reason}") from None

    return read


def string_writer(write_length: Writer[int], *, nullable: bool) -> Writer[Any]:
    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            assert nullable, "a null string where null is not allowed"
            write_length(out, -1)
            return
        data = value.encode()
        assert len(data) <= STRING_BYTES_MAX, f"a string of {len(data)} bytes exceeds {STRING_BYTES_MAX}"
        write_length(out, len(data))
        out += data

    return write


def bytes_reader(read_length: Reader[int], *, nullable: bool) -> Reader[Any]:
    def read(data: Buffer, position: int) -> tuple[bytes | None, int]:
        size, start = read_length(data, position)
        if size < 0:
            if nullable:
                return None, start
            raise ProtocolError(f"bytes at byte {position} are null, which is not allowed here")
        end = start + size
        if end > len(data):
            raise too_short("bytes", need_bytes=size, data=data, position=start)
        return bytes(data[start:end]), end

    return read


def bytes_writer(write_length: Writer[int], *, nullable: bool) -> Writer[Any]:
    def write(out: bytearray, value: Buffer | None) -> None:
        if value is None:
            assert nullable, "null bytes where null is not allowed"
            write_length(out, -1)
            return
        write_length(out, len(value))
        out += value

    return write


read_string: Reader[str] = string_reader(read_int16, nullable=False)
read_nullable_string: Reader[str | None] = string_reader(read_int16, nullable=True)
read_compact_string: Reader[str] = string_reader(read_compact_length, nullable=False)
read_compact_nullable_string: Reader[str | None] = string_reader(read_compact_length, nullable=True)
read_bytes: Reader[bytes] = bytes_reader(read_int32, nullable=False)
read_nullable_bytes: Reader[bytes | None] = bytes_reader(read_int32, nullable=True)
read_compact_bytes: Reader[bytes] = bytes_reader(read_compact_length, nullable=False)
read_compact_nullable_bytes: Reader[bytes | None] = bytes_reader(read_compact_length, nullable=True)

write_string: Writer[str] = string_writer(write_int16, nullable=False)
write_nullable_string: Writer[str | None] = string_writer(write_int16, nullable=True)
write_compact_string: Writer[str] = string_writer(write_compact_length, nullable=False)
write_compact_nullable_string: Writer[str | None] = string_writer(write_compact_length, nullable=True)
write_bytes: Writer[Buffer] = bytes_writer(write_int32, nullable=False)
write_nullable_bytes: Writer[Buffer | None] = bytes_writer(write_int32, nullable=True)
write_compact_bytes: Writer[Buffer] = bytes_writer(write_compact_length, nullable=False)
write_compact_nullable_bytes: Writer[Buffer | None] = bytes_writer(write_compact_length, nullable=True)


# Tagged fields: a count, then tag, size and content of each.


def read_tagged_fields(data: Buffer, position: int) -> tuple[list[tuple[int, int, int]], int]:
    """Each field as (tag, start, end) of its content; order and repetition are the caller's business."""
    count, position = read_unsigned_varint(data, position)
    if count == 0:
        return [], position
    check_count(count, data, position, item_bytes_min=2)
    fields = []
    for _ in range(count):
        tag, position = read_unsigned_varint(data, position)
        size, start = read_unsigned_varint(data, position)
        position = start + size
        if position > len(data):
            raise too_short(f"tagged field {tag}", need_bytes=size, data=data, position=start)
        fields.append((tag, start, position))
    return fields, position


def skip_tagged_fields(data: Buffer, position: int) -> int:
    if position < len(data) and data[position] == 0:
        return position + 1
    return read_tagged_fields(data, position)[1]


def write_tagged_fields(out: bytearray, fields: list[tuple[int, Buffer]]) -> None:
    """`fields` as (tag, content), in rising order of tag."""
    write_unsigned_varint(out, len(fields))
    for tag, content in fields:
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(content))
        out += content
