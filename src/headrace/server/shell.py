"""The shell around a node: listeners, connections, timers and the turn of the event loop.

One process, one loop, no threads. Everything that happens in a turn (frames handled, timers fired, syncs
reported) ends with `finish_turn`: fetches that it woke are answered, and what is to be sent is sent.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.errors import ConfigError
from headrace.loopback import hasten
from headrace.node.apis import Client
from headrace.node.configs import BrokerConfig
from headrace.node.node import Endpoint, Events, Node
from headrace.ports import Clock
from headrace.server.config import ListenerConfig
from headrace.server.connection import Connection
from headrace.server.memory import FrameBuffers, MemoryBudget
from headrace.server.options import HostPort

_SCRATCH_BYTES: Final = 512 << 10
_ACCEPTS_PER_TURN_MAX: Final = 64
_ACCEPT_RETRY_S: Final = 0.1
# How long the budget may be spent before the connection with most to come, or most to send, is given up.
_MEMORY_STALL_S: Final = 0.2
_SWEEP_S: Final = 1.0
_LAG_TICK_S: Final = 0.1


class ShellStatistics(NamedTuple):
    connections: int
    connections_accepted: int
    connections_refused: int
    connections_shed: int
    connections_idled: int
    protocol_errors: int
    sendfile_bytes: int
    memory_used_bytes: int
    memory_peak_bytes: int
    memory_waiting: int
    loop_lag_us_max: int


class Shell:
    def __init__(
        self,
        *,
        node: Node,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        events: Events,
        connections_per_address: Mapping[str, int],
    ) -> None:
        self.node = node
        self.collected = node.collected
        self.loop = loop
        self.clock = clock
        self.events = events
        self.scratch = bytearray(_SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.budget = MemoryBudget(config.memory_budget_bytes)
        self.buffers = FrameBuffers()
        self.frame_bytes_max = config.socket_request_max_bytes
        self.first_frame_bytes_max = min(config.connection_first_frame_bytes_max, self.frame_bytes_max)
        self.connection_bytes_max = config.connection_memory_bytes_max
        self._backlog = config.socket_listen_backlog_size
        self._send_buffer_bytes = config.socket_send_buffer_bytes
        self._idle_us_max = config.connections_max_idle_ms * 1000
        self._connections_per_address = connections_per_address
        self._connections: dict[Connection, None] = {}
        self._by_address: Counter[str] = Counter()
        self._listening: list[socket.socket] = []
        self._to_send: list[Connection] = []
        self._is_finishing = False
        self._stall_check: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self.sendfile_bytes = 0
        self.protocol_errors = 0
        self._accepted = self._refused = self._shed = self._idled = 0
        self._lag_us_max = 0

    # --- Listening -------------------------------------------------------------------------------------------

    def listen(self, listeners: Sequence[ListenerConfig]) -> list[HostPort]:
        """Bind and tell the node what to advertise; where each listener really is."""
        bound = []
        for listener in listeners:
            sock = _bind(listener, self._backlog)
            self._listening.append(sock)
            port = sock.getsockname()[1]
            advertised = listener.advertise or HostPort(_reachable(listener.listen.host), port)
            self.node.endpoints[listener.name] = Endpoint(advertised.host, advertised.port or port)
            bound.append(HostPort(listener.listen.host or "0.0.0.0", port))
        return bound

    def accept_clients(self, listeners: Sequence[ListenerConfig]) -> None:
        """From here on clients are served."""
        for listener, sock in zip(listeners, self._listening, strict=True):
            self.loop.add_reader(sock, self._on_connect, sock, listener.name)
        if self._idle_us_max >= 0:
            self._sweep()
        self._tick(self.clock.mono_us())

    def _on_connect(self, sock: socket.socket, listener: str) -> None:
        for _ in range(_ACCEPTS_PER_TURN_MAX):
            try:
                client, address = sock.accept()
            except BlockingIOError:
                return
            except (InterruptedError, ConnectionError):
                continue  # That one went away while it waited; there may be others behind it.
            except OSError as error:
                # Out of descriptors, mostly: existing clients go on, newcomers wait in the backlog for a moment.
                self.events.warning("cannot accept", error=error)
                self.loop.remove_reader(sock)
                self.loop.call_later(_ACCEPT_RETRY_S, self._accept_again, sock, listener)
                return
            host = str(address[0])
            if not self._has_room_for(host):
                self._refused += 1
                client.close()
                continue
            self.adopt(client, Client(listener, host))

    def adopt(self, sock: socket.socket, client: Client) -> None:
        """Serve a connected socket."""
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hasten(sock)
            if self._send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            connection = Connection(self, sock, client)
        except OSError:  # It was reset already.
            sock.close()
            return
        self._accepted += 1
        self._by_address[client.address] += 1
        self._connections[connection] = None

    def _has_room_for(self, host: str) -> bool:
        """Asked of the node's settings each time: they may change while it runs."""
        config = self.node.config
        per_address_max = self._connections_per_address.get(host, config.max_connections_per_ip)
        return len(self._connections) < config.max_connections and self._by_address[host] < per_address_max

    def _accept_again(self, sock: socket.socket, listener: str) -> None:
        if sock in self._listening:
            self.loop.add_reader(sock, self._on_connect, sock, listener)

    def forget(self, connection: Connection) -> None:
        del self._connections[connection]
        host = connection.client.address
        self._by_address[host] -= 1
        if self._by_address[host] == 0:
            del self._by_address[host]

    # --- The turn --------------------------------------------------------------------------------------------

    def send_soon(self, connection: Connection) -> None:
        self._to_send.append(connection)
        if not self._is_finishing:
            # Outside a turn of ours (a sync reported, say) nobody else would send it.
            self._is_finishing = True
            self.loop.call_soon(self.finish_turn)

    def finish_turn(self) -> None:
        """Answer what the turn woke, and send what it made."""
        self._is_finishing = True
        self.node.finish_turn()
        while self._to_send:
            to_send, self._to_send = self._to_send, []
            for connection in to_send:
                connection.send()
        self._is_finishing = False

    def go_on_with(self, make_node: Callable[[], Node]) -> None:
        """Serve another node from now on, on the same listeners; the present one is at its end.

        Clients stay connected. Those who wait for an answer of the present node get it now, or are cut off. Then the
        other is made. What was counted of requests goes on being counted where it was.
        """
        for connection in tuple(self._connections):
            connection.give_up_waiting()
        self.finish_turn()
        endpoints = self.node.endpoints
        self.node = make_node()
        self.node.endpoints.update(endpoints)

    # --- Memory ----------------------------------------------------------------------------------------------

    def wait_for_memory(self, resume: Callable[[], None]) -> None:
        self.budget.wait(resume)
        if self._stall_check is None:
            self._stall_check = self.loop.call_later(_MEMORY_STALL_S, self._break_stall)

    def _break_stall(self) -> None:
        """Frames that never become whole, and answers that nobody takes, must not hold the budget against others."""
        self._stall_check = None
        while self.budget.is_spent:
            greediest = max(self._connections, key=lambda connection: connection.debt_bytes, default=None)
            if greediest is None or greediest.debt_bytes == 0:
                break
            self.events.warning("connection shed", client=greediest.client.address, debt_bytes=greediest.debt_bytes)
            self._shed += 1
            greediest.close()
        if self.budget.has_waiting:
            self._stall_check = self.loop.call_later(_MEMORY_STALL_S, self._break_stall)

    # --- Upkeep ----------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Close connections that have been silent for too long."""
        oldest_us = self.clock.mono_us() - self._idle_us_max
        for connection in [each for each in self._connections if each.last_progress_us < oldest_us]:
            if not connection.is_waiting:
                self._idled += 1
                connection.close()
        self._sweeper = self.loop.call_later(_SWEEP_S, self._sweep)

    def _tick(self, expected_us: int) -> None:
        """How late the loop is: what a request waits before anybody looks at it."""
        now_us = self.clock.mono_us()
        self._lag_us_max = max(self._lag_us_max, now_us - expected_us)
        self._ticker = self.loop.call_later(_LAG_TICK_S, self._tick, now_us + int(_LAG_TICK_S * 1_000_000))

    # --- Statistics ------------------------------------------------------------------------------------------

    def statistics(self) -> ShellStatistics:
        memory = self.budget.statistics()
        lag_us, self._lag_us_max = self._lag_us_max, 0
        return ShellStatistics(
            connections=len(self._connections),
            connections_accepted=self._accepted,
            connections_refused=self._refused,
            connections_shed=self._shed,
            connections_idled=self._idled,
            protocol_errors=self.protocol_errors,
            sendfile_bytes=self.sendfile_bytes,
            memory_used_bytes=memory.used_bytes,
            memory_peak_bytes=memory.peak_bytes,
            memory_waiting=memory.waiting,
            loop_lag_us_max=lag_us,
        )

    def close(self) -> None:
        for handle in (self._stall_check, self._sweeper, self._ticker):
            if handle is not None:
                handle.cancel()
        for sock in self._listening:
            self.loop.remove_reader(sock)
            sock.close()
        self._listening.clear()
        for connection in tuple(self._connections):
            connection.close()
        self._to_send.clear()


def _bind(listener: ListenerConfig, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(listener.listen)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"cannot listen on {listener.listen}: {error.strerror or error}; "
            "choose another with --listen HOST:PORT (port 0 picks a free one)"
        ) from error
    sock.setblocking(False)
    return sock


def _reachable(host: str) -> str:
    """A host that clients can be told: a wildcard address is not one."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
