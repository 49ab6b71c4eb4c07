"""One request over a plain socket, for what librdkafka has no words for.

It goes through neither TLS nor SASL; whoever asks decides whether that is a reason to fail.
"""

import socket
from collections.abc import Mapping
from typing import Any, Final

from headrace.cli.connection import Connection
from headrace.errors import ProtocolError
from headrace.protocol.frames import FrameReader, frame
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.schema import ApiMessages

_ANSWER_BYTES_MAX: Final = 64 << 20
_RECEIVE_BYTES: Final = 1 << 16

Address = tuple[str, int]


def is_plain(cluster: Connection) -> bool:
    return cluster.settings.get("security.protocol", "plaintext").lower() == "plaintext"


def ask(
    address: Address, api: ApiMessages, body: Mapping[str, Any], *, version: int, timeout_s: float
) -> Mapping[str, Any]:
    """The answer's fields; OSError or ProtocolError where there is none."""
    header = encode_request_header(api_key=api.key, api_version=version, correlation_id=0, client_id="headrace")
    answers = FrameReader(frame_bytes_max=_ANSWER_BYTES_MAX)
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.sendall(frame((header, api.request.encode(body, version))))
        while (answer := answers.next_frame()) is None:
            received = connection.recv(_RECEIVE_BYTES)
            if not received:
                raise ProtocolError(f"{address[0]}:{address[1]} closed the connection")
            answers.receive(received)
    _, position = parse_response_header(answer, api_key=api.key, api_version=version)
    return api.response.decode(answer, version, position)
