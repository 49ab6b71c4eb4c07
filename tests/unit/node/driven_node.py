"""A node in a world of its own, asked through frames as a client would."""

from collections.abc import Mapping
from typing import Any

from headrace.node.apis import Client, Parts
from headrace.node.configs import BrokerConfig
from headrace.node.later import Later
from headrace.node.node import Endpoint, Loaded, Node
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import MESSAGES
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import ApiMessages
from headrace.sim.disk import SimDisk, Survival
from headrace.sim.world import SimClock, SimTimers, World

Message = dict[str, Any]
API_NAMED: dict[str, ApiMessages] = {api.name: api for api in MESSAGES.values()}
LISTENER = "PLAINTEXT"
ENDPOINT = Endpoint("broker.example", 9092)
CLIENT = Client(LISTENER, "127.0.0.1")
TIMESTAMP_MS = 1_700_000_000_000


class Told:
    """Events, kept."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, /, **fields: object) -> None:
        self.events.append((event, fields))

    warning = info
    error = info


class DrivenNode:
    def __init__(self, seed: int = 1, *, settings: Mapping[str, str] | None = None) -> None:
        self.world = World(seed)
        self.clock = SimClock(self.world)
        self.disk = SimDisk(self.world)
        self.told = Told()
        self.config = BrokerConfig.resolve(dict(settings or {}))
        self._start()

    def _start(self) -> None:
        self.timers = SimTimers(self.world)
        self.node = self.make_node(
            config=self.config,
            clock=self.clock,
            timers=self.timers,
            disk=self.disk,
            random_bytes=self.world.random.randbytes,
            events=self.told,
        )
        self.node.endpoints[LISTENER] = ENDPOINT
        loaded = self.resolve(self.node.start())
        if not isinstance(loaded, Loaded):
            raise loaded

    def make_node(self, **ports: Any) -> Node:
        return Node(**ports)

    def restart(self) -> None:
        """Stop cleanly and start again."""
        assert self.node.close()
        self.timers.end()
        self.disk = self.disk.kill()
        self._start()

    def crash(self, survival: Survival = Survival.NOTHING) -> None:
        """Lose the power, by default with everything that was not synced, and start again."""
        self.timers.end()
        self.disk = self.disk.crash(survival)
        self._start()

    def resolve(self, later: Later[Any]) -> Any:
        """Let the world go on until the value is there."""
        values: list[Any] = []
        later.then(values.append)
        self.world.run_until_true(lambda: bool(values))
        return values[0]

    def send(self, api: str, version: int, body: Message | bytes) -> Parts | Later[Parts] | None:
        """One request; its answer may be a while."""
        messages = API_NAMED[api]
        header = encode_request_header(api_key=messages.key, api_version=version, correlation_id=7, client_id="test")
        encoded = body if isinstance(body, bytes) else messages.request.encode(body, version)
        return self.node.handle(memoryview(bytearray(header + encoded)), CLIENT)

    def receive(self, api: str, version: int, answer: Parts | Later[Parts] | None) -> Message:
        """An answer, read as a client reads it; one that is due later is waited for."""
        parts = self.resolve(answer) if isinstance(answer, Later) else answer
        assert parts is not None
        data = b"".join(part if isinstance(part, bytes) else part[0].read(*part[1:]) for part in parts)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        messages = API_NAMED[api]
        correlation_id, position = parse_response_header(data[4:], api_key=messages.key, api_version=version)
        assert correlation_id == 7
        decoded, end = messages.response.read(data[4:], version, position)
        assert end == len(data) - 4
        return decoded

    def ask(self, api: str, version: int, **body: Any) -> Message:
        return self.receive(api, version, self.send(api, version, body))

    # What many tests begin with.

    def create(self, name: str, *, partitions: int = 1, **configs: str) -> bytes:
        """A topic, and its id. Settings are written with underscores."""
        listed = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": listed}
        (made,) = self.ask("CreateTopics", 7, topics=[topic])["topics"]
        assert made["error_code"] == 0, made
        topic_id: bytes = made["topic_id"]
        return topic_id

    def produce(self, topic: str, *timestamps: int, partition: int = 0) -> int:
        """One batch of records with these timestamps, counted from TIMESTAMP_MS; its first offset."""
        records = [
            Record(key=b"key", value=b"value", timestamp_ms=TIMESTAMP_MS + timestamp)
            for timestamp in timestamps or (0,)
        ]
        partitions = [{"index": partition, "records": encode_batch(records)}]
        body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": partitions}]}
        answer = self.ask("Produce", 9, **body)
        (written,) = answer["responses"][0]["partition_responses"]
        assert written["error_code"] == 0, written
        offset: int = written["base_offset"]
        return offset

    def metadata(self, *names: str, version: int = 12, **more: Any) -> list[Message]:
        more.setdefault("allow_auto_topic_creation", False)
        answer = self.ask("Metadata", version, topics=[{"name": name} for name in names], **more)
        topics: list[Message] = answer["topics"]
        return topics

    def configs(self, resource_type: int, name: str, **more: Any) -> dict[str, Message]:
        (result,) = self.ask(
            "DescribeConfigs",
            4,
            resources=[{"resource_type": resource_type, "resource_name": name, "configuration_keys": None}],
            **more,
        )["results"]
        assert result["error_code"] == 0, result
        return {config["name"]: config for config in result["configs"]}
