"""A node behind real sockets, on a loop that runs while a test waits for something, and clients that speak bytes."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import uvloop

from headrace.clock import SystemClock
from headrace.node.configs import BrokerConfig
from headrace.node.node import Loaded, Node
from headrace.ports import SyncDone
from headrace.protocol.frames import FrameReader, frame
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import MESSAGES
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import ApiMessages
from headrace.server.config import ListenerConfig
from headrace.server.disk import Syncable, SystemDisk, SystemFile
from headrace.server.options import HostPort
from headrace.server.shell import Shell
from headrace.server.timers import LoopTimers
from tests.unit.node.driven_node import Told

WAIT_S: Final = 30
LOOPS: Final = [asyncio.new_event_loop, uvloop.new_event_loop]
API_NAMED: Final[dict[str, ApiMessages]] = {api.name: api for api in MESSAGES.values()}
Message = dict[str, Any]


class Device:
    """The disk helper's part: at once, or when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_held = False
        self.warms = 0
        self._waiting: list[SyncDone] = []

    def sync_then(self, file: Syncable, done: SyncDone) -> None:
        if self.is_held:
            self._waiting.append(done)
        else:
            self._loop.call_soon(done, None)

    def warm_then(self, file: Syncable, position: int, size: int, done: Callable[[], None]) -> None:
        self.warms += 1
        self.sync_then(file, lambda error: done())

    def release(self, error: OSError | None = None) -> None:
        self.is_held = False
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            self._loop.call_soon(done, error)


class Disk(SystemDisk):
    """The real one, but what is in the page cache is for the test to say."""

    is_cold = False

    def range_cached(self, file: SystemFile) -> Callable[[int, int, int], bool]:
        return lambda descriptor, position, size: not self.is_cold


class ServedNode:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.loop = loop
        # What reaches the loop unhandled.
        self.faults: list[BaseException | None] = []
        loop.set_exception_handler(lambda _, context: self.faults.append(context.get("exception")))
        self.told = Told()
        self.device = Device(loop)
        self.disk = Disk(str(directory), helper=self.device, descriptors_max=64)
        clock = SystemClock()
        self.timers = LoopTimers(loop, clock, after=lambda: self.shell.finish_turn())
        config = BrokerConfig.resolve(dict(settings or {}))
        self.node = Node(
            config=config, clock=clock, timers=self.timers, disk=self.disk, random_bytes=os.urandom, events=self.told
        )
        self.shell = Shell(
            node=self.node, config=config, loop=loop, clock=clock, events=self.told, connections_per_address={}
        )
        listeners = [ListenerConfig("PLAINTEXT", HostPort("127.0.0.1", 0), None)]
        (self.address,) = self.shell.listen(listeners)
        started: list[object] = []
        self.node.start().then(started.append)
        self.run_until(lambda: bool(started))
        assert isinstance(started[0], Loaded)
        self.shell.accept_clients(listeners)
        self._clients: list[WireClient] = []

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.shell.close()
        self.timers.close()
        self.disk.close()
        self.loop.run_until_complete(asyncio.sleep(0))

    def connect(self, *, receive_buffer_bytes: int | None = None) -> "WireClient":
        client = WireClient(self, receive_buffer_bytes)
        self._clients.append(client)
        accepted = self.shell.statistics()
        count = accepted.connections_accepted + accepted.connections_refused
        client.socket.connect(self.address)
        client.socket.setblocking(False)

        def is_known() -> bool:
            now = self.shell.statistics()
            return now.connections_accepted + now.connections_refused > count

        self.run_until(is_known)
        return client

    def create(self, name: str, **configs: str) -> None:
        client = self.connect()
        listed = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": listed}
        assert client.call("CreateTopics", 7, topics=[topic])["topics"][0]["error_code"] == 0
        client.close()
        self.run_until(lambda: self.shell.statistics().connections == len([c for c in self._clients if c.is_open]))

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until the condition holds."""

        async def turn() -> None:
            async with asyncio.timeout(WAIT_S):
                while not condition():
                    await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def turn(self, times: int = 20) -> None:
        """Let the loop turn for a while in which nothing is to happen."""

        async def turns() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @property
    def used_bytes(self) -> int:
        return self.shell.statistics().memory_used_bytes

    def handled(self, api: str) -> int:
        """How many requests of an API came out of their handler."""
        key = API_NAMED[api].key
        snapshot = self.node.collected.statistics(now_us=self.node.clock.mono_us())
        return sum(each.requests for each in snapshot.requests if each.api_key == key)

    def events(self, name: str) -> list[dict[str, object]]:
        return [fields for event, fields in self.told.events if event == name]


Serve = Callable[..., ServedNode]


class WireClient:
    """Sends what it is told, and keeps what it gets. Never waits by itself."""

    def __init__(self, served: ServedNode, receive_buffer_bytes: int | None) -> None:
        self._served = served
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._unsent = b""
        self._frames = FrameReader(frame_bytes_max=1 << 28)
        self._sent_ids: list[tuple[int, ApiMessages, int]] = []
        self._count = 0
        self.is_open = True
        # Everything that came: whole answers, and whether the node has closed.
        self.answers: list[bytes] = []
        self.is_ended = False

    def request(self, api: str, version: int, body: Message) -> bytes:
        """A frame with the next correlation id."""
        messages = API_NAMED[api]
        self._count += 1
        self._sent_ids.append((self._count, messages, version))
        header = encode_request_header(
            api_key=messages.key, api_version=version, correlation_id=self._count, client_id="test"
        )
        return frame([header, messages.request.encode(body, version)])

    def ask(self, api: str, version: int, **body: Any) -> None:
        self.send(self.request(api, version, body))

    def send(self, data: bytes) -> None:
        """As much as the socket takes now; the rest goes while the test waits for something."""
        self._unsent += data
        self._push()

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]

    @property
    def has_sent_all(self) -> bool:
        self._push()
        return not self._unsent

    def poll(self) -> int:
        """Take what came; how many answers there are by now."""
        self._push()
        with contextlib.suppress(BlockingIOError):
            while not self.is_ended:
                try:
                    data = self.socket.recv(1 << 16)
                except ConnectionError:
                    data = b""
                if not data:
                    self.is_ended = True
                self._frames.receive(data)
                while (answer := self._frames.next_frame()) is not None:
                    self.answers.append(answer)
        return len(self.answers)

    def wait_answers(self, count: int) -> list[Message]:
        """So many more answers, which must come in the order of the requests."""
        self._served.run_until(lambda: self.poll() >= count or self.is_ended)
        assert len(self.answers) >= count, f"closed after {len(self.answers)} of {count} answers"
        decoded = []
        for _ in range(count):
            answer = self.answers.pop(0)
            expected_id, messages, version = self._sent_ids.pop(0)
            correlation_id, position = parse_response_header(answer, api_key=messages.key, api_version=version)
            assert correlation_id == expected_id, "answers out of order"
            decoded.append(messages.response.decode(answer[position:], version))
        return decoded

    def call(self, api: str, version: int, **body: Any) -> Message:
        self.ask(api, version, **body)
        (answer,) = self.wait_answers(1)
        return answer

    def wait_end(self) -> None:
        """Until the node has closed."""
        self._served.run_until(lambda: self.poll() >= 0 and self.is_ended)

    def close(self) -> None:
        self.is_open = False
        self.socket.close()


def produce_body(topic: str, *values: bytes, acks: int = 1, records: bytes | None = None) -> Message:
    batch = records or encode_batch([Record(None, value, timestamp_ms=1_700_000_000_000) for value in values])
    partition = {"index": 0, "records": batch}
    return {"acks": acks, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": [partition]}]}


def fetch_body(topic: str, *, wait_ms: int = 0, bytes_max: int = 1 << 26) -> Message:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": bytes_max}
    return {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def is_given_back(served: ServedNode) -> bool:
    statistics = served.shell.statistics()
    return statistics.memory_used_bytes == 0 == statistics.connections


def records(answer: Message) -> bytes:
    (topic,) = answer["responses"]
    (partition,) = topic["partitions"]
    assert partition["error_code"] == 0
    data: bytes = partition["records"] or b""
    return data


def fill(served: ServedNode, size: int, *, topic: str = "t") -> bytes:
    """Records of about this size in the log; all of them."""
    client = served.connect()
    for _ in range(max(1, size // 100_000)):
        answer = client.call("Produce", 9, **produce_body(topic, b"x" * min(size, 100_000)))
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
    data = records(client.call("Fetch", 11, **fetch_body(topic)))
    client.close()
    served.run_until(lambda: served.shell.statistics().connections == 0)
    return data
