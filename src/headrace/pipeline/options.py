"""The options of Spark's own Kafka connector, understood as it understands them.

A program switches to `format("headrace")` by changing one word, so names, defaults and refusals are the official ones.
Names are compared without case, as Spark's options are; those that begin with `kafka.` are client settings. None is
ignored: an option that is not known, one of the official ones that there is no use for here, and a client setting that
this client does not have are errors that name it. `docs/spark.md` has the table. Knows nothing of Spark.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from headrace.errors import ConfigError
from headrace.pipeline.client_options import ProducerOptions, take_client, take_isolation, take_producer
from headrace.wire.offsets import EARLIEST, LATEST
from headrace.wire.settings import ClientSettings

_WHAT_TO_READ: Final = ("assign", "subscribe", "subscribePattern")
_BATCH_ALONE: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STREAM_ALONE: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
SOURCE: Final = (
    *_WHAT_TO_READ,
    *("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "startingOffsetsByTimestampStrategy"),
    *_BATCH_ALONE,
    *_STREAM_ALONE,
    *("failOnDataLoss", "includeHeaders", "minPartitions", "maxRecordsPerPartition"),
)
SINK: Final = ("topic", "includeHeaders", "stamps")
# Official ones that there is no use for here, and what to use instead.
LACKING: Final = {
    "kafkaConsumer.pollTimeoutMs": "a task waits as long as kafka.default.api.timeout.ms",
    "fetchOffset.numRetries": "offsets are asked for again and again, as long as kafka.default.api.timeout.ms",
    "fetchOffset.retryIntervalMs": "use kafka.retry.backoff.ms",
    "groupIdPrefix": "nothing here reads as a group",
    "path": "say with subscribe, subscribePattern, assign or topic what is meant",
}
# Spark's own, which it hands on with ours.
_SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
_SPELLING: Final = {name.lower(): name for name in (*SOURCE, *SINK, *LACKING)}

_DELAY: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DELAY_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TRIGGER_DELAY_MS: Final = 15 * 60_000


class ByPartition(NamedTuple):
    """Offsets, EARLIEST or LATEST for each partition by name; or timestamps in milliseconds."""

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
    client: ClientSettings
    is_read_committed: bool
    start: Bound
    end: Bound
    fails_on_data_loss: bool
    without_match: Literal["error", "latest"]  # Where no record is as late as the starting timestamp.
    has_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    client: ClientSettings
    producer: ProducerOptions
    topic: str | None
    has_stamps: bool = False  # Ours alone: the official sink has nothing that tells a repeat.


def parse_source_options(given: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    options, client = _sort(given, SOURCE, what="source")
    _refuse_of_the_other(options, is_streaming=is_streaming)
    start = _bound(options, "starting", LATEST if is_streaming else EARLIEST)
    end = _bound(options, "ending", LATEST)
    if not is_streaming and _names(start, LATEST):
        raise ConfigError("startingOffsets: a batch query cannot begin at latest, where there is nothing yet")
    if _names(end, EARLIEST):
        raise ConfigError("endingOffsets: a query cannot end at earliest, where there is nothing yet")
    strategy = options.get("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(f"startingOffsetsByTimestampStrategy={strategy} is neither error nor latest")
    least, most = _count(options, "minOffsetsPerTrigger"), _count(options, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return SourceOptions(
        subscription=_subscription(options),
        is_read_committed=take_isolation(client),
        client=take_client(client),
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
    options, client = _sort(given, SINK, what="sink")
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise ConfigError("topic: the name is empty")
    # Headers are written where the frame has them, whatever this says: the official sink takes it, and does the same.
    _flag(options, "includeHeaders", otherwise=False)
    return SinkOptions(
        producer=take_producer(client),
        client=take_client(client),
        topic=None if topic is None else topic.strip(),
        has_stamps=_flag(options, "stamps", otherwise=False),
    )


def wants_headers(given: Mapping[str, str]) -> bool:
    """Whether a source is to have the column `headers`, which Spark asks before it says what the source is for."""
    options = {name.lower(): value for name, value in given.items()}
    return _flag({"includeHeaders": options.get("includeheaders", "false")}, "includeHeaders", otherwise=False)


def _sort(given: Mapping[str, str], ours: Iterable[str], *, what: str) -> tuple[dict[str, str], dict[str, str]]:
    """Our options in their usual spelling, and the client's without their prefix."""
    options, client = {}, {}
    allowed = set(ours)
    for key, value in given.items():
        name = _SPELLING.get(key.lower(), key)
        if key.lower().startswith("kafka."):
            client[key[len("kafka.") :].lower()] = value
        elif name in allowed:
            options[name] = value
        elif name in LACKING:
            raise ConfigError(f"{name} means nothing to headrace: {LACKING[name]}")
        elif key.lower() not in _SPARKS:
            known = ", ".join(sorted(allowed))
            raise ConfigError(f"{name} is not an option of this {what}; there are {known}, and kafka.* for the client")
    if "bootstrap.servers" not in client:
        raise ConfigError("kafka.bootstrap.servers must be set")
    return options, client


def _refuse_of_the_other(options: Mapping[str, str], *, is_streaming: bool) -> None:
    for name in _BATCH_ALONE if is_streaming else _STREAM_ALONE:
        if name in options:
            why = "a streaming query has no end" if is_streaming else "a batch query has no triggers"
            raise ConfigError(f"{name}: {why}")


def _subscription(options: Mapping[str, str]) -> Subscription:
    ways = [name for name in _WHAT_TO_READ if name in options]
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
            return Assign({topic: tuple(sorted(set(numbers))) for topic, numbers in partitions.items()})
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
    text = options.get(f"{side}Offsets")
    if text is None:
        return otherwise
    if text.strip().lower() in ("earliest", "latest"):
        return EARLIEST if text.strip().lower() == "earliest" else LATEST
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
