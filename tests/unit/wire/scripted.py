"""A broker on a loopback port that does what a test scripts: one function per connection, in a thread of its own."""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from headrace.protocol.frames import frame
from headrace.protocol.header import encode_response_header, parse_request_header
from headrace.protocol.messages import MESSAGES, api_versions
from headrace.protocol.schema import Value
from headrace.wire.settings import Address, ClientSettings

TIMEOUT_S = 20.0

Ranges = Mapping[int, tuple[int, int]]
EVERYTHING: Ranges = {api.key: (api.version_min, api.version_max) for api in MESSAGES.values()}


class Request(NamedTuple):
    api: Any
    version: int
    correlation_id: int
    client_id: str | None
    body: Value


class Gone(Exception):
    """The client has closed the connection."""


class Peer:
    """One connection, as a script sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def read(self) -> Request:
        size = int.from_bytes(self._exactly(4), "big")
        data = memoryview(self._exactly(size))
        key, version, correlation_id, client_id, position = parse_request_header(data)
        api = MESSAGES[key]
        return Request(api, version, correlation_id, client_id, api.request.decode(data, version, position))

    def answer(self, request: Request, body: Mapping[str, Any]) -> None:
        self.socket.sendall(self.encoded(request, body))

    def encoded(self, request: Request, body: Mapping[str, Any], *, version: int | None = None) -> bytes:
        header = encode_response_header(
            api_key=request.api.key, api_version=request.version, correlation_id=request.correlation_id
        )
        written = request.version if version is None else version
        return frame([header, request.api.response.encode(body, written)])

    def greet(self, ranges: Ranges = EVERYTHING) -> None:
        """Answer ApiVersions, which comes first."""
        request = self.read()
        assert request.api is api_versions.API
        keys = [
            {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in sorted(ranges.items())
        ]
        self.answer(request, {"api_keys": keys})

    def wait_closed(self) -> None:
        """Until the client has closed, whatever it says before."""
        while self.socket.recv(65536):
            pass

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise Gone
            data += received
        return bytes(data)


Script = Callable[[Peer], None]


class ScriptedBroker:
    """Scripts are played in the order of the connections; the last one again for every further connection."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        self.connections = 0
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._acceptor = threading.Thread(target=self._accept)

    def settings(self, **changes: Any) -> ClientSettings:
        timeouts = {"connect_timeout_s": TIMEOUT_S, "request_timeout_s": TIMEOUT_S, "retry_backoff_s": 0.001}
        return ClientSettings(**{"bootstrap": (self.address,), **timeouts, **changes})

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(TIMEOUT_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "a script still waits"
        if kind is None and self._failures:
            raise self._failures[0]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            script = self._scripts[min(self.connections, len(self._scripts) - 1)]
            self.connections += 1
            thread = threading.Thread(target=self._play, args=(script, connection))
            self._threads.append(thread)
            thread.start()

    def _play(self, script: Script, connection: socket.socket) -> None:
        connection.settimeout(TIMEOUT_S)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            script(Peer(connection))
        except (Gone, OSError):
            pass  # The client has what it wanted, or does not want this broker.
        except BaseException as failure:
            self._failures.append(failure)
        finally:
            connection.close()
