"""`read` and `follow`: topics of any Kafka as Arrow.

    table = read("localhost:9092", "clicks", columns=["offset", "value"]).read_all()

A `Scan` is one reading: it settles which offsets are meant, then decodes what `fetching` brings. It is what `read` and
`follow` are made of, for those who want to know more: how far it is, how much it fetched.
"""

import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import pyarrow as pa

from headrace.columnar.decoding import decode
from headrace.columnar.fetching import Prefetch
from headrace.columnar.positions import Position, Positions, Range, check_names, choose, settle, timestamp_asked
from headrace.columnar.rebatching import rebatch
from headrace.columnar.schema import COLUMNS, schema_of
from headrace.errors import ConfigError, CorruptBatch
from headrace.ids import TopicName, TopicPartition
from headrace.wire.cluster import Cluster
from headrace.wire.errors import Unavailable, UnknownPartition
from headrace.wire.offsets import EARLIEST, LATEST, list_offsets
from headrace.wire.settings import ClientSettings, Config, client_settings

Bootstrap = str | Sequence[str] | ClientSettings
# A topic, several, or some partitions of each.
Topics = str | Sequence[str] | Mapping[str, Sequence[int]]
Isolation = Literal["read_committed", "read_uncommitted"]
Missing = Literal["error", "skip"]

MEMORY_BYTES: Final = 96 << 20
_MEMORY_BYTES_MIN: Final = 4 << 20
_LOOK_S: Final = 0.5  # How often a reader that waits looks whether it should stop.


def read(
    bootstrap: Bootstrap,
    topics: Topics,
    *,
    start: Positions = "earliest",
    end: Positions = "latest",
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    batch_bytes: int | None = None,
    isolation: Isolation = "read_committed",
    missing: Missing = "error",
    memory_bytes: int = MEMORY_BYTES,
    config: Config = None,
) -> pa.RecordBatchReader:
    """The records from `start` up to, not with, `end`, which is settled before the first is read.

    Order is kept within a partition. `missing` says what to do about offsets that were deleted: an `OffsetsGone`, or to
    go on with the first that is there. `config` takes client settings in librdkafka's or in Java's names, or the path
    of a properties file.
    """
    scan = Scan(
        bootstrap,
        topics,
        start=start,
        end=end,
        columns=columns,
        isolation=isolation,
        missing=missing,
        memory_bytes=memory_bytes,
        config=config,
    )
    return scan.reader(batch_rows=batch_rows, batch_bytes=batch_bytes)


def follow(
    bootstrap: Bootstrap,
    topics: Topics,
    *,
    start: Positions = "latest",
    columns: Sequence[str] | None = None,
    isolation: Isolation = "read_committed",
    missing: Missing = "error",
    memory_bytes: int = MEMORY_BYTES,
    stop: threading.Event | None = None,
    config: Config = None,
) -> pa.RecordBatchReader:
    """The records from `start` on, and then each as it comes, without end, partitions that are added included.

    Once `stop` is set, the reader ends at its next look, which it takes twice a second.
    """
    scan = Scan(
        bootstrap,
        topics,
        start=start,
        end=None,
        columns=columns,
        isolation=isolation,
        missing=missing,
        memory_bytes=memory_bytes,
        stop=stop,
        config=config,
    )
    return scan.reader()


class Scan:
    """One reading, begun when it is made: `ranges` says of what. To be iterated over once, and closed."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        topics: Topics,
        *,
        start: Positions = "earliest",
        end: Positions | None = "latest",
        columns: Sequence[str] | None = None,
        isolation: Isolation = "read_committed",
        missing: Missing = "error",
        memory_bytes: int = MEMORY_BYTES,
        stop: threading.Event | None = None,
        config: Config = None,
    ) -> None:
        self.columns = tuple(COLUMNS if columns is None else columns)
        self.schema = schema_of(self.columns)
        _check_choice("isolation", isolation, ("read_committed", "read_uncommitted"))
        _check_choice("missing", missing, ("error", "skip"))
        if memory_bytes < _MEMORY_BYTES_MIN:
            raise ConfigError(f"memory_bytes={memory_bytes}: at least {_MEMORY_BYTES_MIN} are needed")
        settings = bootstrap if isinstance(bootstrap, ClientSettings) else client_settings(bootstrap, config)
        self._topics = topics
        self._read_committed = isolation == "read_committed"
        self._skip_missing = missing == "skip"
        self._is_endless = end is None
        self._stop = stop or threading.Event()
        self._looked_s = time.monotonic()  # When we last looked for partitions that were added.
        self._cluster = Cluster(settings)
        weakref.finalize(self, self._cluster.close)  # Of a scan that nobody iterated over.
        try:
            places = self._find_places()
            self.ranges = self._settle(places, start, end)
            self._positions = {place: first for place, first, _ in self.ranges}
            self._prefetch = Prefetch(
                self._cluster,
                self.ranges,
                read_committed=self._read_committed,
                skip_missing=self._skip_missing,
                memory_bytes=memory_bytes,
            )
        except BaseException:
            self._cluster.close()
            raise

    # --- Reading -------------------------------------------------------------------------------------------------

    def reader(self, *, batch_rows: int | None = None, batch_bytes: int | None = None) -> pa.RecordBatchReader:
        """All of it; the scan is closed when the reader ends or is let go."""
        for word, size in (("batch_rows", batch_rows), ("batch_bytes", batch_bytes)):
            if size is not None and size < 1:
                self.close()
                raise ConfigError(f"{word}={size} is not at least 1")
        batches = rebatch(self, rows_max=batch_rows, bytes_max=batch_bytes)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        ends = {place: end for place, _, end in self.ranges}
        try:
            while (taken := self._prefetch.poll(_LOOK_S)) is not None and not self._stop.is_set():
                for place, opened, first_offset in taken:
                    try:
                        batch = decode(
                            opened,
                            topic=place.topic,
                            partition=place.partition,
                            columns=self.columns,
                            first_offset=first_offset,
                            end_offset=ends.get(place),
                        )
                    except CorruptBatch as error:
                        raise CorruptBatch(f"{place}: {error}") from None
                    assert opened.next_offset is not None
                    self._positions[place] = opened.next_offset
                    if batch.num_rows:
                        yield batch
                if self._is_endless:
                    self._look_for_partitions()
        finally:
            self.close()

    def close(self) -> None:
        self._prefetch.close()
        self._cluster.close()

    # --- How it stands -------------------------------------------------------------------------------------------

    @property
    def bytes_fetched(self) -> int:
        return self._prefetch.bytes_fetched

    @property
    def throttled_ms(self) -> int:
        """For so long in all a broker said that it holds answers back, for a quota's sake: of several the one that did
        so for longest, for they do it at the same time."""
        return self._prefetch.throttled_ms

    @property
    def memory_used_bytes(self) -> int:
        """What is fetched and not yet decoded, and what is asked for."""
        return self._prefetch.memory_used_bytes

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset that comes next in each partition, of what was yielded."""
        return dict(self._positions)

    # --- Which offsets -------------------------------------------------------------------------------------------

    def _find_places(self) -> list[TopicPartition]:
        topics = self._topics
        if isinstance(topics, str):
            topics = [topics]
        if not topics:
            raise ConfigError("no topic is named")
        places = []
        for name in topics:
            there = self._cluster.partitions(name)
            wanted: Sequence[int] = topics[name] if isinstance(topics, Mapping) else there
            for partition in wanted:
                if partition not in there:
                    raise UnknownPartition(name, partition, count=len(there))
                places.append(TopicPartition(TopicName(name), partition))
        return places

    def _settle(self, places: Sequence[TopicPartition], start: Positions, end: Positions | None) -> list[Range]:
        check_names(start, places, word="start")
        # The beginning is asked for first and the end last: both move on meanwhile, and what lies between must not seem
        # to be outside.
        earliest = self._ask(dict.fromkeys(places, EARLIEST))
        starts = self._offsets_of(start, places, "start", "earliest")
        ends: Mapping[TopicPartition, int | None] = dict.fromkeys(places)
        if end is not None:
            check_names(end, places, word="end")
            ends = self._offsets_of(end, places, "end", "latest")
        latest = self._ask(dict.fromkeys(places, LATEST))
        return [
            settle(
                place,
                start=starts[place],
                end=ends[place],
                earliest=earliest[place],
                latest=latest[place],
                skip_missing=self._skip_missing,
            )
            for place in places
        ]

    def _offsets_of(
        self, positions: Positions, places: Sequence[TopicPartition], word: str, otherwise: Position
    ) -> dict[TopicPartition, int]:
        """Offsets, asking for those that are meant by name or by time."""
        offsets: dict[TopicPartition, int] = {}
        asked: dict[TopicPartition, int] = {}
        for place in places:
            position = choose(positions, place, otherwise=otherwise)
            timestamp = timestamp_asked(position, word=word)
            if timestamp is None:
                assert isinstance(position, int)
                offsets[place] = position
            else:
                asked[place] = timestamp
        return offsets | self._ask(asked)

    def _ask(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = list_offsets(self._cluster, wanted, read_committed=self._read_committed)
        return {place: at.offset for place, at in found.items()}

    def _look_for_partitions(self) -> None:
        """Partitions that were added since, from their beginning: nobody can have read of them."""
        cluster = self._cluster
        now_s = time.monotonic()
        if isinstance(self._topics, Mapping) or now_s < self._looked_s + cluster.settings.metadata_age_s_max:
            return
        if cluster.metadata_age_s >= cluster.settings.metadata_age_s_max:
            try:
                cluster.refresh(timeout_s=_LOOK_S)
            except Unavailable:
                return  # Whoever fetches waits for the cluster; we look again at our next turn.
        self._looked_s = now_s
        added = [place for place in self._find_places() if place not in self._positions]
        if added:
            ranges = [Range(place, offset, None) for place, offset in self._ask(dict.fromkeys(added, EARLIEST)).items()]
            self.ranges += ranges
            self._positions |= {place: first for place, first, _ in ranges}
            self._prefetch.add(ranges)


def _check_choice(word: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise ConfigError(f"{word}={given!r} is neither {' nor '.join(choices)}")
