import pytest

from headrace.audit.stamps import BadStamp, SpanId, Stamp, check_name, encode_stamp, nameable, parse_stamp, stamp_prefix
from headrace.errors import ConfigError

STAMP = Stamp(SpanId("web-7", 1_763_247_600_000_123, 12), "host-a.example", 4711, 1_763_247_601_234)


def test_a_stamp_is_plain_text() -> None:
    encoded = b"1;web-7;1763247600000123;12;host-a.example;4711;1763247601234"
    assert encode_stamp(STAMP) == encoded
    assert parse_stamp(encoded) == STAMP


def test_a_prefix_is_completed_by_sequence_and_time() -> None:
    assert f"{stamp_prefix(STAMP.span, host=STAMP.host)}4711;1763247601234".encode() == encode_stamp(STAMP)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"2;web-7;1;12;host;4711;5",
        b"1;web-7;1;12;host;4711",
        b"1;web-7;1;12;host;4711;5;6",
        b"1;web-7;1;12;host;-1;5",
        b"1;web-7;1;12;host;;5",
        b"1;web-7;1;12;host; 4;5",
        b"1;web-7;1;12;host;9223372036854775808;5",
    ],
)
def test_anything_else_is_no_stamp(value: bytes | None) -> None:
    with pytest.raises(BadStamp):
        parse_stamp(value)


@pytest.mark.parametrize("name", ["", "a;b", "a b", "ä", "x" * 201, "a\n"])
def test_names_that_do_not_fit_into_a_stamp_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="producer_id="):
        check_name(name, word="producer_id")
    assert check_name(nameable(name), word="producer_id")


def test_names_that_fit_stay_as_they_are() -> None:
    assert check_name("Web_7.a:b-c", word="producer_id") == nameable("Web_7.a:b-c") == "Web_7.a:b-c"
