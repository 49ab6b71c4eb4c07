"""The options that begin with `kafka.`: settings of the client, in Java's names, each in force or refused.

The official connector hands them to Java's clients. Here `headrace.wire` takes what it has; what a consumer or a
producer alone knows is taken out before, by the functions `take_*`, which remove what they took. What is left over is
an error that names it: a setting that somebody relies on must not be ignored.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from headrace.columnar.writing import BATCH_BYTES, MEMORY_BYTES, Compression
from headrace.errors import ConfigError
from headrace.wire.settings import ClientSettings, client_settings

_CODECS: Final[tuple[Compression, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
_CODECS_WITH_LEVELS: Final[tuple[Compression, ...]] = ("gzip", "lz4", "zstd")
_BATCH_BYTES_MIN: Final = 1024

# What people may have good reasons to set, and why it is refused. Others are refused with fewer words.
REFUSED: Final = {
    "auto.offset.reset": "use startingOffsets instead",
    "enable.auto.commit": "the query keeps its offsets itself, and commits them to no group",
    "group.id": "nothing here reads as a group",
    "interceptor.classes": "an interceptor is a Java class",
    "key.deserializer": "keys are binary: cast the column",
    "key.serializer": "keys are binary or text: cast the column",
    "linger.ms": "rows are sent as soon as Spark hands them over",
    "transactional.id": "rows are written at least once, not in transactions",
    "value.deserializer": "values are binary: cast the column",
    "value.serializer": "values are binary or text: cast the column",
}

Acks = Literal[0, 1, "all"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    acks: Acks = "all"
    is_idempotent: bool = True
    compression: Compression = "none"
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES
    memory_bytes: int = MEMORY_BYTES


def take_client(client: Mapping[str, str]) -> ClientSettings:
    """What every client has; ConfigError where anything is left that would not be in force."""
    for name in client:
        if name in REFUSED:
            raise ConfigError(f"kafka.{name} cannot be set: {REFUSED[name]}")
    settings = client_settings(config=client)
    for name in settings.not_in_force:
        raise ConfigError(f"kafka.{name} would have no effect: this client has no such setting. Leave it out")
    return settings


def take_isolation(client: MutableMapping[str, str]) -> bool:
    """Whether only what was committed is read. By default everything is, here as in the official connector."""
    level = client.pop("isolation.level", "read_uncommitted").strip().lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise ConfigError(f"kafka.isolation.level={level} is neither read_committed nor read_uncommitted")
    return level == "read_committed"


def take_producer(client: MutableMapping[str, str]) -> ProducerOptions:
    """What a producer has, with the defaults of Java's but for the size of batches: rows come many at a time here."""
    acks: Acks = _take(client, "acks", _acks, "all")
    # As in Java, whoever asks for fewer acknowledgements need not say as well that repeats are not recognised.
    is_idempotent = _take(client, "enable.idempotence", _flag, acks == "all")
    if is_idempotent and acks != "all":
        raise ConfigError(f"kafka.enable.idempotence=true needs kafka.acks=all, not {acks}")
    compression: Compression = _take(client, "compression.type", _codec, "none")
    return ProducerOptions(
        acks=acks,
        is_idempotent=is_idempotent,
        compression=compression,
        compression_level=_take_level(client, compression),
        batch_bytes=_take(client, "batch.size", _size, BATCH_BYTES),
        memory_bytes=_take(client, "buffer.memory", _size, MEMORY_BYTES),
    )


def _take_level(client: MutableMapping[str, str], compression: Compression) -> int | None:
    level = None
    for codec in _CODECS_WITH_LEVELS:
        given = _take(client, f"compression.{codec}.level", _level, None)
        if given is not None and codec != compression:
            raise ConfigError(f"kafka.compression.{codec}.level is set, but kafka.compression.type is {compression}")
        level = level if given is None else given
    return level


def _take(client: MutableMapping[str, str], name: str, parse: Callable[[str, str], T], otherwise: T) -> T:
    text = client.pop(name, None)
    return otherwise if text is None else parse(f"kafka.{name}", text.strip())


def _acks(name: str, text: str) -> Acks:
    match text.lower():
        case "0":
            return 0
        case "1":
            return 1
        case "all" | "-1":
            return "all"
    raise ConfigError(f"{name}={text} is none of 0, 1, all")


def _codec(name: str, text: str) -> Compression:
    for codec in _CODECS:
        if codec == text.lower():
            return codec
    raise ConfigError(f"{name}={text} is none of {', '.join(_CODECS)}")


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{name}={text} is neither true nor false")
    return text.lower() == "true"


def _size(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < _BATCH_BYTES_MIN:
        raise ConfigError(f"{name}={text} is not a number of bytes from {_BATCH_BYTES_MIN} on")
    return int(text)


def _level(name: str, text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name}={text} is not a number") from None
