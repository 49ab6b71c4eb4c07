import pytest

from headrace.errors import ProtocolError
from headrace.protocol.header import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
    request_header_version,
    response_header_version,
)

PRODUCE, METADATA, API_VERSIONS, JOIN_GROUP_OF_A_LATER_WORLD = 0, 3, 18, 32_000


@pytest.mark.parametrize(
    ("api_key", "api_version", "client_id", "encoded"),
    [
        (METADATA, 8, "me", "000300080000000700026d65"),
        (METADATA, 9, "me", "000300090000000700026d6500"),
        (METADATA, 9, None, "0003000900000007ffff00"),
        (METADATA, 8, "", "00030008000000070000"),
        (API_VERSIONS, 2, "me", "001200020000000700026d65"),
        (API_VERSIONS, 3, "me", "001200030000000700026d6500"),
    ],
)
def test_request_headers_whole_cut_and_followed(api_key, api_version, client_id, encoded) -> None:
    data = bytes.fromhex(encoded)
    assert (
        encode_request_header(api_key=api_key, api_version=api_version, correlation_id=7, client_id=client_id) == data
    )
    for make in (bytes, memoryview):
        parsed = (api_key, api_version, 7, client_id)
        assert parse_request_header(make(data)) == (*parsed, len(data))
        assert parse_request_header(make(data + b"body")) == (*parsed, len(data))
        assert parse_request_header(make(b"1234" + data + b"body"), 4) == (*parsed, len(data) + 4)
        for size in range(len(data)):
            with pytest.raises(ProtocolError):
                parse_request_header(make(data[:size]))


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    data = encode_request_header(api_key=PRODUCE, api_version=9, correlation_id=1, client_id=None)
    tagged = data[:-1] + bytes.fromhex("02000212346300")
    assert parse_request_header(tagged + b"body") == (PRODUCE, 9, 1, None, len(tagged))


def test_an_unknown_key_or_version_still_has_a_readable_header() -> None:
    """So that whoever judges them can answer with the right correlation id."""
    data = bytes.fromhex("7d0000630000002a000161")
    assert parse_request_header(data) == (JOIN_GROUP_OF_A_LATER_WORLD, 99, 42, "a", len(data))
    data = bytes.fromhex("001200630000002a00016100")
    assert parse_request_header(data) == (API_VERSIONS, 99, 42, "a", len(data))


def test_a_client_id_is_utf8_and_any_negative_length_is_null() -> None:
    with pytest.raises(ProtocolError, match="client id is not UTF-8"):
        parse_request_header(bytes.fromhex("00030000000000070001ff"))
    assert parse_request_header(bytes.fromhex("00030000000000078000")) == (3, 0, 7, None, 10)


@pytest.mark.parametrize(
    ("api_key", "api_version", "request_version", "response_version"),
    [
        (PRODUCE, 8, 1, 0),
        (PRODUCE, 9, 2, 1),
        (METADATA, 0, 1, 0),
        (METADATA, 13, 2, 1),
        (API_VERSIONS, 0, 1, 0),
        (API_VERSIONS, 4, 2, 0),
        (API_VERSIONS, 99, 2, 0),
        (JOIN_GROUP_OF_A_LATER_WORLD, 99, 1, 0),
    ],
)
def test_header_versions_follow_the_tables(api_key, api_version, request_version, response_version) -> None:
    assert request_header_version(api_key, api_version) == request_version
    assert response_header_version(api_key, api_version) == response_version


@pytest.mark.parametrize(
    ("api_key", "api_version", "encoded"),
    [
        (METADATA, 8, "00000007"),
        (METADATA, 9, "0000000700"),
        (API_VERSIONS, 4, "00000007"),
    ],
)
def test_response_headers_whole_cut_and_followed(api_key, api_version, encoded) -> None:
    api = {"api_key": api_key, "api_version": api_version}
    data = bytes.fromhex(encoded)
    assert encode_response_header(correlation_id=7, **api) == data
    assert parse_response_header(data, **api) == (7, len(data))
    assert parse_response_header(data + b"body", **api) == (7, len(data))
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            parse_response_header(data[:size], **api)
