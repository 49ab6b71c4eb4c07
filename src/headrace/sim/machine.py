"""A machine with a node on it: it is started, stopped, killed, loses power, and is started again.

And the network to it: connections that keep the order of requests and of answers, take their time, and break when the
machine or the process dies. What was under way then is lost, without a word on what became of it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from headrace.errors import HeadraceError, ProtocolError, StorageError
from headrace.node.apis import Client, Parts
from headrace.node.configs import BrokerConfig
from headrace.node.later import Later
from headrace.node.node import Endpoint, Loaded, Node
from headrace.ports import Cancel
from headrace.sim.cleaner import SimCleaner
from headrace.sim.disk import SimDisk, Survival
from headrace.sim.world import SimClock, SimTimers, World

LISTENER: Final = "PLAINTEXT"
CLIENT: Final = Client(LISTENER, "10.0.0.1")
NETWORK_US_LEAST, NETWORK_US_MOST = 50, 5_000
RESTART_US_LEAST, RESTART_US_MOST = 1_000, 800_000

# None: the connection broke before there was one.
Answered = Callable[[bytes | None], None]


class NodeTimers:
    """Timers of one process life; behind each, what it woke is answered, as the shell does."""

    def __init__(self, world: World, finish_turn: Callable[[], None]) -> None:
        self._timers = SimTimers(world)
        self._finish_turn = finish_turn

    def at(self, mono_us: int, fire: Callable[[], None]) -> Cancel:
        def fire_and_finish() -> None:
            fire()
            self._finish_turn()

        return self._timers.at(mono_us, fire_and_finish)

    def end(self) -> None:
        self._timers.end()


class Machine:
    def __init__(
        self,
        world: World,
        *,
        settings: Mapping[str, str],
        told: Callable[[str, Mapping[str, object]], None] = lambda event, fields: None,
    ) -> None:
        self.world = world
        self.clock = SimClock(world)
        self.disk = SimDisk(world)
        self.config = BrokerConfig.resolve(dict(settings))
        self.node: Node | None = None
        self.is_up = False
        self.starts = 0
        # Told of every end of a process, with the node if it had come so far; whether the power failed with it.
        self.on_end: Callable[[Node | None, bool], None] = lambda node, power_lost: None
        # Told of every answer, once its client has seen it.
        self.on_delivered: Callable[[], None] = lambda: None
        self._told = told
        self._timers: NodeTimers | None = None
        self._connections: dict[Connection, None] = {}
        self._cancel_start: Cancel = lambda: None

    # --- Lives -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the node. Where the disk does not let it, it is tried again, as a supervisor does."""
        assert self.node is None
        self.starts += 1
        self._timers = NodeTimers(self.world, self._finish_turn)
        try:
            self.node = Node(
                config=self.config,
                clock=self.clock,
                timers=self._timers,
                disk=self.disk,
                cleaner=SimCleaner(self.disk),
                random_bytes=self.world.random.randbytes,
                events=_Events(self._told),
            )
            self.node.endpoints[LISTENER] = Endpoint("node", 9092)
            self.node.start().then(partial(self._started, self.node))
        except StorageError as error:
            self._told("start failed", {"error": error})
            self.kill()

    def _started(self, node: Node, loaded: Loaded | HeadraceError) -> None:
        assert node is self.node
        if isinstance(loaded, Loaded):
            self.is_up = True
        else:
            self._told("start failed", {"error": loaded})
            self.kill()

    def kill(self) -> None:
        """The process dies, the page cache lives."""
        self._end(power_lost=False)
        self.disk = self.disk.kill()
        self._start_later()

    def lose_power(self, survival: Survival = Survival.BY_CHANCE) -> None:
        self._end(power_lost=True)
        self.disk = self.disk.crash(survival)
        self._start_later()

    def stop(self) -> bool:
        """Stop cleanly, if the node can; whether it did."""
        assert self.node is not None
        clean = self.node.close()
        self._end(power_lost=False)
        self.disk = self.disk.kill()
        self._start_later()
        return clean

    def _end(self, *, power_lost: bool) -> None:
        self.is_up = False
        if self._timers is not None:
            self._timers.end()
        node, self.node = self.node, None
        self.on_end(node, power_lost)
        for connection in tuple(self._connections):
            connection.close()

    def _start_later(self) -> None:
        self._cancel_start()  # The power may fail again before.
        delay_us = self.world.delay_us(least=RESTART_US_LEAST, most=RESTART_US_MOST)
        self._cancel_start = self.world.after(delay_us, self.start)

    def _finish_turn(self) -> None:
        if self.node is not None:
            self.node.finish_turn()

    # --- Network ---------------------------------------------------------------------------------------------

    def connect(self) -> "Connection | None":
        """None while the node accepts nobody."""
        if not self.is_up:
            return None
        connection = Connection(self)
        self._connections[connection] = None
        return connection

    def handle(self, frame: bytearray) -> Parts | Later[Parts] | None:
        assert self.node is not None
        answer = self.node.handle(memoryview(frame), CLIENT)
        self.node.finish_turn()
        return answer

    def forget(self, connection: "Connection") -> None:
        self._connections.pop(connection, None)

    def cut_connections(self) -> None:
        """As when a switch is restarted: the node lives on, and what it answers reaches nobody."""
        for connection in tuple(self._connections):
            connection.close()


class Connection:
    """Requests arrive in order, are handled in order, and answered in order."""

    __slots__ = ("_answers", "_arrives_us", "_leaves_us", "_machine", "is_open")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.is_open = True
        self._arrives_us = 0
        self._leaves_us = 0
        # In the order of the requests: who waits, and the answer once it is there.
        self._answers: deque[tuple[Answered, list[Parts]]] = deque()

    def send(self, frame: bytearray, answered: Answered | None) -> None:
        """`answered` is None where no answer is due."""
        assert self.is_open
        world = self._machine.world
        self._arrives_us = max(self._arrives_us, world.mono_us() + _network_us(world))
        ready: list[Parts] = []
        if answered is not None:
            self._answers.append((answered, ready))
        world.at(self._arrives_us, partial(self._arrive, frame, ready))

    def _arrive(self, frame: bytearray, ready: list[Parts]) -> None:
        if not self.is_open:
            return
        try:
            answer = self._machine.handle(frame)
        except ProtocolError:
            self.close()
            return
        if isinstance(answer, Later):
            answer.then(partial(self._answer, ready))
        elif answer is not None:
            self._answer(ready, answer)

    def _answer(self, ready: list[Parts], parts: Parts) -> None:
        ready.append(parts)
        world = self._machine.world
        while self.is_open and self._answers and self._answers[0][1]:
            answered, (first,) = self._answers.popleft()
            self._leaves_us = max(self._leaves_us, world.mono_us() + _network_us(world))
            world.at(self._leaves_us, partial(self._deliver, answered, first))

    def _deliver(self, answered: Answered, parts: Parts) -> None:
        """Spans are read as late as a slow client would read them."""
        if self.is_open:
            try:
                data = b"".join([part if isinstance(part, bytes) else part[0].read(part[1], part[2]) for part in parts])
            except StorageError:
                self.close()
                answered(None)
            else:
                answered(data)
                self._machine.on_delivered()
        else:
            answered(None)

    def close(self) -> None:
        """Whoever waits learns that nothing will come."""
        if self.is_open:
            self.is_open = False
            self._machine.forget(self)
            waiting, self._answers = self._answers, deque()
            for answered, _ in waiting:
                self._machine.world.after(_network_us(self._machine.world), partial(answered, None))


def _network_us(world: World) -> int:
    return world.delay_us(least=NETWORK_US_LEAST, most=NETWORK_US_MOST)


class _Events:
    """Where a node tells what happened."""

    def __init__(self, told: Callable[[str, Mapping[str, object]], None]) -> None:
        self._told = told

    def info(self, event: str, /, **fields: object) -> None:
        self._told(event, fields)

    warning = info
    error = info
