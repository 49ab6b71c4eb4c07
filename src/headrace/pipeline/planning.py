"""Which partitions a query reads, and which offsets its bounds mean, as its driver finds out.

Offsets are settled by asking the leaders. What has to be read and is not there is a `DataLoss`, unless the query says
that it does not mind (`failOnDataLoss=false`): then it reads what there is.

Where a stream begins at the latest offset, it begins at LATEST itself: the end that its first batch wrote down is where
it begins, also when that batch has to be repeated after a crash. An offset asked for anew would leave out what came in
between.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from headrace.errors import ConfigError, HeadraceError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.options import Assign, AtTimestamp, Bound, ByPartition, SourceOptions, Subscribe
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.cluster import Cluster
from headrace.wire.errors import UnknownPartition
from headrace.wire.offsets import EARLIEST, LATEST, list_offsets

# A leader that was elected a moment ago may not know yet how far its log is committed.
_STALE_TRIES: Final = 3
_STALE_PAUSE_S: Final = 1.0
_NOT_FOUND: Final = -1

Offsets = dict[TopicPartition, int]


class DataLoss(HeadraceError):
    """Offsets that the query has to read are gone. `failOnDataLoss=false` goes on with what is there."""


class Planner:
    """A driver's connection to the cluster, kept as long as its query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    # --- A batch query -------------------------------------------------------------------------------------------

    def batch_ranges(self) -> list[OffsetRange]:
        """What a batch query reads, of every partition."""
        options = self._options
        places = self.partitions()
        # The beginning is asked for first and the end last: both move on meanwhile.
        earliest = self.earliest(places)
        start = self._named(self._resolve(options.start, places, side="starting"))
        end = self._named(self._resolve(options.end, places, side="ending"))
        latest = self.latest(places)
        if options.start != EARLIEST:
            _check_order(start, end)
        ranges = []
        for place in places:
            whole = OffsetRange(place, start[place], self._not_beyond(latest[place], place, end[place]))
            ranges.append(self._still_there(whole, earliest[place]))
        return ranges

    # --- A streaming query ---------------------------------------------------------------------------------------

    def stream_start(self) -> Offsets:
        """Where a stream begins: offsets, and LATEST where it begins with what comes."""
        places = self.partitions()
        start = self._resolve(self._options.start, places, side="starting")
        return start | self._ask({place: EARLIEST for place, offset in start.items() if offset == EARLIEST})

    def stream_waiting(self, start: Offsets, latest: Offsets) -> list[OffsetRange]:
        """What a stream has not read of each partition: those that came since `start` from their beginning."""
        self._report_gone(start, latest)
        begun = start | self._first_of_added(start, latest)
        waiting = [
            OffsetRange(place, end if begun[place] == LATEST else begun[place], end) for place, end in latest.items()
        ]
        self._report_shorter(waiting)
        return waiting

    def stream_ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What one batch of a stream reads. A repeated one was planned when the log may have been another."""
        latest = self.latest_since(end)
        self._report_gone(end, latest)
        ends = {
            place: self._not_beyond(latest[place], place, offset) for place, offset in end.items() if place in latest
        }
        waiting = self.stream_waiting(start, ends)
        earliest = self.earliest(each.place for each in waiting if each.size)
        return [self._still_there(each, earliest.get(each.place, each.first)) for each in waiting]

    def latest_since(self, start: Offsets) -> Offsets:
        """Where all partitions end now; asked again where that is before what was read of them."""
        latest = self.latest(self.partitions())
        for _ in range(_STALE_TRIES - 1):
            if all(offset >= start.get(place, offset) for place, offset in latest.items()):
                break
            time.sleep(_STALE_PAUSE_S)
            latest = self.latest(self.partitions())
        return latest

    # --- What is there -------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """All that the subscription means at this moment."""
        subscription = self._options.subscription
        wanted: dict[str, Iterable[int]]
        if isinstance(subscription, Assign):
            wanted = dict(subscription.partitions)
            self._cluster.refresh(wanted)
            for topic, numbers in wanted.items():
                there = self._cluster.partitions(topic)
                for number in numbers:
                    if number not in there:
                        raise UnknownPartition(topic, number, count=len(there))
        elif isinstance(subscription, Subscribe):
            self._cluster.refresh(subscription.topics)
            wanted = {topic: self._cluster.partitions(topic) for topic in subscription.topics}
        else:
            wanted = {
                name: range(len(topic.partitions))
                for name, topic in self._cluster.all_topics().items()
                if subscription.pattern.search(name) and not topic.is_internal
            }
        return [TopicPartition(TopicName(topic), number) for topic in sorted(wanted) for number in wanted[topic]]

    def earliest(self, places: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(places, EARLIEST))

    def latest(self, places: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(places, LATEST))

    # --- Bounds --------------------------------------------------------------------------------------------------

    def _resolve(self, bound: Bound, places: list[TopicPartition], *, side: str) -> Offsets:
        """The offsets that a bound means in these partitions; EARLIEST and LATEST are left as they are."""
        if isinstance(bound, int):
            return dict.fromkeys(places, bound)
        if isinstance(bound, AtTimestamp):
            return self._at(dict.fromkeys(places, bound.timestamp_ms), side=side)
        given = {
            TopicPartition(TopicName(topic), number): value
            for topic, numbers in bound.of.items()
            for number, value in numbers.items()
        }
        _check_names(bound, given, places, side=side)
        return self._at(given, side=side) if bound.are_timestamps else given

    def _at(self, timestamps: Mapping[TopicPartition, int], *, side: str) -> Offsets:
        found = self._ask(timestamps)
        without = [place for place, offset in found.items() if offset == _NOT_FOUND]
        if without and side == "starting" and self._options.without_match == "error":
            raise ConfigError(
                f"no record of {without[0]} is as late as {timestamps[without[0]]} ms. "
                "startingOffsetsByTimestampStrategy=latest begins with what comes"
            )
        return found | dict.fromkeys(without, LATEST)

    def _named(self, offsets: Offsets) -> Offsets:
        """With what EARLIEST and LATEST mean."""
        return offsets | self._ask({place: at for place, at in offsets.items() if at in (EARLIEST, LATEST)})

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        found = list_offsets(self._cluster, wanted, read_committed=self._options.is_read_committed)
        return {place: at.offset for place, at in found.items()}

    # --- What is gone --------------------------------------------------------------------------------------------

    def _report(self, loss: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{loss}. failOnDataLoss=false reads what is there")

    def _report_gone(self, known: Iterable[TopicPartition], there: Collection[TopicPartition]) -> None:
        for place in sorted(set(known).difference(there)):
            self._report(f"{place} is not there any more, and something of it may not have been read")

    def _report_shorter(self, ranges: Iterable[OffsetRange]) -> None:
        for place, first, end in ranges:
            if end < first:
                self._report(f"{place} was read up to offset {first} and ends at {end} now: another log has its name")

    def _first_of_added(self, start: Offsets, latest: Iterable[TopicPartition]) -> Offsets:
        added = self.earliest(place for place in latest if place not in start)
        for place, first in added.items():
            if first > 0:
                self._report(f"{place} is new to this query and begins at offset {first}: what was before is gone")
        return added

    def _not_beyond(self, latest: int, place: TopicPartition, end: int) -> int:
        if end > latest:
            self._report(f"{place} ends at offset {latest}, before the end that was asked for, {end}")
        return min(end, latest)

    def _still_there(self, whole: OffsetRange, earliest: int) -> OffsetRange:
        if whole.size and whole.first < earliest:
            self._report(f"{whole.place} begins at offset {earliest}: {whole.first} and what follows is gone")
            return whole._replace(first=earliest)
        return whole


def _check_names(
    bound: ByPartition, given: Iterable[TopicPartition], places: Iterable[TopicPartition], *, side: str
) -> None:
    word = f"{side}OffsetsByTimestamp" if bound.are_timestamps else f"{side}Offsets"
    for missing in sorted(set(places).difference(given)):
        raise ConfigError(f"{word} says nothing of {missing}; every partition that is read has to be in it")
    for strange in sorted(set(given).difference(places)):
        raise ConfigError(f"{word} names {strange}, which is not read")


def _check_order(start: Offsets, end: Offsets) -> None:
    for place, first in start.items():
        if first > end[place]:
            raise ConfigError(f"{place}: the start, offset {first}, lies behind the end, {end[place]}")
