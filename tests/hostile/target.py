"""A node under attack, and the honest client that must not notice.

The honest client asks for versions, writes a message and reads it back over a connection of its own, again and
again; the longest it ever waited is what the attack is judged by.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.protocol.frames import FrameReader
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import MESSAGES
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import Value
from headrace.testing.node_process import NodeProcess

ANSWER_S_MAX = 2.0
TOPIC = "honest"


class Wire:
    """A blocking connection that speaks in whole frames, or in whatever bytes it is told to."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 10.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader(frame_bytes_max=1 << 27)
        self._asked = self._answered = 0

    def send(self, data: bytes) -> None:
        """Deliver as much as the peer takes; a peer that closes early has said what it thinks."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next frame, or None once the peer has closed."""
        while (frame := self._frames.next_frame()) is None:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._frames.receive(data)
        return frame

    def call(self, api_key: int, version: int, request: Value) -> Value:
        self.ask(api_key, version, request)
        return self.answer(api_key, version)

    def ask(self, api_key: int, version: int, request: Value) -> None:
        """Send without waiting: several requests can be under way."""
        self._asked += 1
        self.send(request_frame(api_key, version, request, correlation_id=self._asked))

    def answer(self, api_key: int, version: int) -> Value:
        """The answer to the oldest request that has none yet."""
        self._answered += 1
        answer = self.receive()
        assert answer is not None, "the node closed an honest connection"
        correlation, position = parse_response_header(answer, api_key=api_key, api_version=version)
        assert correlation == self._answered
        return MESSAGES[api_key].response.decode(answer, version, position)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def request_body(api_key: int, version: int, request: Value, *, correlation_id: int = 1) -> bytes:
    header = encode_request_header(
        api_key=api_key, api_version=version, correlation_id=correlation_id, client_id="hostile"
    )
    return header + MESSAGES[api_key].request.encode(request, version)


def request_frame(api_key: int, version: int, request: Value, *, correlation_id: int = 1) -> bytes:
    body = request_body(api_key, version, request, correlation_id=correlation_id)
    return struct.pack(">i", len(body)) + body


class HonestClient:
    """Runs in a thread of its own until stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slowest_s = 0.0
        self.rounds = 0
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            with Wire(self._bootstrap) as wire:
                wire.call(3, 4, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": True})
                while not self._stop.is_set():
                    began_s = time.monotonic()
                    self._round(wire)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                    self.rounds += 1
                    self._stop.wait(0.02)
        except BaseException as error:
            self.failure = error

    def _round(self, wire: Wire) -> None:
        wire.call(18, 0, {})
        batch = encode_batch([Record(None, b"honest", (), int(time.time() * 1000))])
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
        produced = wire.call(0, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": data})
        row = produced["responses"][0]["partition_responses"][0]
        assert row["error_code"] == 0, row
        asked = [{"partition": 0, "fetch_offset": row["base_offset"], "partition_max_bytes": 1 << 20}]
        topics = [{"topic": TOPIC, "partitions": asked}]
        fetched = wire.call(1, 11, {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, "topics": topics})
        assert fetched["responses"][0]["partitions"][0]["records"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(ANSWER_S_MAX + 10)

    def check(self) -> None:
        assert self.failure is None, self.failure
        assert self.slowest_s < ANSWER_S_MAX, f"an honest client waited {self.slowest_s:.1f} s"


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no memory")


@contextlib.contextmanager
def under_attack(node: NodeProcess) -> Iterator[HonestClient]:
    """Whatever happens inside, the node lives and honest clients are served in time."""
    with HonestClient(node.bootstrap) as honest:
        yield honest
        # At least one whole round after the attack.
        rounds = honest.rounds
        deadline_s = time.monotonic() + ANSWER_S_MAX + 5
        while honest.rounds <= rounds + 1 and honest.failure is None and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert honest.failure is not None or honest.rounds > rounds, "no honest round after the attack"
    honest.check()
