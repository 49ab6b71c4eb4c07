"""The commands that a test gives over the control socket: one method each, under its own name."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.errors import ApiError, ErrorCode, HeadraceError
from headrace.node.apis import Client, Message, Parts
from headrace.node.later import Later
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import create_topics, metadata, produce
from headrace.protocol.records import Header, Record, encode_batch
from headrace.protocol.schema import ApiMessages
from headrace.server.logs import EventLog
from headrace.testing import views
from headrace.testing.inside.introspection import groups_of, log_of, statistics_of
from headrace.testing.inside.server import EmbeddedServer
from headrace.testing.messages import FaultSpec, Setup

_CLIENT_ID = "headrace.testing"
_LOADING_S = 0.001


class Commands:
    def __init__(self, write_log: Callable[[str], object]) -> None:
        self._write_log = write_log
        self._running: EmbeddedServer | None = None
        self._setup: Setup | None = None

    @property
    def temporary_data(self) -> str | None:
        """What has to go with a broker that is running and was not told to stop."""
        if self._running is None or self._setup is None or not self._setup.is_temporary:
            return None
        return self._setup.data

    @property
    def _server(self) -> EmbeddedServer:
        if self._running is None:
            raise HeadraceError("the broker was not started")
        return self._running

    # --- Lifecycle -------------------------------------------------------------------------------------------

    async def start(self, setup: Setup) -> str:
        assert self._running is None
        events = EventLog(self._write_log, level=setup.log_level)
        server = EmbeddedServer(setup, events, asyncio.get_running_loop())
        try:
            address = await server.start()
        except BaseException:
            server.abandon()
            raise
        self._running, self._setup = server, setup
        return address

    async def stop(self) -> bool:
        server, self._running = self._server, None
        return server.stop()

    async def abandon(self) -> None:
        if self._running is not None:
            server, self._running = self._running, None
            server.abandon()

    async def clear(self) -> None:
        await self._server.clear()

    async def snapshot(self, into: str) -> None:
        self._server.snapshot(Path(into))

    async def restore(self, snapshot: str) -> None:
        await self._server.restore(Path(snapshot))

    # --- Looking ---------------------------------------------------------------------------------------------

    async def topics(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self._server.node.topics if not topic.is_internal}

    async def log(self, topic: str, partition: int) -> views.Log:
        return log_of(self._server.node, topic, partition)

    async def counts(self, topic: str) -> dict[int, int]:
        """How many offsets of each partition are visible."""
        found = self._server.node.topics.named(topic)
        partitions = [] if found is None else found.partitions
        return {one.index: one.log.high_watermark - one.log.start_offset for one in partitions}

    async def groups(self) -> dict[str, views.Group]:
        while True:
            try:
                return groups_of(self._server.node)
            except ApiError as error:
                if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
            await asyncio.sleep(_LOADING_S)

    async def statistics(self) -> views.Statistics:
        return statistics_of(self._server.node, self._server.shell)

    # --- Doing -----------------------------------------------------------------------------------------------

    async def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": -1,
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        answer = await self._ask(create_topics.API, {"topics": [topic], "timeout_ms": 10_000})
        _raise_for(answer["topics"][0])

    async def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int | None,
    ) -> int:
        if self._server.node.topics.named(topic) is None:
            found = await self._ask(metadata.API, {"topics": [{"name": topic}]}, version=9)
            _raise_for(found["topics"][0])
        now_ms = self._server.clock.wall_ms() if timestamp_ms is None else timestamp_ms
        batch = encode_batch([Record(key, value, tuple(headers), now_ms)])
        data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
        answer = await self._ask(produce.API, {"acks": -1, "timeout_ms": 10_000, "topic_data": data}, version=9)
        row = answer["responses"][0]["partition_responses"][0]
        _raise_for(row)
        offset: int = row["base_offset"]
        return offset

    async def _ask(self, api: ApiMessages, request: Message, *, version: int | None = None) -> Message:
        """As any client would, but that nothing of it can be made to fail."""
        node = self._server.node
        version = api.version_max if version is None else version
        header = encode_request_header(api_key=api.key, api_version=version, correlation_id=0, client_id=_CLIENT_ID)
        frame = memoryview(bytearray(header + api.request.encode(request, version)))
        listener = next(iter(node.endpoints))
        answer = node.handle_faultless(frame, Client(listener, "127.0.0.1"))
        self._server.shell.finish_turn()
        parts = await _awaited(answer) if isinstance(answer, Later) else answer
        assert parts is not None
        (data,) = parts
        assert isinstance(data, bytes)
        body = memoryview(data)[4:]
        _, position = parse_response_header(body, api_key=api.key, api_version=version)
        return api.response.decode(body, version, position)

    # --- Faults and time -------------------------------------------------------------------------------------

    async def add_fault(self, spec: FaultSpec) -> int:
        return self._server.faults.add(spec)

    async def remove_fault(self, number: int) -> int:
        return self._server.faults.remove(number)

    async def fault_hits(self, number: int) -> int:
        return self._server.faults.hits(number)

    async def clear_faults(self) -> None:
        self._server.faults.clear()

    async def clock(self) -> tuple[int, int]:
        clock = self._server.clock
        return clock.wall_ms(), clock.mono_us()

    async def advance(self, wall_us: int, mono_us: int) -> None:
        await self._server.advance(wall_us=wall_us, mono_us=mono_us)


async def _awaited(later: Later[Parts]) -> Parts:
    came: asyncio.Future[Parts] = asyncio.get_running_loop().create_future()
    later.then(came.set_result)
    return await came


def _raise_for(row: Message) -> None:
    if row["error_code"]:
        code = ErrorCode(row["error_code"])
        raise ApiError(code, row.get("error_message") or code.name)
