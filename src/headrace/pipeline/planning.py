"""Which partitions a query reads, and which offsets its bounds mean, as its driver finds out.

Offsets are settled by asking the leaders. What is asked for and not there is an error with a name, as in the official
connector, unless the query says that it does not mind losing data.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from headrace.errors import ConfigError, HeadraceError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.options import (
    EARLIEST,
    LATEST,
    Assign,
    AtTimestamp,
    Bound,
    SourceOptions,
    Subscribe,
)
from headrace.wire.cluster import Cluster
from headrace.wire.errors import UnknownPartition
from headrace.wire.offsets import list_offsets
from headrace.wire.settings import client_settings

_NOT_FOUND: Final = -1

Offsets = dict[TopicPartition, int]


class DataLoss(HeadraceError):
    """Offsets that the query has to read are gone. `failOnDataLoss=false` goes on with what is there."""


class Planner:
    """A driver's connection to the cluster, kept as long as its query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._settings = client_settings(config=client_config(options.client))
        self._cluster = Cluster(self._settings)
        self._read_committed = is_read_committed(options.client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def partitions(self) -> list[TopicPartition]:
        """All that the subscription means at this moment."""
        subscription = self._options.subscription
        if isinstance(subscription, Assign):
            wanted = {topic: list(numbers) for topic, numbers in subscription.partitions.items()}
            for topic, numbers in wanted.items():
                there = self._cluster.partitions(topic)
                for number in numbers:
                    if number not in there:
                        raise UnknownPartition(topic, number, count=len(there))
        elif isinstance(subscription, Subscribe):
            self._cluster.refresh(subscription.topics)
            wanted = {topic: list(self._cluster.partitions(topic)) for topic in subscription.topics}
        else:
            pattern = subscription.pattern
            wanted = {
                name: list(range(len(topic.partitions)))
                for name, topic in self._cluster.all_topics().items()
                if pattern.fullmatch(name) and not topic.is_internal
            }
        return [TopicPartition(TopicName(topic), number) for topic in sorted(wanted) for number in wanted[topic]]

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(places, LATEST))

    def resolve(self, bound: Bound, places: list[TopicPartition], *, is_start: bool) -> Offsets:
        """The offsets that a bound means in these partitions."""
        if isinstance(bound, int):
            return self._ask(dict.fromkeys(places, bound))
        if isinstance(bound, AtTimestamp):
            return self._at(dict.fromkeys(places, bound.timestamp_ms), is_start=is_start)
        given = {
            TopicPartition(TopicName(topic), number): value
            for topic, numbers in bound.of.items()
            for number, value in numbers.items()
        }
        self._check_names(given, places, is_start=is_start)
        if bound.are_timestamps:
            return self._at(given, is_start=is_start)
        named = {place: value for place, value in given.items() if value in (EARLIEST, LATEST)}
        return given | self._ask(named)

    def check_start(self, start: Offsets, earliest: Mapping[TopicPartition, int]) -> Offsets:
        """A start that the log still has."""
        checked = {}
        for place, offset in start.items():
            if offset < earliest[place] and self._options.fails_on_data_loss:
                raise DataLoss(
                    f"{place} begins at offset {earliest[place]}: {offset} and what follows is gone. "
                    "failOnDataLoss=false reads what is there"
                )
            checked[place] = max(offset, earliest[place])
        return checked

    def _check_names(self, given: Iterable[TopicPartition], places: list[TopicPartition], *, is_start: bool) -> None:
        word = "startingOffsets" if is_start else "endingOffsets"
        for missing in sorted(set(places).difference(given)):
            raise ConfigError(f"{word} says nothing of {missing}; every partition that is read has to be in it")
        for strange in sorted(set(given).difference(places)):
            raise ConfigError(f"{word} names {strange}, which is not read")

    def _at(self, timestamps: Mapping[TopicPartition, int], *, is_start: bool) -> Offsets:
        found = self._ask(timestamps)
        without = [place for place, offset in found.items() if offset == _NOT_FOUND]
        if without and is_start and self._options.without_match == "error":
            raise ConfigError(
                f"no record of {without[0]} is as late as {timestamps[without[0]]} ms. "
                "startingOffsetsByTimestampStrategy=latest begins with what comes"
            )
        return found | (self.latest(without) if without else {})

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        found = list_offsets(self._cluster, wanted, read_committed=self._read_committed)
        return {place: at.offset for place, at in found.items()}


def client_config(client: Mapping[str, str]) -> dict[str, str]:
    """The client's settings without those that only a consumer has a use for."""
    return {name: value for name, value in client.items() if name not in ("isolation.level", "group.id")}


def is_read_committed(client: Mapping[str, str]) -> bool:
    """By default a consumer sees everything, here as in the official connector."""
    level = client.get("isolation.level", "read_uncommitted").lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise ConfigError(f"kafka.isolation.level={level} is neither read_committed nor read_uncommitted")
    return level == "read_committed"

