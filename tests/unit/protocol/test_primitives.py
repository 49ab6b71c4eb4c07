import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import readers as kio

from headrace.errors import ProtocolError
from headrace.ports import Buffer
from headrace.protocol import primitives as p

# (reader, writer, value, bytes), the bytes spelled out by hand from Kafka's protocol guide.
EXAMPLES = [
    (p.read_bool, p.write_bool, True, "01"),
    (p.read_bool, p.write_bool, False, "00"),
    (p.read_int8, p.write_int8, -2, "fe"),
    (p.read_int16, p.write_int16, -2, "fffe"),
    (p.read_int16, p.write_int16, 0x1234, "1234"),
    (p.read_int32, p.write_int32, -2, "fffffffe"),
    (p.read_int32, p.write_int32, 0x12345678, "12345678"),
    (p.read_int64, p.write_int64, -(1 << 63), "8000000000000000"),
    (p.read_uint16, p.write_uint16, 0xFFFE, "fffe"),
    (p.read_uint32, p.write_uint32, 0xFFFFFFFE, "fffffffe"),
    (p.read_float64, p.write_float64, 1.0, "3ff0000000000000"),
    (p.read_uuid, p.write_uuid, bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
    (p.read_unsigned_varint, p.write_unsigned_varint, 0, "00"),
    (p.read_unsigned_varint, p.write_unsigned_varint, 127, "7f"),
    (p.read_unsigned_varint, p.write_unsigned_varint, 128, "8001"),
    (p.read_unsigned_varint, p.write_unsigned_varint, 300, "ac02"),
    (p.read_unsigned_varint, p.write_unsigned_varint, (1 << 32) - 1, "ffffffff0f"),
    (p.read_unsigned_varlong, p.write_unsigned_varlong, (1 << 64) - 1, "ffffffffffffffffff01"),
    (p.read_varint, p.write_varint, 0, "00"),
    (p.read_varint, p.write_varint, -1, "01"),
    (p.read_varint, p.write_varint, 1, "02"),
    (p.read_varint, p.write_varint, 64, "8001"),
    (p.read_varint, p.write_varint, (1 << 31) - 1, "feffffff0f"),
    (p.read_varint, p.write_varint, -(1 << 31), "ffffffff0f"),
    (p.read_varlong, p.write_varlong, -1, "01"),
    (p.read_varlong, p.write_varlong, -(1 << 63), "ffffffffffffffffff01"),
    (p.read_string, p.write_string, "", "0000"),
    (p.read_string, p.write_string, "hé", "000368c3a9"),
    (p.read_nullable_string, p.write_nullable_string, None, "ffff"),
    (p.read_nullable_string, p.write_nullable_string, "h", "000168"),
    (p.read_compact_string, p.write_compact_string, "", "01"),
    (p.read_compact_string, p.write_compact_string, "hé", "0468c3a9"),
    (p.read_compact_string, p.write_compact_string, "x" * 127, "8001" + "78" * 127),
    (p.read_compact_nullable_string, p.write_compact_nullable_string, None, "00"),
    (p.read_compact_nullable_string, p.write_compact_nullable_string, "h", "0268"),
    (p.read_bytes, p.write_bytes, b"\xff", "00000001ff"),
    (p.read_nullable_bytes, p.write_nullable_bytes, None, "ffffffff"),
    (p.read_nullable_bytes, p.write_nullable_bytes, b"", "00000000"),
    (p.read_compact_bytes, p.write_compact_bytes, b"\xff", "02ff"),
    (p.read_compact_nullable_bytes, p.write_compact_nullable_bytes, None, "00"),
    (p.read_compact_nullable_bytes, p.write_compact_nullable_bytes, b"", "01"),
]


@pytest.mark.parametrize(("read", "write", "value", "encoded"), EXAMPLES)
def test_examples_whole_cut_and_followed_by_more(read, write, value, encoded) -> None:
    data = bytes.fromhex(encoded)
    out = bytearray(b"before")
    write(out, value)
    assert out.hex() == b"before".hex() + encoded

    for make in (bytes, bytearray, memoryview):
        assert read(make(data), 0) == (value, len(data))
        assert read(make(b"before" + data + b"after"), 6) == (value, 6 + len(data))
        for size in range(len(data)):
            with pytest.raises(ProtocolError):
                read(make(data[:size]), 0)


def test_any_byte_but_zero_is_true() -> None:
    assert p.read_bool(b"\xff", 0) == (True, 1)


@pytest.mark.parametrize("encoded", ["ffffffff1f", "ffffffff7f"])
def test_a_varint_must_fit_its_32_bits(encoded: str) -> None:
    with pytest.raises(ProtocolError, match="does not fit 32 bits"):
        p.read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_a_varlong_must_fit_its_64_bits() -> None:
    with pytest.raises(ProtocolError, match="does not fit 64 bits"):
        p.read_unsigned_varlong(bytes.fromhex("ffffffffffffffffff02"), 0)


@pytest.mark.parametrize(("read", "bytes_max"), [(p.read_unsigned_varint, 5), (p.read_unsigned_varlong, 10)])
def test_a_varint_never_runs_past_its_bound(read: p.Reader[int], bytes_max: int) -> None:
    with pytest.raises(ProtocolError, match=f"longer than {bytes_max} bytes"):
        read(b"\x80" * 100, 0)


@given(value=st.integers(-(1 << 63), (1 << 63) - 1))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_varints_agree_with_kio(value: int) -> None:
    out = bytearray()
    p.write_varlong(out, value)
    assert kio.read_signed_varlong(bytes(out), 0) == (value, len(out)) == p.read_varlong(out, 0)
    small = value >> 32
    out = bytearray()
    p.write_varint(out, small)
    assert kio.read_signed_varint(bytes(out), 0) == (small, len(out)) == p.read_varint(out, 0)


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (p.write_int8, 128),
        (p.write_int32, None),
        (p.write_unsigned_varint, -1),
        (p.write_unsigned_varint, 1 << 32),
        (p.write_varint, 1 << 31),
        (p.write_varlong, 1 << 63),
        (p.write_uuid, b"short"),
        (p.write_string, None),
        (p.write_string, "x" * 32768),
        (p.write_compact_string, "x" * 32768),
        (p.write_bytes, None),
    ],
)
def test_what_cannot_be_written_is_our_mistake(write, value) -> None:
    with pytest.raises(AssertionError):
        write(bytearray(), value)


@pytest.mark.parametrize(
    ("read", "encoded"),
    [
        (p.read_string, "ffff"),
        (p.read_string, "8000"),
        (p.read_compact_string, "00"),
        (p.read_bytes, "ffffffff"),
        (p.read_compact_bytes, "00"),
    ],
)
def test_null_is_refused_where_it_is_not_allowed(read: p.Reader[object], encoded: str) -> None:
    with pytest.raises(ProtocolError, match="null"):
        read(bytes.fromhex(encoded), 0)


def test_any_negative_length_is_null_as_in_kafka() -> None:
    assert p.read_nullable_string(b"\x80\x00", 0) == (None, 2)
    assert p.read_nullable_bytes(b"\x80\x00\x00\x00", 0) == (None, 4)


def test_a_string_is_utf8() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        p.read_string(b"\x00\x02\xc3\x28", 0)
    with pytest.raises(ProtocolError, match="UTF-8"):
        p.read_compact_string(b"\x02\xff", 0)


def test_a_compact_string_is_no_longer_than_a_plain_one() -> None:
    longest, too_long = bytearray(), bytearray()
    p.write_compact_bytes(longest, b"x" * 32767)
    p.write_compact_bytes(too_long, b"x" * 32768)
    assert p.read_compact_string(longest, 0) == ("x" * 32767, len(longest))
    with pytest.raises(ProtocolError, match="exceeds 32767"):
        p.read_compact_string(too_long, 0)


def test_an_announced_length_claims_no_memory() -> None:
    with pytest.raises(ProtocolError, match="needs 2147483647 bytes, but 1 are left"):
        p.read_bytes(b"\x7f\xff\xff\xffx", 0)
    with pytest.raises(ProtocolError, match="needs 4294967294 bytes, but 0 are left"):
        p.read_compact_nullable_bytes(b"\xff\xff\xff\xff\x0f", 0)


def test_a_count_is_checked_against_the_bytes_left() -> None:
    p.check_count(3, bytes(10), 4, item_bytes_min=2)
    with pytest.raises(ProtocolError, match="an array of 4 items at byte 4 needs 8 bytes, but 6 are left"):
        p.check_count(4, bytes(10), 4, item_bytes_min=2)


def test_tagged_fields_in_order_repeated_and_unknown() -> None:
    out = bytearray()
    p.write_tagged_fields(out, [(0, b"ab"), (300, b""), (0, b"c")])
    assert out.hex() == "03" + "00026162" + "ac0200" + "000163"
    for make in (bytes, memoryview):
        data = make(out)
        assert p.read_tagged_fields(data, 0) == ([(0, 3, 5), (300, 8, 8), (0, 10, 11)], 11)
        assert p.skip_tagged_fields(data, 0) == 11
        for size in range(len(data)):
            with pytest.raises(ProtocolError):
                p.skip_tagged_fields(data[:size], 0)
    assert p.skip_tagged_fields(b"\x00", 0) == 1


def test_the_count_of_tagged_fields_claims_no_memory() -> None:
    with pytest.raises(ProtocolError, match="4294967295 items"):
        p.read_tagged_fields(b"\xff\xff\xff\xff\x0f", 0)


READERS = sorted({(name, read) for name, read in vars(p).items() if name.startswith("read_")}, key=lambda r: r[0])


@pytest.mark.parametrize(("name", "read"), READERS, ids=[name for name, _ in READERS])
def test_noise_is_read_or_refused_and_nothing_else(name: str, read: p.Reader[object]) -> None:
    chance = random.Random(name)
    for _ in range(500):
        data: Buffer = chance.randbytes(chance.randint(0, 24))
        try:
            _, end = read(data, chance.randint(0, 3))
        except ProtocolError:
            continue
        assert end <= len(data)
