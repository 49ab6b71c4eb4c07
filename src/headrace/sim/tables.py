"""Requests of any kind, sent by a simulated client and read through the message tables."""

from collections.abc import Callable
from typing import Any

from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.schema import ApiMessages
from headrace.sim.machine import Connection

Message = dict[str, Any]


def ask(
    connection: Connection,
    messages: ApiMessages,
    version: int,
    request: Message,
    answered: Callable[[Message | None], None],
) -> None:
    """`answered(None)` where the connection broke before."""
    header = encode_request_header(api_key=messages.key, api_version=version, correlation_id=0, client_id=None)

    def read(answer: bytes | None) -> None:
        if answer is None:
            answered(None)
            return
        _, position = parse_response_header(answer[4:], api_key=messages.key, api_version=version)
        response, _ = messages.response.read(answer[4:], version, position)
        answered(response)

    connection.send(bytearray(header + messages.request.encode(request, version)), read)
