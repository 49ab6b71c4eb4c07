"""A case: requests sent in order to each broker, whose answers are compared.

A case runs once for each version of its API, on topics of its own. Where a body holds a callable, it is called
with the broker's `Context` just before sending: that is how topic ids, producer ids and session ids, which no
two brokers share, get into otherwise equal bytes. In every string `$topic` stands for a topic name that belongs
to this case and version.
"""

import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.schemas import Message, schema
from tests.conformance.wire import (
    ANSWER_TIMEOUT_S,
    Answered,
    Closed,
    Connection,
    Outcome,
    Silent,
    frame,
    read_answer,
    request_bytes,
)

_SETTLE_TIMEOUT_S = 180.0  # Thousands of topics at once take Kafka a while on a busy machine.
_CREATED_AT_ONCE = 500
_PROBE_CORRELATION_ID = 123_456


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that must be there before the case begins."""

    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request whose outcome is compared."""

    api: str
    body: Message
    version: int | None = None  # None: the version that the case runs at, or the newest of another API.
    unanswered: bool = False  # Whether silence is expected; a second request then shows that it was silence.
    wait_ms: int | None = None  # Compare whether the answer took at least so long.
    only: str = ""  # Compare only topics whose names begin so: an answer about all topics shows every other case.
    patience_s: float = ANSWER_TIMEOUT_S  # How long to wait for an answer before calling it silence.
    chunk_bytes: int | None = None  # Send in pieces of this size.
    mangle: Callable[[bytes], bytes] | None = None  # Changes the encoded request; its length is set afterwards.


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are, length included; an answer is read as the given version of the case's API."""

    data: bytes
    version: int = 0


@dataclass(frozen=True, slots=True)
class Together:
    """Requests sent without waiting for each other's answers; each is compared."""

    asks: Sequence[Ask]


@dataclass(frozen=True, slots=True)
class Until:
    """Repeat a request until its answer shows that what came before took effect. Not compared."""

    api: str
    body: Message
    done: Callable[[Message], bool]


Step = Ask | Raw | Together | Until


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    api: str
    name: str
    steps: Sequence[Step]
    versions: range | None = None  # None: every version that Kafka serves.
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def all_versions(self) -> range:
        return self.versions if self.versions is not None else served_versions(self.api)

    def topic_name(self, version: int) -> str:
        """What `$topic` stands for."""
        return re.sub(r"[^a-zA-Z0-9-]", "_", f"{self.api}-{self.name}-v{version}")

    def own_topics(self, version: int) -> dict[str, Topic]:
        """The topics that must be there, by their real names."""
        mine = self.topic_name(version)
        return {name.replace("$topic", mine): topic for name, topic in self.topics.items()}


def served_versions(api: str) -> range:
    """What Kafka lets clients use: an unstable newest version is switched off."""
    found = schema(f"{api}Request")
    return range(found.versions.first, found.versions.last + (0 if found.unstable_latest else 1))


class Broker:
    """What a case needs to know about one of the brokers."""

    def __init__(self, name: str, bootstrap: str, data_dir: str) -> None:
        self.name = name
        self.host, _, port = bootstrap.rpartition(":")
        self.port = int(port)
        self.data_dir = data_dir
        self.met_ms = time.time() * 1000
        self.connection = Connection(self.host, self.port)
        self.topic_names: dict[uuid.UUID, str] = {}
        described = self.connection.call("DescribeCluster", 0, {})
        self.cluster_id: str = described["cluster_id"]
        self.node_id: int = described["brokers"][0]["broker_id"]
        # Kafka asks its controller for the first block of producer ids only when the first client needs one.
        self.settle("InitProducerId", {"transactional_id": None}, lambda answer: answer["error_code"] == 0)

    def find_topic_id(self, name: str) -> uuid.UUID:
        """The id that the topic has now, which another may have had before it."""
        answer = self.connection.call("Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False})
        (found,) = answer["topics"]
        assert found["error_code"] == 0, f"{self.name} has no topic {name}"
        self.topic_names[found["topic_id"]] = name
        topic_id: uuid.UUID = found["topic_id"]
        return topic_id

    def find_topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of a topic that exists or existed, as far as it was ever asked for."""
        if topic_id not in self.topic_names:
            asked = {"topic_id": topic_id, "name": None}
            answer = self.connection.call("Metadata", 12, {"topics": [asked], "allow_auto_topic_creation": False})
            if answer["topics"][0]["error_code"] == 0:
                self.topic_names[topic_id] = answer["topics"][0]["name"]
        return self.topic_names.get(topic_id)

    def create_topics(self, topics: Mapping[str, Topic]) -> None:
        """Create, and wait until every partition can be written and read."""
        wanted = [
            {
                "name": name,
                "num_partitions": topic.partitions,
                "replication_factor": 1,
                "configs": [{"name": key, "value": value} for key, value in topic.configs.items()],
            }
            for name, topic in topics.items()
        ]
        for begin in range(0, len(wanted), _CREATED_AT_ONCE):
            body = {"topics": wanted[begin : begin + _CREATED_AT_ONCE], "timeout_ms": 60_000}
            created = self.connection.call("CreateTopics", 7, body)
            failed = [one for one in created["topics"] if one["error_code"] != 0]
            assert not failed, f"{self.name}: {failed}"
            self.topic_names.update({one["topic_id"]: one["name"] for one in created["topics"]})
        self.wait_served({name: topic.partitions for name, topic in topics.items()})

    def wait_served(self, partitions: Mapping[str, int]) -> None:
        """Kafka answers a creation before its partitions can be used, or even seen."""
        named = [{"name": topic} for topic in partitions]
        asked = [
            {"name": topic, "partitions": [{"partition_index": index, "timestamp": -1} for index in range(count)]}
            for topic, count in partitions.items()
        ]
        self.settle("Metadata", {"topics": named, "allow_auto_topic_creation": False}, _topics_exist)
        self.settle("ListOffsets", {"replica_id": -1, "topics": asked}, _every_partition_is_served)

    def settle(self, api: str, body: Message, done: Callable[[Message], bool]) -> None:
        pause_s = 0.002
        deadline_s = time.monotonic() + _SETTLE_TIMEOUT_S
        while not done(answer := self.connection.call(api, served_versions(api)[-1], body)):
            assert time.monotonic() < deadline_s, f"{self.name} never settled: {api} says {str(answer)[:1000]}"
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)


def _topics_exist(answer: Message) -> bool:
    return all(topic["error_code"] == 0 for topic in answer["topics"])


def _every_partition_is_served(answer: Message) -> bool:
    return all(one["error_code"] == 0 for topic in answer["topics"] for one in topic["partitions"])


class Context:
    """One broker during one run of one case."""

    def __init__(self, broker: Broker, *, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.answers: list[Message] = []

    def topic_id(self, name: str = "$topic") -> uuid.UUID:
        return self.broker.find_topic_id(self.expand(name))

    def expand(self, value: Any) -> Any:
        """A body with its callables called and its names filled in."""
        if callable(value):
            return value(self)
        if isinstance(value, str):
            return value.replace("$topic", self.topic).replace("$node", str(self.broker.node_id))
        if isinstance(value, Mapping):
            return {key: self.expand(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.expand(one) for one in value]
        return value


@dataclass(frozen=True, slots=True)
class Observed:
    """What one step did: the request's API and version where there is one, and what was seen."""

    api: str
    version: int
    seen: Message


def run_case(case: Case, version: int, broker: Broker) -> list[Observed]:
    """Every comparable step's outcome, in order. The case's own topics must be there."""
    context = Context(broker, topic=case.topic_name(version))
    observed = []
    for step in case.steps:
        match step:
            case Ask():
                observed.append(_ask(step, case, version, context))
            case Raw():
                outcome = broker.connection.exchange(step.data, timeout_s=2)
                seen = {"outcome": _outcome_word(outcome)}
                if isinstance(outcome, Answered):
                    seen |= read_answer(case.api, step.version, outcome.data)
                observed.append(Observed(case.api, step.version, seen))
            case Together():
                observed += _ask_together(step, case, version, context)
            case Until():
                broker.settle(step.api, context.expand(step.body), step.done)
    return observed


def _ask(step: Ask, case: Case, version: int, context: Context) -> Observed:
    version = _version_of(step, case, version)
    body = context.expand(step.body)
    request = _request(step, version, body)
    connection = context.broker.connection
    if step.unanswered:
        probe = request_bytes("ApiVersions", 0, {}, correlation_id=_PROBE_CORRELATION_ID)
        outcome = connection.exchange(frame(request) + frame(probe))
        if isinstance(outcome, Answered) and outcome.data[:4] == probe[4:8]:
            outcome = Silent()
    else:
        outcome = connection.exchange(frame(request), timeout_s=step.patience_s, chunk_bytes=step.chunk_bytes)
    observed = _observe(step, version, outcome, context)
    if isinstance(outcome, Answered) and step.api == "CreateTopics" and not body.get("validate_only"):
        _wait_created(context.broker, body, context.answers[-1])
    return observed


def _ask_together(step: Together, case: Case, version: int, context: Context) -> list[Observed]:
    versions = [_version_of(ask, case, version) for ask in step.asks]
    requests = [
        frame(_request(ask, asked, context.expand(ask.body), correlation_id=index))
        for index, (ask, asked) in enumerate(zip(step.asks, versions, strict=True))
    ]
    outcomes = context.broker.connection.exchange_all(requests)
    return [
        _observe(ask, asked, outcome, context)
        for ask, asked, outcome in zip(step.asks, versions, outcomes, strict=False)
    ]


def _version_of(step: Ask, case: Case, version: int) -> int:
    if step.version is not None:
        return step.version
    return version if step.api == case.api else served_versions(step.api)[-1]


def _request(step: Ask, version: int, body: Message, *, correlation_id: int = 7) -> bytes:
    request = request_bytes(step.api, version, body, correlation_id=correlation_id)
    return request if step.mangle is None else step.mangle(request)


def _observe(step: Ask, version: int, outcome: Outcome, context: Context) -> Observed:
    seen: Message = {"outcome": _outcome_word(outcome)}
    if isinstance(outcome, Answered):
        answer = read_answer(step.api, version, outcome.data)
        context.answers.append(answer)
        seen |= _only_topics(answer, step.only)
        if step.wait_ms is not None:
            seen["waited"] = outcome.elapsed_s * 1000 >= step.wait_ms
    return Observed(step.api, version, seen)


def _only_topics(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {name: _only_topics(one, prefix) for name, one in value.items()}
    if isinstance(value, list):
        return [_only_topics(one, prefix) for one in value if not _is_other_topic(one, prefix)]
    return value


def _is_other_topic(item: Any, prefix: str) -> bool:
    names = [item.get(field) for field in ("name", "topic", "topic_name")] if isinstance(item, dict) else []
    return any(isinstance(name, str) and not name.startswith(prefix) for name in names)


def _wait_created(broker: Broker, body: Message, answer: Message) -> None:
    created = {one["name"] for one in answer["topics"] if one["error_code"] == 0}
    broker.wait_served(
        {
            topic["name"]: len(topic.get("assignments", ())) or max(1, topic["num_partitions"])
            for topic in body["topics"]
            if topic["name"] in created
        }
    )


def _outcome_word(outcome: Outcome) -> str:
    match outcome:
        case Answered():
            return "answered"
        case Closed():
            return "closed"
        case Silent():
            return "silent"
