"""Settings of Kafka's Java clients as librdkafka's, for a perf test that shall measure what Kafka's would.

One table for both clients: what each setting of a Java client becomes. What the table does not name goes through
`headrace.wire.dialects`, which knows security, and then to librdkafka, which refuses by name what it does not know. A
setting that librdkafka cannot have is an error too, not a guess: a measurement under other settings than those asked
for is worth nothing. Where the defaults of the two differ, Kafka's are put in force.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.errors import ConfigError
from headrace.wire.dialects import translate_java

_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """What librdkafka is told, and what the run itself has to do."""

    librdkafka: dict[str, str]
    block_ms_max: int  # How long a record may wait for room in the buffer.
    poll_records_max: int
    without_effect: tuple[str, ...]


def producer_properties(java: Mapping[str, str]) -> ClientProperties:
    settings = _PRODUCER_DEFAULTS | dict(java)
    if "enable.idempotence" not in java:
        settings["enable.idempotence"] = str(_may_be_idempotent(java)).lower()
    if "transactional.id" in settings:
        settings.pop("enable.idempotence")  # librdkafka sees to it.
        # And does not let a record be tried for longer than its transaction.
        settings["delivery.timeout.ms"] = java.get("delivery.timeout.ms", java.get("transaction.timeout.ms", "60000"))
    # Java's buffer is counted in bytes only.
    return _translated(settings, {"queue.buffering.max.messages": "0"})


def consumer_properties(java: Mapping[str, str]) -> ClientProperties:
    return _translated(_CONSUMER_DEFAULTS | dict(java), {})


def _may_be_idempotent(java: Mapping[str, str]) -> bool:
    """Kafka's default, unless something was said that excludes it."""
    return (
        java.get("acks", "all") in {"all", "-1"}
        and java.get("retries") != "0"
        and _whole(_IN_FLIGHT, java.get(_IN_FLIGHT, "5")) <= 5
    )


def _translated(settings: Mapping[str, str], base: Mapping[str, str]) -> ClientProperties:
    told, rest = dict(base), {}
    ours: dict[str, int] = {}
    without_effect = []
    for name, value in settings.items():
        match _TABLE.get(name):
            case None:
                rest[name] = value
            case str() as renamed:
                told[renamed] = value
            case Ours():
                ours[name] = _whole(name, value)
            case Refused(reason):
                raise ConfigError(f"{name}={value} is not supported here: {reason}")
            case Overridden():
                pass
            case WithoutEffect():
                without_effect.append(name)
            case convert:
                told |= convert(name, value)
    known, left_out = translate_java(rest)
    if left_out:
        raise ConfigError(f"{left_out[0]} is not supported here: librdkafka has nothing like it")
    return ClientProperties(
        told | known,
        block_ms_max=ours.get("max.block.ms", 60_000),
        poll_records_max=ours.get("max.poll.records", 500),
        without_effect=tuple(without_effect),
    )


# --- the table ---------------------------------------------------------------------------------------------------


class Ours:
    """The run heeds it; librdkafka has no word for it."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str


class Overridden:
    """Kafka's tool puts its own in place of it, too."""


class WithoutEffect:
    """It changes nothing that is measured, and is told."""


_Convert = Callable[[str, str], dict[str, str]]
_CLASS: Final = Refused("a Java class cannot be loaded here")


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{name}={value} is not a whole number") from None


def _buffer(name: str, value: str) -> dict[str, str]:
    return {"queue.buffering.max.kbytes": str(max(1, _whole(name, value) >> 10))}


def _socket_buffer(renamed: str) -> _Convert:
    """The system's own size is -1 in Java and 0 in librdkafka."""
    return lambda _, value: {renamed: "0" if value == "-1" else value}


def _assignors(name: str, value: str) -> dict[str, str]:
    known = {"range", "roundrobin", "cooperative-sticky"}
    found = []
    for word in value.split(","):
        short = word.strip().rpartition(".")[2].removesuffix("Assignor")
        assignor = {"CooperativeSticky": "cooperative-sticky"}.get(short, short.lower())
        if assignor not in known:
            raise ConfigError(f"{name}={word.strip()} is not supported here, only {', '.join(sorted(known))}")
        found.append(assignor)
    return {"partition.assignment.strategy": ",".join(found)}


_TABLE: Final[Mapping[str, str | Ours | Refused | Overridden | WithoutEffect | _Convert]] = {
    # Producers.
    "buffer.memory": _buffer,
    "max.block.ms": Ours(),
    "max.request.size": "message.max.bytes",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "key.serializer": Overridden(),
    "value.serializer": Overridden(),
    "partitioner.class": _CLASS,
    "partitioner.ignore.keys": WithoutEffect(),  # No record has a key.
    "partitioner.adaptive.partitioning.enable": Refused("librdkafka does not look at the load of brokers"),
    "transaction.two.phase.commit.enable": Refused("librdkafka has no two-phase commit"),
    # Consumers.
    "max.poll.records": Ours(),
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "partition.assignment.strategy": _assignors,
    "key.deserializer": Overridden(),
    "value.deserializer": Overridden(),
    "exclude.internal.topics": Refused("internal topics are never among those that --include finds"),
    # Both.
    "receive.buffer.bytes": _socket_buffer("socket.receive.buffer.bytes"),
    "send.buffer.bytes": _socket_buffer("socket.send.buffer.bytes"),
    "default.api.timeout.ms": WithoutEffect(),
    "metadata.max.idle.ms": WithoutEffect(),
    "auto.include.jmx.reporter": WithoutEffect(),
    "metrics.num.samples": WithoutEffect(),
    "metrics.recording.level": WithoutEffect(),
    "metrics.sample.window.ms": WithoutEffect(),
    "interceptor.classes": _CLASS,
    "metric.reporters": _CLASS,
    "security.providers": _CLASS,
}

# Kafka's defaults (4.1) where librdkafka's differ, or differed in some version of either.
_PRODUCER_DEFAULTS: Final = {
    "acks": "all",
    "batch.size": "16384",
    "buffer.memory": str(32 << 20),
    "client.id": "perf-producer-client",
    "compression.type": "none",
    "delivery.timeout.ms": "120000",
    "linger.ms": "5",
    _IN_FLIGHT: "5",
    "max.request.size": str(1 << 20),
}
_CONSUMER_DEFAULTS: Final = {
    "allow.auto.create.topics": "true",
    "client.id": "perf-consumer-client",
    "isolation.level": "read_uncommitted",
    # librdkafka's own: by default a consumer whose queue is full fetches nothing for a whole second.
    "fetch.queue.backoff.ms": "20",
}
