"""A raw socket to a broker: bytes out, and what came of them.

A request ends in one of three ways, and a broker that picks another way than Kafka does is a difference like
any other: an answer, a closed connection, or silence.
"""

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.conformance.schemas import (
    Message,
    decode,
    encode,
    request_header_version,
    response_header_version,
    schema,
)

ANSWER_TIMEOUT_S = 10.0
CLIENT_ID = "conformance"


@dataclass(frozen=True, slots=True)
class Answered:
    data: bytes
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Closed:
    pass


@dataclass(frozen=True, slots=True)
class Silent:
    pass


Outcome = Answered | Closed | Silent


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request_bytes(api: str, version: int, body: Message, *, correlation_id: int = 7) -> bytes:
    """Header and body, without the length in front."""
    header = {
        "request_api_key": schema(f"{api}Request").api_key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": CLIENT_ID,
    }
    head = encode("RequestHeader", request_header_version(api, version), header)
    return head + encode(f"{api}Request", version, body)


def read_answer(api: str, version: int, data: bytes) -> Message:
    """The answer with its header; bytes left over are kept in sight."""
    header, position = decode("ResponseHeader", response_header_version(api, version), data)
    body, end = decode(f"{api}Response", version, data, position)
    answer: dict[str, Any] = {"header": header, **body}
    if end != len(data):
        answer["trailing"] = data[end:]
    return answer


class Connection:
    """One connection, opened on first use and again after the broker closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, api: str, version: int, body: Message) -> Message:
        """A request that must be answered."""
        outcome = self.exchange(frame(request_bytes(api, version, body)))
        assert isinstance(outcome, Answered), f"{api} v{version}: {outcome}"
        return read_answer(api, version, outcome.data)

    def exchange_all(self, requests: Sequence[bytes], *, timeout_s: float = ANSWER_TIMEOUT_S) -> list[Outcome]:
        """Send frames without waiting in between; then wait for as many answers, as they come."""
        outcomes = [self.exchange(b"".join(requests), timeout_s=timeout_s)]
        while len(outcomes) < len(requests) and isinstance(outcomes[-1], Answered):
            outcomes.append(self.exchange(b"", timeout_s=timeout_s))
        return outcomes

    def exchange(self, data: bytes, *, timeout_s: float = ANSWER_TIMEOUT_S, chunk_bytes: int | None = None) -> Outcome:
        """Send bytes as they are, and wait for one frame, the end of the connection, or the time-out."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=ANSWER_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        start_s = time.monotonic()
        try:
            for position in range(0, len(data), chunk_bytes or len(data) or 1):
                self._socket.sendall(data[position : position + (chunk_bytes or len(data))])
            size = self._receive(4)
            answer = self._receive(struct.unpack(">i", size)[0]) if size is not None else None
        except TimeoutError:
            self.close()  # A late answer must not pass for the next one's.
            return Silent()
        except OSError:
            answer = None
        if answer is None:
            self.close()
            return Closed()
        return Answered(answer, time.monotonic() - start_s)

    def _receive(self, size: int) -> bytes | None:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                return None
            data += piece
        return bytes(data)
