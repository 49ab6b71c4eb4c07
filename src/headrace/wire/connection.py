"""One connection to one broker: requests out, answers in, over a blocking socket.

    with Connection(Address("localhost", 9092), settings) as connection:
        answer = connection.call(metadata.API, {"topics": None})

It opens itself when first used: TCP, TLS, ApiVersions, SASL. Every request goes at the highest version that both
sides know. `call` waits for its answer; `send` and `receive` let several requests be under way, which brokers answer
in order. An answer is received into one buffer of its own, and `receive_frame` hands that out as it is, so that
whoever parses it can keep views instead of copies.

Rules:

- Any thread may use it, one at a time; `close` alone interrupts whoever is waiting, who gets `ConnectionClosed`.
- A connection that failed stays failed. After a timeout too: the answer that comes late must not pass for another.
- An answer that is announced larger than `answer_bytes_max` is refused before a byte of it is read.

What to do about a failure is `wire.cluster`'s to know, and so is what answers mean.
"""

import itertools
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from headrace import __version__
from headrace.errors import ApiError, ErrorCode, HeadraceError, ProtocolError
from headrace.loopback import hasten
from headrace.ports import Buffer
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import api_versions
from headrace.protocol.schema import ApiMessages, Value
from headrace.wire import sockets, tls
from headrace.wire.errors import ConnectionClosed, ConnectionLost, TlsRefused, Unreachable, WireError
from headrace.wire.sasl import authenticate
from headrace.wire.settings import Address, ClientSettings, SaslSettings, TlsSettings

BufferFor = Callable[[int], bytearray]  # At least so many bytes.

_SIZE_BYTES: Final = 4
# What Kafka itself asks for first; a broker that knows only older ones says so in version 0.
_API_VERSIONS_FIRST: Final = 3
_CORRELATIONS: Final = 1 << 31
_RENEWED_AFTER: Final = 0.85  # Of the time that a broker believes us.


class Ticket(NamedTuple):
    """A request that was sent, to receive its answer by."""

    api: ApiMessages
    version: int
    correlation_id: int


class Connection:
    def __init__(self, address: Address, settings: ClientSettings) -> None:
        self.address = address
        self.settings = settings
        self._lock = threading.RLock()  # Held by whoever sends or receives.
        self._state = threading.Lock()  # Never held while waiting: it guards the next two.
        self._users = 0
        self._closing = False
        self._socket: socket.socket | None = None
        self._ranges: Mapping[int, tuple[int, int]] = {}
        self._correlations = itertools.cycle(range(_CORRELATIONS))
        self._waiting: deque[Ticket] = deque()  # Sent and not yet received, in the order of the answers.
        self._arrived: dict[int, memoryview] = {}  # Received before anybody asked for them.
        self._answers = 0
        self._failure: HeadraceError | None = None
        self._opened = False
        self._renewal_s: float | None = None  # When to say again who we are.

    # --- Life --------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and say who we are. Does nothing where that is done; whoever sends need not ask for it."""
        with self._using():
            if not self._opened:
                self._open(time.monotonic() + self.settings.connect_timeout_s)
                self._opened = True

    @property
    def usable(self) -> bool:
        """False once it failed or was closed, also by the broker: then it is for another one to try."""
        with self._state:
            if self._failure is not None or self._closing:
                return False
            taken = self._socket if self._users == 0 and not self._waiting else None
            return taken is None or not sockets.at_end(taken)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._waiting)

    def fileno(self) -> int:
        """To wait for an answer together with other things; `is_answering` then tells."""
        taken = self._socket
        if taken is None:
            raise ConnectionClosed(f"the connection to {self.address} is closed")
        return taken.fileno()

    def is_answering(self) -> bool:
        """Whether `receive` would find something at once: an answer that has begun to arrive, or the end."""
        taken = self._socket
        return bool(self._arrived) or taken is None or sockets.has_data(taken)

    def close(self) -> None:
        """From any thread, at any time, also twice. Who waits for an answer gets `ConnectionClosed`."""
        with self._state:
            self._closing = True
            if self._users == 0:
                self._let_go()
            elif self._socket is not None:
                # Wakes a thread that waits in the kernel. The descriptor stays open until that thread has left: its
                # number, once free, could at once be another file's.
                sockets.shut_down(self._socket)

    # --- Requests ----------------------------------------------------------------------------------------------

    def version_of(self, api: ApiMessages) -> int:
        """The highest version that both sides know."""
        self.open()
        return self._version(api)

    def call(
        self, api: ApiMessages, body: Mapping[str, Any], *, version: int | None = None, timeout_s: float | None = None
    ) -> Value:
        """Ask, and wait for the answer."""
        with self._lock:  # Nobody else's request comes between, so that no answer has to be kept.
            return self.receive(self.send(api, body, version=version), timeout_s=timeout_s)

    def send(
        self, api: ApiMessages, body: Mapping[str, Any], *, version: int | None = None, answered: bool = True
    ) -> Ticket:
        """Ask. `answered` is false for the one request that is not: Produce with acks=0."""
        if version is None:
            version = self.version_of(api)
        return self.send_encoded(api, [api.request.encode(body, version)], version=version, answered=answered)

    def send_encoded(self, api: ApiMessages, body: Sequence[Buffer], *, version: int, answered: bool = True) -> Ticket:
        """Ask with a body that is encoded already, in parts that are not joined here."""
        self.open()
        with self._using():
            deadline_s = time.monotonic() + self.settings.request_timeout_s
            if self.settings.sasl is not None and self._renewal_s is not None and time.monotonic() >= self._renewal_s:
                self._authenticate(self.settings.sasl, deadline_s)
            return self._send(api, body, version, answered, deadline_s)

    def receive(self, ticket: Ticket, *, timeout_s: float | None = None) -> Value:
        """Wait for the answer to a request. In any order, though they come in the order of the requests."""
        frame, position = self.receive_frame(ticket, timeout_s=timeout_s)
        return ticket.api.response.decode(frame, ticket.version, position)

    def receive_frame(
        self, ticket: Ticket, *, timeout_s: float | None = None, buffer_for: BufferFor = bytearray
    ) -> tuple[memoryview, int]:
        """The answer as it came, and the position of its body.

        `buffer_for` is asked for room for the frame once its size is known; no view of an earlier answer may be in
        use in what it gives. By default it is a new one that nobody else holds.
        """
        deadline_s = time.monotonic() + (self.settings.request_timeout_s if timeout_s is None else timeout_s)
        with self._using():
            frame = self._arrived.pop(ticket.correlation_id, None)
            if frame is None:
                frame = self._receive(ticket, deadline_s, buffer_for)
            _, position = parse_response_header(frame, api_key=ticket.api.key, api_version=ticket.version)
            return frame, position

    # --- Opening -----------------------------------------------------------------------------------------------

    def _open(self, deadline_s: float) -> None:
        self._connect(deadline_s)
        if self.settings.tls is not None:
            self._secure(self.settings.tls, deadline_s)
        self._ranges = self._ask_versions(deadline_s)
        if self.settings.sasl is not None:
            self._authenticate(self.settings.sasl, deadline_s)

    def _connect(self, deadline_s: float) -> None:
        try:
            found = socket.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unreachable(f"cannot find {self.address.host}: {sockets.reason(error)}") from error
        for number, (family, kind, protocol, _, place) in enumerate(found):
            made = socket.socket(family, kind, protocol)
            self._replace_socket(made)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # One address of several that swallows what is sent to it leaves time for the others.
                made.settimeout(sockets.left_s(deadline_s) / (len(found) - number))
                made.connect(place)
                hasten(made)
                self._raise_if_closed()  # Before this there was nothing to shut down.
                return
            except OSError as error:
                if number + 1 == len(found):
                    raise Unreachable(f"cannot reach {self.address}: {sockets.reason(error)}") from error

    def _replace_socket(self, made: socket.socket) -> None:
        with self._state:
            old, self._socket = self._socket, made
        if old is not None:
            old.close()
        self._raise_if_closed()  # Maybe too early for `close` to find it.

    def _secure(self, settings: TlsSettings, deadline_s: float) -> None:
        assert self._socket is not None
        secured = tls.wrap(self._socket, self.address, settings)
        self._replace_socket(secured)
        try:
            secured.settimeout(sockets.left_s(deadline_s))
            tls.shake_hands(secured, self.address)
        except TimeoutError as error:
            raise Unreachable(f"{self.address} did not finish the TLS handshake in time") from error
        except OSError as error:
            raise Unreachable(f"cannot reach {self.address}: {sockets.reason(error)}") from error

    def _authenticate(self, settings: SaslSettings, deadline_s: float) -> None:
        def ask(api: ApiMessages, body: Mapping[str, Any]) -> Value:
            version = self._version(api)
            ticket = self._send(api, [api.request.encode(body, version)], version, True, deadline_s)
            frame = self._receive(ticket, deadline_s)
            _, position = parse_response_header(frame, api_key=api.key, api_version=version)
            return api.response.decode(frame, version, position)

        # Again before it ends (KIP-368), since a broker cuts off who does not. Answers that come between are kept.
        lifetime_s = authenticate(settings, str(self.address), ask)
        self._renewal_s = None if lifetime_s is None else time.monotonic() + _RENEWED_AFTER * lifetime_s

    def _version(self, api: ApiMessages) -> int:
        low, high = self._ranges.get(api.key, (0, -1))
        version = min(high, api.version_max)
        if version < max(low, api.version_min):
            theirs = f"versions {low} to {high}" if high >= low else "no version"
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.address} speaks {theirs} of {api.name}, this client {api.version_min} to {api.version_max}",
            )
        return version

    def _ask_versions(self, deadline_s: float) -> dict[int, tuple[int, int]]:
        api, version = api_versions.API, _API_VERSIONS_FIRST
        while True:
            body = {"client_software_name": "headrace", "client_software_version": __version__}
            ticket = self._send(api, [api.request.encode(body, version)], version, True, deadline_s)
            frame = self._receive(ticket, deadline_s)
            _, position = parse_response_header(frame, api_key=api.key, api_version=version)
            code = int.from_bytes(frame[position : position + 2], "big", signed=True)
            # A broker that does not know the version answers in the oldest shape, whatever was asked for.
            unknown = code == ErrorCode.UNSUPPORTED_VERSION
            answer = api.response.decode(frame, 0 if unknown else version, position)
            ranges = {one["api_key"]: (one["min_version"], one["max_version"]) for one in answer["api_keys"]}
            if not unknown and code != ErrorCode.NONE:
                raise WireError(f"{self.address} does not say what it speaks: error {code}")
            if not unknown:
                return ranges
            low, high = ranges.get(api.key, (0, 0))
            if not low <= (lower := min(high, version - 1)):
                raise WireError(f"{self.address} speaks ApiVersions {low} to {high}, this client 0 to {version}")
            version = lower

    # --- Bytes -------------------------------------------------------------------------------------------------

    def _send(
        self, api: ApiMessages, body: Sequence[Buffer], version: int, answered: bool, deadline_s: float
    ) -> Ticket:
        assert self._socket is not None
        ticket = Ticket(api, version, next(self._correlations))
        header = encode_request_header(
            api_key=api.key,
            api_version=version,
            correlation_id=ticket.correlation_id,
            client_id=self.settings.client_id,
        )
        size = len(header) + sum(map(len, body))
        self._send_all([size.to_bytes(_SIZE_BYTES, "big") + header, *body], deadline_s)
        if answered:
            self._waiting.append(ticket)
        return ticket

    def _send_all(self, parts: list[Buffer], deadline_s: float) -> None:
        assert self._socket is not None
        try:
            sockets.send_all(self._socket, parts, deadline_s)
        except TimeoutError as error:
            raise ConnectionLost(f"{self.address} did not take a request in time") from error
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self, ticket: Ticket, deadline_s: float, buffer_for: BufferFor = bytearray) -> memoryview:
        """The frame of this answer; those that come before it are kept."""
        assert ticket in self._waiting, f"no answer is due to {ticket}"
        while True:
            expected = self._waiting[0]
            frame = self._receive_frame(expected, deadline_s, buffer_for if expected == ticket else bytearray)
            found = int.from_bytes(frame[:4], "big", signed=True)
            if found != expected.correlation_id:
                raise ProtocolError(f"{self.address} answered request {found} where {expected.correlation_id} was due")
            self._waiting.popleft()
            self._answers += 1
            if expected == ticket:
                return frame
            self._arrived[found] = frame

    def _receive_frame(self, due: Ticket, deadline_s: float, buffer_for: BufferFor) -> memoryview:
        head = bytearray(_SIZE_BYTES)
        self._fill(memoryview(head), due, deadline_s)
        size = int.from_bytes(head, "big", signed=True)
        if not 4 <= size <= self.settings.answer_bytes_max:
            raise ProtocolError(_not_a_size(self.address, bytes(head), size, self.settings.answer_bytes_max))
        frame = memoryview(buffer_for(size))[:size]
        self._fill(frame, due, deadline_s)
        return frame

    def _fill(self, view: memoryview, due: Ticket, deadline_s: float) -> None:
        assert self._socket is not None
        try:
            if not sockets.fill(self._socket, view, deadline_s):
                raise self._hung_up(due)
        except TimeoutError as error:
            raise ConnectionLost(f"{self.address} did not answer {due.api.name} in time") from error
        except OSError as error:
            raise self._lost(error) from error

    # --- Failing -----------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Alone with the socket. Whatever goes wrong meanwhile, an interrupt too, is the end of the connection."""
        with self._state:
            self._users += 1
        try:
            with self._lock:
                self._raise_if_closed()
                if self._failure is not None:
                    raise self._failure
                try:
                    yield
                except BaseException as error:
                    self._fail(error)
                    self._raise_if_closed()
                    raise
        finally:
            with self._state:
                self._users -= 1
                if self._closing and self._users == 0:
                    self._let_go()

    def _lost(self, error: OSError) -> WireError:
        if isinstance(self._socket, ssl.SSLSocket) and (alert := tls.alert_of(self._socket, error)) is not None:
            return TlsRefused(tls.tls_trouble(alert, self.address))
        return ConnectionLost(f"lost the connection to {self.address}: {sockets.reason(error)}{self._hint()}")

    def _hung_up(self, due: Ticket) -> ConnectionLost:
        said = f"{self.address} closed the connection instead of answering {due.api.name}"
        return ConnectionLost(f"{said}{self._hint()}")

    def _hint(self) -> str:
        """What is likely where a broker wants to hear nothing of us."""
        if self.settings.tls is not None and self._answers == 0:
            return ": does it want a certificate of ours (ssl.certificate.location)?"
        # Nobody may ask for more than ApiVersions where SASL is wanted.
        strangers = self.settings.sasl is None and self._answers <= 1
        return ": is security.protocol right?" if strangers else ""

    def _raise_if_closed(self) -> None:
        if self._closing:
            raise ConnectionClosed(f"the connection to {self.address} is closed")

    def _fail(self, error: BaseException) -> None:
        with self._state:
            if self._failure is None:
                lost = ConnectionLost(f"the connection to {self.address} was given up: {error!r}")
                self._failure = error if isinstance(error, HeadraceError) else lost
            self._let_go()

    def _let_go(self) -> None:
        taken, self._socket = self._socket, None
        if taken is not None:
            taken.close()
        self._waiting.clear()
        self._arrived.clear()


def _not_a_size(address: Address, head: bytes, size: int, bytes_max: int) -> str:
    if head[:2] == b"\x15\x03":
        return f"{address} speaks TLS: security.protocol should be SSL or SASL_SSL"
    if head == b"HTTP":
        return f"{address} speaks HTTP, not Kafka's protocol"
    return f"{address} announced an answer of {size} bytes, outside 4..{bytes_max}"
