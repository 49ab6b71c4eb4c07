"""Request and response headers.

Written by hand: every request passes through here, Produce and Fetch too. Which header a message carries
follows from its API and version: flexible versions have tagged fields in both, with one exception. The
ApiVersions response keeps the old header for ever, because a client reads it before it knows what the broker
speaks.

Header version 0 of requests, which only ControlledShutdown of long ago used, is not here.
"""

import struct
from typing import Final

from headrace.errors import ProtocolError
from headrace.ports import Buffer
from headrace.protocol import primitives as p
from headrace.protocol.messages import MESSAGES, api_versions

_REQUEST: Final = struct.Struct(">hhih")  # API key, API version, correlation id, length of the client id.
_RESPONSE: Final = struct.Struct(">i")
_API_VERSIONS: Final = api_versions.API.key
_FLEXIBLE_SINCE: Final = {api.key: api.flexible_since for api in MESSAGES.values()}
_NEVER: Final = 0x8000  # Above any version.


def request_header_version(api_key: int, api_version: int) -> int:
    """2 with tagged fields, 1 without. A key without a table gets 1, the part that is always there."""
    return 2 if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1 with tagged fields, 0 without."""
    if api_key == _API_VERSIONS:
        return 0
    return 1 if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER) else 0


def parse_request_header(data: Buffer, position: int = 0) -> tuple[int, int, int, str | None, int]:
    """(API key, API version, correlation id, client id, position of the body).

    A plain tuple, since this is on the path of every request. Neither key nor version is judged here.
    """
    try:
        api_key, api_version, correlation_id, size = _REQUEST.unpack_from(data, position)
    except struct.error:
        raise p.too_short("request header", need_bytes=_REQUEST.size, data=data, position=position) from None
    start = position = position + _REQUEST.size
    client_id: str | None = None
    # The client id has a plain length in every version: the broker must read it before it knows the version.
    if size >= 0:
        position = start + size
        if position > len(data):
            raise p.too_short("client id", need_bytes=size, data=data, position=start)
        try:
            client_id = str(data[start:position], "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"client id is not UTF-8: {error.reason}") from None
    if api_version >= _FLEXIBLE_SINCE.get(api_key, _NEVER):
        position = p.skip_tagged_fields(data, position)
    return api_key, api_version, correlation_id, client_id, position


def encode_request_header(*, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    out = bytearray()
    p.write_int16(out, api_key)
    p.write_int16(out, api_version)
    p.write_int32(out, correlation_id)
    p.write_nullable_string(out, client_id)
    if request_header_version(api_key, api_version) == 2:
        p.write_tagged_fields(out, [])
    return bytes(out)


def parse_response_header(data: Buffer, *, api_key: int, api_version: int) -> tuple[int, int]:
    """(Correlation id, position of the body) of the answer to a request of this API and version."""
    correlation_id, position = p.read_int32(data, 0)
    if response_header_version(api_key, api_version) == 1:
        position = p.skip_tagged_fields(data, position)
    return correlation_id, position


def encode_response_header(*, api_key: int, api_version: int, correlation_id: int) -> bytes:
    header = _RESPONSE.pack(correlation_id)
    return header + b"\0" if response_header_version(api_key, api_version) == 1 else header
