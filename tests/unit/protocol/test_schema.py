"""The codec on small tables made for the purpose; the real ones are held to other implementations in tests/golden."""

import pytest

from headrace.errors import ApiError, ErrorCode, ProtocolError
from headrace.protocol.primitives import write_compact_length, write_int32
from headrace.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT32,
    UUID,
    ApiMessages,
    Array,
    F,
    Message,
    Struct,
)


def message(*fields: F, versions: tuple[int, int] = (0, 9), flexible_since: int = 5) -> Message:
    return Message(
        "Test request",
        fields,
        version_min=versions[0],
        version_max=versions[1],
        flexible_since=flexible_since,
    )


def test_neighbouring_numbers_are_laid_out_one_after_the_other() -> None:
    table = message(
        F("flag", BOOL), F("a", INT8), F("b", INT16), F("c", INT32), F("d", INT64), F("e", UINT16), F("f", UINT32),
        F("g", FLOAT64), F("id", UUID),
    )  # fmt: skip
    value = {
        "flag": True, "a": -1, "b": 2, "c": 3, "d": 4, "e": 65535, "f": 1, "g": 1.0, "id": b"0123456789abcdef",
    }  # fmt: skip
    encoded = "01ff0002000000030000000000000004ffff000000013ff0000000000000" + (b"0123456789abcdef".hex())
    assert table.encode(value, 0).hex() == encoded
    assert table.encode(value, 5).hex() == encoded + "00"
    assert table.decode(bytes.fromhex(encoded), 0) == value


def test_strings_bytes_and_arrays_change_their_lengths_with_flexible_versions() -> None:
    table = message(F("name", STRING), F("raw", BYTES), F("ids", Array(INT32)), F("names", Array(STRING)))
    value = {"name": "n", "raw": b"r", "ids": [1], "names": ["a", "b"]}
    assert table.encode(value, 4).hex() == (
        "00016e" + "0000000172" + "0000000100000001" + "00000002" + "000161" + "000162"
    )
    assert table.encode(value, 5).hex() == "026e" + "0272" + "0200000001" + "03" + "0261" + "0262" + "00"


def test_a_field_lives_from_since_to_until() -> None:
    table = message(F("old", INT8, until=1, default=-1), F("new", INT8, since=3, default=-3), F("ever", INT8))
    value = {"old": 1, "new": 2, "ever": 3}
    assert [table.encode(value, version).hex() for version in range(5)] == [
        "0103",
        "0103",
        "03",
        "0203",
        "0203",
    ]
    assert table.decode(b"\x03", 2) == {"old": -1, "new": -3, "ever": 3}
    assert table.decode(b"\x01\x03", 1) == {"old": 1, "new": -3, "ever": 3}


def test_missing_keys_are_written_as_defaults() -> None:
    table = message(
        F("number", INT32, default=7),
        F("name", STRING),
        F("rack", STRING, nullable_since=0, default=None),
        F("ids", Array(INT32)),
        F("leader", Struct(F("epoch", INT16, default=-1))),
        F("cursor", Struct(F("at", INT16)), nullable_since=0, default=None),
    )
    defaults = {"number": 7, "name": "", "rack": None, "ids": [], "leader": {"epoch": -1}, "cursor": None}
    assert table.encode({}, 0) == table.encode(defaults, 0)
    assert table.decode(table.encode({}, 0), 0) == defaults
    assert table.encode({"cursor": {}}, 0)[-3:].hex() == "010000"


def test_defaults_that_can_change_are_never_shared() -> None:
    table = message(F("ids", Array(INT32), since=9), F("leader", Struct(F("epoch", INT16)), since=9))
    first, second = table.decode(b"", 0), table.decode(b"", 0)
    first["ids"].append(1)
    first["leader"]["epoch"] = 1
    assert second == {"ids": [], "leader": {"epoch": 0}} == table.decode(b"", 0)


@pytest.mark.parametrize(
    ("type_", "plain", "compact"),
    [
        (STRING, "ffff", "00"),
        (BYTES, "ffffffff", "00"),
        (Array(INT32), "ffffffff", "00"),
        (Array(F("x", STRING)), "ffffffff", "00"),
        (Struct(F("x", INT8)), "ff", "ff"),
    ],
    ids=["string", "bytes", "numbers", "structs", "struct"],
)
def test_null_from_the_version_that_allows_it(type_, plain: str, compact: str) -> None:
    table = message(F("x", type_, nullable_since=3))
    assert table.encode({"x": None}, 4).hex() == plain
    assert table.decode(bytes.fromhex(plain), 4) == {"x": None}
    assert table.encode({"x": None}, 5).hex() == compact + "00"
    assert table.decode(bytes.fromhex(compact + "00"), 5) == {"x": None}
    with pytest.raises(AssertionError):
        table.encode({"x": None}, 2)
    if not isinstance(type_, Struct):  # A struct that cannot be null has no byte to say so.
        with pytest.raises(ProtocolError, match="null, which is not allowed here"):
            table.decode(bytes.fromhex(plain), 2)


def test_array_items_are_never_null() -> None:
    table = message(F("names", Array(STRING), nullable_since=0))
    with pytest.raises(ProtocolError, match="null"):
        table.decode(bytes.fromhex("00000001ffff"), 0)
    with pytest.raises(AssertionError):
        table.encode({"names": [None]}, 0)


def test_a_nullable_struct_is_there_unless_its_byte_is_negative() -> None:
    table = message(F("x", Struct(F("y", INT8)), nullable_since=0))
    assert table.encode({"x": {"y": 5}}, 0).hex() == "0105"
    assert table.decode(b"\x00\x05", 0) == table.decode(b"\x7f\x05", 0) == {"x": {"y": 5}}
    assert table.decode(b"\x80", 0) == {"x": None}


TAGGED = message(
    F("plain", INT8),
    F("list", Array(INT8), since=5, tag=2),
    F("number", INT8, since=5, tag=0, default=-1),
    F("name", STRING, since=6, tag=1, nullable_since=6, default=None),
    F("leader", Struct(F("id", INT8, default=-1), F("deep", INT8, since=5, tag=0)), since=5, tag=3),
)
TAGGED_DEFAULTS = {"plain": 0, "list": [], "number": -1, "name": None, "leader": {"id": -1, "deep": 0}}


def test_tagged_fields_at_their_defaults_are_not_written() -> None:
    assert TAGGED.encode(TAGGED_DEFAULTS, 6).hex() == "0000"
    assert TAGGED.encode({}, 6).hex() == "0000"
    assert TAGGED.encode({"leader": {"id": -1}}, 6).hex() == "0000"
    assert TAGGED.encode({"leader": {}}, 6).hex() == "0000"
    assert TAGGED.encode({"list": ()}, 6).hex() == "0000"
    assert TAGGED.decode(b"\x00\x00", 6) == TAGGED_DEFAULTS


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    value = {"plain": 1, "list": [9], "number": 2, "name": "n", "leader": {"id": 3, "deep": 4}}
    encoded = "01" + "04" + "000102" + "0102026e" + "02020209" + "0305" + "03" + "01" + "000104"
    assert TAGGED.encode(value, 6).hex() == encoded
    assert TAGGED.decode(bytes.fromhex(encoded), 6) == value


def test_a_tag_of_a_later_version_is_unknown_and_skipped() -> None:
    assert TAGGED.encode({"name": "n"}, 5).hex() == "0000"
    assert TAGGED.decode(bytes.fromhex("00" + "01" + "0102026e"), 5) == TAGGED_DEFAULTS


def test_unknown_tags_are_skipped_wherever_they_stand() -> None:
    encoded = "00" + "03" + "63024142" + "000105" + "ff7f00"
    assert TAGGED.decode(bytes.fromhex(encoded), 6) == {**TAGGED_DEFAULTS, "number": 5}


def test_of_a_tag_sent_twice_the_second_counts() -> None:
    assert TAGGED.decode(bytes.fromhex("00" + "02" + "000105" + "000106"), 6)["number"] == 6


@pytest.mark.parametrize("field", ["00020506", "0000", "02020405"], ids=["too long", "too short", "list runs out"])
def test_a_tagged_field_fills_exactly_its_size(field: str) -> None:
    # Enough bytes follow, so that only the announced size can be what is wrong.
    with pytest.raises(ProtocolError):
        TAGGED.decode(bytes.fromhex("00" + "01" + field + "00" * 20), 6)


def test_versions_before_flexible_ones_have_no_tagged_fields_at_all() -> None:
    assert TAGGED.encode({"plain": 1, "number": 5}, 4).hex() == "01"
    assert TAGGED.decode(b"\x01", 4) == {**TAGGED_DEFAULTS, "plain": 1}


def test_a_field_that_must_not_be_ignored_is_refused_by_versions_without_it() -> None:
    table = message(F("validate_only", BOOL, since=1, ignorable=False), F("hint", BOOL, since=1))
    with pytest.raises(ApiError, match="Test request version 0 cannot carry validate_only=True") as caught:
        table.encode({"validate_only": True}, 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert table.encode({"validate_only": False, "hint": True}, 0) == b""
    assert table.encode({"validate_only": True}, 1) == b"\x01\x00"


def test_our_own_mistakes_name_the_message() -> None:
    table = message(F("a", INT16), F("b", Array(F("c", STRING))))
    for mistake in (
        {"nonsense": 1},
        {"b": [{"nonsense": 1}]},
        {"a": None},
        {"a": 70_000},
        {"a": "1"},
        {"b": 5},
        {"b": [{"c": 5}]},
        {"b": [5]},
    ):
        with pytest.raises(AssertionError, match="Test request v0 cannot be written"):
            table.encode(mistake, 0)
    with pytest.raises(AssertionError, match="Test request has no version 10"):
        table.encode({}, 10)
    with pytest.raises(AssertionError, match="Test request has no version 10"):
        table.decode(b"", 10)


def test_errors_of_the_peer_name_the_message_its_version_and_the_place() -> None:
    table = message(F("a", INT16), F("b", INT16), F("name", STRING))
    with pytest.raises(ProtocolError, match=r"^Test request v3: a, b at byte 0 needs 4 bytes, but 3 are left$"):
        table.decode(b"abc", 3)
    with pytest.raises(ProtocolError, match=r"^Test request v3: string at byte 6 needs 9 bytes, but 1 are left$"):
        table.decode(b"abcd\x00\x09x", 3)


@pytest.mark.parametrize(
    ("of", "version", "item_bytes_min"),
    [
        ((INT64,), 0, 8),
        ((STRING,), 0, 2),
        ((STRING,), 5, 1),
        ((BYTES,), 0, 4),
        ((UUID,), 0, 16),
        ((Array(INT8),), 0, 4),
        ((F("x", INT32), F("y", STRING)), 0, 6),
        ((F("x", INT32), F("y", STRING)), 5, 6),
        ((F("x", INT32, since=9), F("y", STRING)), 5, 2),
        ((F("x", Struct(F("y", INT64)), nullable_since=0),), 0, 1),
        ((F("x", Struct(F("y", INT64))),), 0, 8),
        ((F("gone", INT32, until=2),), 3, 1),
    ],
)
def test_a_count_never_exceeds_what_the_bytes_left_could_hold(of, version: int, item_bytes_min: int) -> None:
    table = message(F("items", Array(*of)))
    count = 1_000_000
    announced = bytearray()
    (write_compact_length if version >= 5 else write_int32)(announced, count)
    needed = count * item_bytes_min
    with pytest.raises(ProtocolError, match=f"an array of {count} items at byte .* needs {needed} bytes, but 5 are"):
        table.decode(announced + bytes(5), version)


def test_tables_are_checked_when_they_are_made() -> None:
    with pytest.raises(AssertionError, match="named twice"):
        Struct(F("a", INT8), F("a", INT8))
    with pytest.raises(AssertionError, match="made of fields"):
        Array(INT8, F("a", INT8))
    with pytest.raises(AssertionError, match="only flexible versions"):
        message(F("a", INT8, tag=0)).decode(b"", 0)


def test_both_directions_of_an_api_share_its_versions() -> None:
    api = ApiMessages(
        key=7,
        name="Shine",
        versions=(1, 3),
        flexible_since=2,
        request=(F("a", INT8),),
        response=(F("b", INT8),),
    )
    assert (api.key, api.version_min, api.version_max, api.flexible_since) == (7, 1, 3, 2)
    assert (api.request.name, api.response.name) == ("Shine request", "Shine response")
    assert api.request.encode({"a": 1}, 1) == b"\x01"
    assert api.response.encode({"b": 1}, 2) == b"\x01\x00"
