"""The optional HTTP port: `/metrics` for Prometheus, `/requests` for whoever fits models to them, and `/healthz` for
whoever watches the process.

Deliberately small: GET and HEAD, one request a connection, no body, every size, time and number of connections
bounded. It shares the node's loop, so whatever it does for a stranger it does to everybody's latency; anything more
than this belongs into a process of its own.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from headrace.errors import ConfigError
from headrace.server.options import HostPort
from headrace.server.prometheus import CONTENT_TYPE, Metric, render_each

HEAD_BYTES_MAX: Final = 8 << 10
EXCHANGE_S_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 32

_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


class Answer(NamedTuple):
    status: int
    body: str
    content_type: str = _TEXT


Collect = Callable[[], Iterable[Metric]]
# What is wrong with the node, or None.
FindFault = Callable[[], str | None]
# The parts of a page of JSON. It is told whether somebody begins to count with it, who was not there before.
TellRequests = Callable[[bool], Iterable[str]]


class HttpRefusal(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = Answer(status, f"{text}\n")


class Request(NamedTuple):
    method: str
    path: str
    query: str = ""


def parse_request(head: bytes) -> Request:
    """The request that a head (up to and with its empty line) makes, or HttpRefusal."""
    try:
        first, *fields = head.decode("ascii").split("\r\n")[:-2]
    except UnicodeDecodeError as error:
        raise HttpRefusal(400, "a request is written in ASCII") from error
    words = first.split(" ")
    if len(words) != 3 or not words[0].isalpha() or not words[1].startswith("/"):
        raise HttpRefusal(400, "the first line is not METHOD /PATH HTTP/1.1")
    method, target, version = words
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpRefusal(505, "HTTP/1.0 and HTTP/1.1 are spoken here")
    if method not in ("GET", "HEAD"):
        raise HttpRefusal(405, "only GET and HEAD are served")
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpRefusal(400, "a header is not NAME: VALUE")
        has_body = name.lower() == "content-length" and value.strip() != "0"
        if has_body or name.lower() == "transfer-encoding":
            raise HttpRefusal(413, "a request here has no body")
    path, _, query = target.partition("?")
    return Request(method, path, query)


def _no_requests(begins: bool) -> Iterable[str]:
    return ("{}\n",)


async def answer_request(
    path: str, query: str, *, collect: Collect, find_fault: FindFault, tell_requests: TellRequests = _no_requests
) -> Answer:
    if path == "/metrics":
        return Answer(200, await _page(render_each(collect())), CONTENT_TYPE)
    if path == "/requests":
        return Answer(200, await _page(tell_requests(query == "begin")), _JSON)
    if path == "/healthz":
        fault = find_fault()
        return Answer(200, "ok\n") if fault is None else Answer(503, f"{fault}\n")
    raise HttpRefusal(404, "there is /metrics, /requests and /healthz")


async def _page(parts: Iterable[str]) -> str:
    """The node takes its turn after each part: the whole page is several milliseconds' work."""
    texts = []
    for text in parts:
        texts.append(text)
        await asyncio.sleep(0)
    return "".join(texts)


def encode_answer(answer: Answer, *, with_body: bool) -> bytes:
    body = answer.body.encode()
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        + ("Allow: GET, HEAD\r\n" if answer.status == 405 else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


def _always_well() -> None:
    return None


class HttpServer:
    """Begun by `serve_http`, ended by `close`."""

    def __init__(self, collect: Collect, find_fault: FindFault, tell_requests: TellRequests) -> None:
        self._collect = collect
        self._find_fault = find_fault
        self._tell_requests = tell_requests
        self._server: asyncio.Server | None = None
        self._exchanges: set[asyncio.Task[None]] = set()
        self.address = HostPort("", 0)

    async def start(self, address: HostPort) -> None:
        try:
            self._server = await asyncio.start_server(
                self._on_connect, address.host or "0.0.0.0", address.port, limit=HEAD_BYTES_MAX
            )
        except OSError as error:
            raise ConfigError(f"cannot serve HTTP on {address}: {error.strerror or error}") from error
        self.address = HostPort(address.host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for exchange in tuple(self._exchanges):
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._exchanges) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        exchange = asyncio.get_running_loop().create_task(self._exchange(reader, writer))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer. Whoever dawdles is cut off."""
        try:
            with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(EXCHANGE_S_MAX):
                    writer.write(await self._answer_bytes(reader))
                    writer.write_eof()
                    await writer.drain()
                    # Until the peer has read it all: to close with input unread would reset the connection, and
                    # the answer with it.
                    while await reader.read(HEAD_BYTES_MAX):
                        pass
        finally:
            writer.transport.abort()

    async def _answer_bytes(self, reader: asyncio.StreamReader) -> bytes:
        method = "GET"
        try:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError as error:
                raise HttpRefusal(431, f"a request head is at most {HEAD_BYTES_MAX} bytes") from error
            method, path, query = parse_request(head)
            answer = await answer_request(
                path, query, collect=self._collect, find_fault=self._find_fault, tell_requests=self._tell_requests
            )
        except HttpRefusal as refusal:
            answer = refusal.answer
        return encode_answer(answer, with_body=method != "HEAD")


async def serve_http(
    address: HostPort,
    collect: Collect,
    find_fault: FindFault = _always_well,
    tell_requests: TellRequests = _no_requests,
) -> HttpServer:
    """Serve until closed; ConfigError where the address cannot be had."""
    server = HttpServer(collect, find_fault, tell_requests)
    await server.start(address)
    return server
