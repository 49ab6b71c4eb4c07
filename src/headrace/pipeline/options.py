"""The options of Spark's own Kafka connector, understood as it understands them.

A program switches to `format("headrace")` by changing one word, so names, defaults and refusals are the official ones.
Names are compared without case, as Spark's options are; those that begin with `kafka.` are client settings. An option
that is not known is an error that names it: none is ignored. Knows nothing of Spark.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from headrace.errors import ConfigError

EARLIEST: Final = -2
LATEST: Final = -1

# Settings that the connector decides itself.
_NOT_FOR_USERS: Final = {
    "kafka.auto.offset.reset": "use startingOffsets instead",
    "kafka.enable.auto.commit": "offsets are kept by the query, and committed nowhere",
    "kafka.interceptor.classes": "interceptors would see records that the query does not",
    "kafka.key.deserializer": "keys are binary; cast the column",
    "kafka.value.deserializer": "values are binary; cast the column",
    "kafka.key.serializer": "keys are binary or text",
    "kafka.value.serializer": "values are binary or text",
}
_SOURCE_OPTIONS: Final = (
    *("assign", "subscribe", "subscribePattern"),
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "startingOffsetsByTimestampStrategy"),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"),
    *("failOnDataLoss", "includeHeaders", "minPartitions", "maxRecordsPerPartition"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    # About the official connector's own consumers and their cache: there is nothing here that they could change.
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix"),
)
_SINK_OPTIONS: Final = ("topic", "includeHeaders")
_BY_LOWER: Final = {name.lower(): name for name in (*_SOURCE_OPTIONS, *_SINK_OPTIONS)}
_DELAY: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DELAY_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRIGGER_DELAY_MS: Final = 15 * 60_000


class ByPartition(NamedTuple):
    """Offsets, or EARLIEST or LATEST, for each partition by name; or timestamps in milliseconds."""

    of: Mapping[str, Mapping[int, int]]
    are_timestamps: bool


class AtTimestamp(NamedTuple):
    """One moment for all partitions, in milliseconds."""

    timestamp_ms: int


# EARLIEST or LATEST for all, or something more particular.
Bound = int | ByPartition | AtTimestamp


class Assign(NamedTuple):
    partitions: Mapping[str, tuple[int, ...]]


class Subscribe(NamedTuple):
    topics: tuple[str, ...]


class SubscribePattern(NamedTuple):
    pattern: re.Pattern[str]


Subscription = Assign | Subscribe | SubscribePattern


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    subscription: Subscription
    client: Mapping[str, str] = field(repr=False)  # In Java's names; passwords may be among them.
    start: Bound
    end: Bound
    fails_on_data_loss: bool = True
    without_match: Literal["error", "latest"] = "error"  # Where no record is as late as the starting timestamp.
    has_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = _TRIGGER_DELAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    client: Mapping[str, str] = field(repr=False)
    topic: str | None = None
    has_headers: bool = False


def parse_source_options(given: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    options, client = _sort(given, _SOURCE_OPTIONS, what="source")
    start = _bound(options, "starting", EARLIEST if not is_streaming else LATEST)
    end = _bound(options, "ending", LATEST)
    if is_streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name in options:
                raise ConfigError(f"{name}: a streaming query has no end")
    elif _names(start, LATEST):
        raise ConfigError("startingOffsets: a batch query cannot begin at latest, where there is nothing yet")
    if _names(end, EARLIEST):
        raise ConfigError("endingOffsets: a query cannot end at earliest, where there is nothing yet")
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(f"startingOffsetsByTimestampStrategy={strategy} is neither error nor latest")
    least, most = _count(options, "minOffsetsPerTrigger"), _count(options, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return SourceOptions(
        subscription=_subscription(options),
        client=client,
        start=start,
        end=end,
        fails_on_data_loss=_flag(options, "failOnDataLoss", otherwise=True),
        without_match="latest" if strategy == "latest" else "error",
        has_headers=_flag(options, "includeHeaders", otherwise=False),
        min_partitions=_count(options, "minPartitions"),
        max_records_per_partition=_count(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_delay_ms(options, "maxTriggerDelay"),
    )


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    options, client = _sort(given, _SINK_OPTIONS, what="sink")
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("topic: the name is empty")
    return SinkOptions(client=client, topic=topic, has_headers=_flag(options, "includeHeaders", otherwise=False))


def _sort(given: Mapping[str, str], ours: Iterable[str], *, what: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our options under their usual spelling, and the client's without their prefix."""
    options, client = {}, {}
    allowed = set(ours)
    for key, value in given.items():
        name = _BY_LOWER.get(key.lower())
        if key.lower().startswith("kafka."):
            if (reason := _NOT_FOR_USERS.get(key.lower())) is not None:
                raise ConfigError(f"{key} cannot be set: {reason}")
            client[key[len("kafka.") :].lower()] = value
        elif name in allowed:
            options[name] = value
        elif key.lower() not in ("path", "checkpointlocation", "querymode"):
            known = ", ".join(sorted(allowed))
            raise ConfigError(f"{key} is not an option of this {what}; there are {known}, and kafka.* for the client")
    if "bootstrap.servers" not in client:
        raise ConfigError("kafka.bootstrap.servers must be set")
    return options, client


def _subscription(options: Mapping[str, str]) -> Subscription:
    ways = [name for name in ("assign", "subscribe", "subscribePattern") if name in options]
    if len(ways) != 1:
        told = f"there are {', '.join(ways)}" if ways else "there is none"
        raise ConfigError(f"exactly one of assign, subscribe and subscribePattern says what to read; {told}")
    text = options[ways[0]].strip()
    if not text:
        raise ConfigError(f"{ways[0]} is empty")
    match ways[0]:
        case "assign":
            partitions = _json(text, "assign", '{"topic": [0, 1]}')
            for numbers in partitions.values():
                if not isinstance(numbers, list) or not all(map(_is_partition, numbers)):
                    raise ConfigError(f'assign={text} is not like {{"topic": [0, 1]}}')
            return Assign({topic: tuple(numbers) for topic, numbers in partitions.items()})
        case "subscribe":
            topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
            if not topics:
                raise ConfigError("subscribe names no topic")
            return Subscribe(topics)
    try:
        return SubscribePattern(re.compile(text))
    except re.error as error:
        raise ConfigError(f"subscribePattern={text} is not a regular expression: {error}") from None


def _bound(options: Mapping[str, str], side: Literal["starting", "ending"], otherwise: int) -> Bound:
    """The first of three options that is given, in the order of the official connector."""
    if (text := options.get(f"{side}Timestamp")) is not None:
        return AtTimestamp(_timestamp(text, f"{side}Timestamp"))
    if (text := options.get(f"{side}OffsetsByTimestamp")) is not None:
        return ByPartition(_by_partition(text, f"{side}OffsetsByTimestamp", least=0), are_timestamps=True)
    text = options.get(f"{side}Offsets", "").strip()
    if not text:
        return otherwise
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    return ByPartition(_by_partition(text, f"{side}Offsets", least=EARLIEST), are_timestamps=False)


def _by_partition(text: str, name: str, *, least: int) -> dict[str, dict[int, int]]:
    example = '{"topic": {"0": 23, "1": -2}}'
    found: dict[str, dict[int, int]] = {}
    for topic, numbers in _json(text, name, example).items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"{name}={text} is not like {example}")
        for partition, offset in numbers.items():
            if not partition.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool) or offset < least:
                raise ConfigError(f"{name}: {partition!r}: {offset!r} of topic {topic!r} is not like {example}")
            found.setdefault(topic, {})[int(partition)] = offset
    return found


def _names(bound: Bound, place: int) -> bool:
    if isinstance(bound, int):
        return bound == place
    return (
        isinstance(bound, ByPartition)
        and not bound.are_timestamps
        and any(offset == place for offsets in bound.of.values() for offset in offsets.values())
    )


def _json(text: str, name: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}={text} is not JSON like {example}: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{name}={text} is not like {example}")
    return found


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _timestamp(text: str, name: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"{name}={text} is not a number of milliseconds since 1970")
    return int(text)


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"{name}={text} is not a number from 1 on")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, otherwise: bool) -> bool:
    text = options.get(name, str(otherwise)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={text} is neither true nor false")
    return text == "true"


def _delay_ms(options: Mapping[str, str], name: str) -> int:
    text = options.get(name)
    if text is None:
        return _TRIGGER_DELAY_MS
    found = _DELAY.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"{name}={text} is not a time like 15m or 30s")
    return int(found[1]) * _DELAY_MS[found[2] or "ms"]
