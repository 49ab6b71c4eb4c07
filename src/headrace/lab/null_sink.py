"""A sink that takes everything and keeps nothing: what a sender reaches against it is the sender's own ceiling.

It speaks as much of Kafka's protocol as a producer asks for, over a real loopback socket: ApiVersions, Metadata (any
topic exists, with as many partitions as it was told), InitProducerId, and Produce, which it answers at once without
looking at more than how many messages a batch says it has. So the ceiling is of client, kernel and wire together;
what is left out is all that a broker does with a message. With a limit it takes so many messages a second and no more:
a broker whose ceiling is known, to try a search for it on. Run by `NullSink` as a process of its own; it ends when its
standard input does, and then tells how much it has seen.
"""

import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import Any, Final, Self

from headrace.errors import ErrorCode, HeadraceError, ProtocolError
from headrace.lab.errors import LabError
from headrace.loopback import hasten
from headrace.protocol.header import encode_response_header, parse_request_header
from headrace.protocol.messages import api_versions, init_producer_id, metadata
from headrace.protocol.produce import TopicAnswers, encode_produce_response, parse_produce
from headrace.protocol.schema import ApiMessages

_NODE_ID: Final = 0
_PRODUCE: Final = 0
# Key, first and last version. What only has to be named: librdkafka takes a broker without a Fetch of version 10 for
# one that knows neither today's batches nor zstd, and one whose Produce does not begin with 0 for one without snappy.
_ADVERTISED: Final = ((_PRODUCE, 0, 12), (1, 0, 11), (3, 0, 9), (10, 0, 2), (18, 0, 3), (22, 0, 1))
_TABLES: Final = {api.key: api for api in (metadata.API, api_versions.API, init_producer_id.API)}
_BUFFER_BYTES: Final = 4 << 20
_SIZE: Final = Struct(">i")
_RECORD_COUNT: Final = Struct(">i")
_RECORD_COUNT_AT: Final = 57
_START_S: Final = 10.0
_OVERSLEPT_S_MAX: Final = 0.05


class Peer:
    """One connection's bytes: those that are no whole frame yet, and answers that have not been sent."""

    __slots__ = ("_buffer", "_filled", "out")

    def __init__(self) -> None:
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        self.out = bytearray()

    def room(self) -> memoryview:
        """Where what comes next belongs; there is always some."""
        return memoryview(self._buffer)[self._filled :]

    def received(self, size_bytes: int) -> Iterator[memoryview]:
        """Whole frames, each good until the next is asked for."""
        self._filled += size_bytes
        view = memoryview(self._buffer)
        position = needed = 0
        while self._filled - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(view, position)
            if size < 0:
                raise ProtocolError(f"a frame of {size} bytes")
            begin, end = position + _SIZE.size, position + _SIZE.size + size
            if end > self._filled:
                needed = end - position
                break
            yield view[begin:end]
            position = end
        rest = bytes(view[position : self._filled])
        if needed > len(self._buffer):
            self._buffer = bytearray(needed)
        self._buffer[: len(rest)] = rest
        self._filled = len(rest)


class Sink:
    """What is answered to whom, and how much was taken. Bytes in, bytes out."""

    def __init__(self, *, host: str, port: int, partitions: int) -> None:
        self._host = host
        self._port = port
        self._partitions = partitions
        self.messages = 0
        self.size_bytes = 0

    def take(self, peer: Peer, size_bytes: int) -> None:
        """So many bytes have come into the peer's room; answers are left in its `out`."""
        for frame in peer.received(size_bytes):
            self._answer(peer, frame)

    def _answer(self, peer: Peer, frame: memoryview) -> None:
        key, version, correlation_id, _, position = parse_request_header(frame)
        if key == _PRODUCE:
            body = self._take_produce(frame, position, version)
            if body is None:
                return
        else:
            body = self._tell(_table(key), frame, position, version)
        header = encode_response_header(api_key=key, api_version=version, correlation_id=correlation_id)
        peer.out += _SIZE.pack(len(header) + len(body)) + header + body

    def _take_produce(self, frame: memoryview, position: int, version: int) -> bytes | None:
        _, acks, _, topics = parse_produce(frame, position, version)
        for _, partitions in topics:
            for _, records in partitions:
                if records is not None:
                    self.messages += _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]
                    self.size_bytes += len(records)
        if acks == 0:
            return None
        answers: list[TopicAnswers] = [
            (topic, [(index, 0, self.messages, -1, 0, None) for index, _ in partitions]) for topic, partitions in topics
        ]
        return encode_produce_response(answers, version)

    def _tell(self, api: ApiMessages, frame: memoryview, position: int, version: int) -> bytes:
        answer: dict[str, Any]
        if api is api_versions.API:
            code = ErrorCode.NONE
            if version > api.version_max:
                # In the oldest shape, whatever was asked for.
                version, code = 0, ErrorCode.UNSUPPORTED_VERSION
            ranges = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in _ADVERTISED]
            answer = {"error_code": code, "api_keys": ranges}
        elif api is init_producer_id.API:
            answer = {"error_code": 0, "producer_id": 1, "producer_epoch": 0}
        else:
            asked = api.request.decode(frame, version, position)["topics"] or []
            answer = {
                "brokers": [{"node_id": _NODE_ID, "host": self._host, "port": self._port}],
                "controller_id": _NODE_ID,
                "cluster_id": "null",
                "topics": [self._topic(each["name"]) for each in asked],
            }
        return api.response.encode(answer, version)

    def _topic(self, name: str) -> dict[str, Any]:
        partitions = [
            {
                "error_code": ErrorCode.NONE,
                "partition_index": number,
                "leader_id": _NODE_ID,
                "replica_nodes": [_NODE_ID],
                "isr_nodes": [_NODE_ID],
            }
            for number in range(self._partitions)
        ]
        return {"error_code": ErrorCode.NONE, "name": name, "partitions": partitions}


def _table(key: int) -> ApiMessages:
    if key not in _TABLES:
        raise ProtocolError(f"a null sink does not speak API {key}")
    return _TABLES[key]


class Pace:
    """One server for all, which takes the same time for every message."""

    def __init__(self, limit_per_s: float) -> None:
        self._limit_per_s = limit_per_s
        self._free_s = 0.0

    def take(self, messages: int, *, now_s: float) -> float:
        """How long until it is done with these."""
        # What it overslept is not lost, or it would always be slower than its limit.
        self._free_s = max(self._free_s, now_s - _OVERSLEPT_S_MAX) + messages / self._limit_per_s
        return max(0.0, self._free_s - now_s)


class _Server:
    """The sink behind a socket."""

    def __init__(self, host: str, partitions: int, limit_per_s: float | None = None) -> None:
        self._pace = None if limit_per_s is None else Pace(limit_per_s)
        self._listener = socket.create_server((host, 0))
        port = self._listener.getsockname()[1]
        self.address = f"{host}:{port}"
        self.sink = Sink(host=host, port=port, partitions=partitions)
        self._selector = selectors.DefaultSelector()

    def run(self, until: int) -> None:
        """Until this descriptor is at its end."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(until, selectors.EVENT_READ)
        while True:
            for key, events in self._selector.select():
                if key.fd == until:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._serve(key.fileobj, key.data, events)

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hasten(accepted)
        self._selector.register(accepted, selectors.EVENT_READ, Peer())

    def _serve(self, accepted: socket.socket, peer: Peer, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                received = accepted.recv_into(peer.room())
                if not received:
                    raise ConnectionResetError
                before = self.sink.messages
                self.sink.take(peer, received)
                if self._pace is not None:
                    time.sleep(self._pace.take(self.sink.messages - before, now_s=time.monotonic()))
            self._flush(accepted, peer)
        except (OSError, HeadraceError):
            # Whoever speaks of something else, or has gone: a sink has nobody to tell.
            self._selector.unregister(accepted)
            accepted.close()

    def _flush(self, accepted: socket.socket, peer: Peer) -> None:
        if peer.out:
            with suppress(BlockingIOError):
                del peer.out[: accepted.send(peer.out)]
            self._selector.modify(accepted, selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0), peer)


class NullSink:
    """The sink as a process, to be used in a `with`."""

    def __init__(self, *, partitions: int = 1, limit_per_s: float | None = None, host: str = "127.0.0.1") -> None:
        self._arguments = [host, str(partitions), *([] if limit_per_s is None else [str(limit_per_s)])]
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""
        self.messages = 0  # Both are known at the end.
        self.size_bytes = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.lab.null_sink", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert self._process.stdout is not None
        self.bootstrap = self._process.stdout.readline().decode().strip()
        if not self.bootstrap:
            self._end()
            raise LabError("the null sink did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said = self._end()
        if said:
            seen = json.loads(said)
            self.messages, self.size_bytes = seen["messages"], seen["size_bytes"]

    def _end(self) -> bytes:
        assert self._process is not None
        try:
            said, _ = self._process.communicate(timeout=_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
        return said


def main() -> None:
    host, partitions, *limit = sys.argv[1:]
    server = _Server(host, int(partitions), *map(float, limit))
    sys.stdout.write(f"{server.address}\n")
    sys.stdout.flush()
    server.run(sys.stdin.fileno())
    sys.stdout.write(json.dumps({"messages": server.sink.messages, "size_bytes": server.sink.size_bytes}) + "\n")


if __name__ == "__main__":
    main()
