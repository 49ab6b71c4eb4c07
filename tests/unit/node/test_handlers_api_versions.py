import pytest

from headrace.errors import ErrorCode, ProtocolError
from headrace.node.handlers import APIS
from headrace.protocol.header import encode_request_header
from tests.unit.node.driven_node import CLIENT, DrivenNode


def advertised(answer: dict[str, object]) -> dict[int, tuple[int, int]]:
    keys = answer["api_keys"]
    assert isinstance(keys, list)
    return {one["api_key"]: (one["min_version"], one["max_version"]) for one in keys}


@pytest.mark.parametrize("version", range(5))
def test_tells_the_table(version: int) -> None:
    answer = DrivenNode().ask("ApiVersions", version, client_software_name="a-b.c", client_software_version="1.0-rc.1")
    assert answer["error_code"] == 0
    assert advertised(answer).keys() == APIS.keys()
    for key, (first, last) in advertised(answer).items():
        assert first <= APIS[key].version_min
        assert last == APIS[key].version_max


def test_produce_is_advertised_from_0_for_librdkafka_would_not_compress_otherwise() -> None:
    assert advertised(DrivenNode().ask("ApiVersions", 0))[0] == (0, 13)
    assert APIS[0].version_min == 3


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_newer_version_is_answered_in_the_shape_of_the_oldest(version: int) -> None:
    header = encode_request_header(api_key=18, api_version=version, correlation_id=7, client_id="x")
    parts = DrivenNode().node.handle(memoryview(header + b"a body nobody knows"), CLIENT)
    assert parts == [bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0004")]


def test_a_newer_version_in_the_header_of_an_old_one_cannot_be_read() -> None:
    header = encode_request_header(api_key=18, api_version=2, correlation_id=7, client_id="x")
    frame = header[:2] + (5).to_bytes(2, "big") + header[4:]
    with pytest.raises(ProtocolError):
        DrivenNode().node.handle(memoryview(frame), CLIENT)


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("x", ""), ("-a", "1"), ("a b", "1"), ("a.", "1"), ("a\n", "1"), ("a", "1\n")]
)
def test_software_with_strange_letters_is_refused(name: str, version: str) -> None:
    node = DrivenNode()
    for api_version in (3, 4):
        answer = node.ask("ApiVersions", api_version, client_software_name=name, client_software_version=version)
        assert answer["error_code"] == ErrorCode.INVALID_REQUEST
        assert answer["api_keys"] == []


def test_older_versions_do_not_name_their_software() -> None:
    assert DrivenNode().ask("ApiVersions", 2)["error_code"] == 0
