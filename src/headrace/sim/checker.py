"""Watches a node from outside, and says which of its promises it broke.

It is told what clients sent, were told and were served, which faults there were, and at the end what every log holds. A
request without an answer is *unknown*, never *failed*: what it sent may be there or not, now or later, but once.

Values name themselves: every record that is ever sent has a number of its own. It knows nothing of bytes, files or
nodes, and is itself tested on histories with each anomaly planted.

What may be lost follows from the promise of a topic and from *losses*: a loss is a moment after which unflushed data
may be gone (the power failed, or a sync). Whatever was acknowledged or read since the last loss must still be there; of
what is older, that which a promise covers, and that which a clean stop put on disk.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

ANOMALIES_MAX = 100


class Kind(Enum):
    LOST_WRITE = "an acknowledged record is gone, or its offset holds another"
    DUPLICATE = "a record is there twice"
    PHANTOM = "a record that nobody sent there"
    REORDERED = "a producer's records are not in the order in which it sent them"
    READ_CHANGED = "what was read at an offset is no longer there"
    EPOCH_REUSED = "an offset was given out again without a newer leader epoch"
    GAP = "an offset inside a log holds nothing"
    WRONG_PLACE = "an answer does not begin with the record that was asked for"
    BEYOND_WATERMARK = "a record was served from beyond the high watermark"
    DELETED_IS_BACK = "deleted records are back"
    DELETED_UNASKED = "records are gone that nobody asked to be deleted"
    TORN = "bytes were served that are no whole batch"
    TOPIC_LOST = "an acknowledged topic is gone"
    TOPIC_IS_BACK = "a deleted topic is back"
    CONFIG_LOST = "an acknowledged setting is not in force"
    PRODUCER_ID_REUSED = "two producers were given one id"
    FALSE_GAP = "a producer was told of a gap in its sequence that there cannot be"
    REFUSED = "an error for which there is no reason"
    STUCK = "nothing goes on any more though nothing is wrong"


class Anomaly(NamedTuple):
    kind: Kind
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} in {self.where}: {self.detail} ({self.kind.value})"


class Promise(NamedTuple):
    """What a topic's settings make of an acknowledgement and of a read; and whether old records go by themselves."""

    acknowledged_stays: bool
    read_stays: bool
    expires: bool = False


class Place(NamedTuple):
    """A partition of a topic with this id: one that is made anew under an old name is another."""

    topic_id: bytes
    partition: int


class Served(NamedTuple):
    offset: int
    epoch: int
    value: int


FOR_EVER = -1
ANY_OFFSET = float("inf")


class _Log:
    """What is known of one partition."""

    __slots__ = ("acknowledged", "by_epoch", "losses", "name", "promise", "read", "start", "start_max")

    def __init__(self, name: str, promise: Promise) -> None:
        self.name = name
        self.promise = promise
        self.losses = 0
        self.start = 0
        self.start_max: float = ANY_OFFSET if promise.expires else 0
        # Offset to value (and epoch), and the number of losses before: what it survives unless it is FOR_EVER.
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.read: dict[int, tuple[int, int, int]] = {}
        self.by_epoch: dict[tuple[int, int], int] = {}

    def stays(self, losses_before: int) -> bool:
        return losses_before in (FOR_EVER, self.losses)


class Checker:
    def __init__(self) -> None:
        self.anomalies: list[Anomaly] = []
        self.acknowledged_count = 0
        self.served_count = 0
        self._logs: dict[Place, _Log] = {}
        # Value to where it was sent, by whom, and as that producer's how-manieth there.
        self._sent: dict[int, tuple[Place, int, int]] = {}
        self._sent_counts: dict[tuple[int, Place], int] = {}
        self._topics: dict[str, tuple[bytes, int]] = {}
        self._unsure_topics: set[str] = set()
        self._deleted_ids: set[bytes] = set()
        # What a setting may be; None stands for what it was at first.
        self._configs: dict[tuple[bytes, str], set[str | None]] = {}
        self._producer_ids: set[int] = set()

    def found(self, kind: Kind, where: str, detail: str) -> None:
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(Anomaly(kind, where, detail))

    # --- Topics ----------------------------------------------------------------------------------------------

    def topic_made(self, name: str, topic_id: bytes, *, partitions: int, promise: Promise) -> None:
        """Its creation was acknowledged."""
        self._topics[name] = (topic_id, partitions)
        self._unsure_topics.discard(name)
        for partition in range(partitions):
            self._logs[Place(topic_id, partition)] = _Log(f"{name}-{partition}", promise)

    def topic_may_go(self, name: str) -> None:
        """Its deletion was asked for. From now on it may be there or not."""
        self._unsure_topics.add(name)

    def topic_gone(self, name: str, topic_id: bytes) -> None:
        """Its deletion was acknowledged."""
        self._deleted_ids.add(topic_id)
        if self._topics.get(name, (b"",))[0] == topic_id:
            del self._topics[name]
        for place in [place for place in self._logs if place.topic_id == topic_id]:
            del self._logs[place]

    def topics_listed(self, listed: dict[str, tuple[bytes, int]]) -> None:
        """Names, ids and numbers of partitions, as the node lists them."""
        for name, known in self._topics.items():
            if name not in self._unsure_topics and listed.get(name) != known:
                self.found(Kind.TOPIC_LOST, name, f"{known} was acknowledged, {listed.get(name)} is listed")
        for name, (topic_id, _) in listed.items():
            if topic_id in self._deleted_ids:
                self.found(Kind.TOPIC_IS_BACK, name, topic_id.hex())

    def config_sent(self, topic_id: bytes, key: str, value: str) -> None:
        self._configs.setdefault((topic_id, key), {None}).add(value)

    def config_set(self, topic_id: bytes, key: str, value: str) -> None:
        """It was acknowledged; what was sent before is overruled."""
        self._configs[topic_id, key] = {value}

    def config_seen(self, name: str, topic_id: bytes, key: str, value: str) -> None:
        possible = self._configs.get((topic_id, key))
        if possible is not None and None not in possible and value not in possible:
            self.found(Kind.CONFIG_LOST, name, f"{key} is {value}, not one of {possible}")

    # --- Faults ----------------------------------------------------------------------------------------------

    def lost_unflushed(self, place: Place | None = None) -> None:
        """The power failed; or, at one place, a sync."""
        for log in self._logs.values() if place is None else [self._logs[place]]:
            log.losses += 1

    def stopped_cleanly(self) -> None:
        """Everything that is there is on disk."""
        for log in self._logs.values():
            for offset, (value, losses) in log.acknowledged.items():
                if log.stays(losses):
                    log.acknowledged[offset] = (value, FOR_EVER)
            for offset, (value, epoch, losses) in log.read.items():
                if log.stays(losses):
                    log.read[offset] = (value, epoch, FOR_EVER)

    # --- Producers -------------------------------------------------------------------------------------------

    def producer_id_given(self, producer_id: int) -> None:
        if producer_id in self._producer_ids:
            self.found(Kind.PRODUCER_ID_REUSED, "node", str(producer_id))
        self._producer_ids.add(producer_id)

    def sending(self, producer: int, place: Place, values: Iterable[int]) -> None:
        """For the first time. Sending the same again is not told."""
        for value in values:
            number = self._sent_counts.get((producer, place), 0)
            self._sent_counts[producer, place] = number + 1
            self._sent[value] = (place, producer, number)

    def acknowledged(self, place: Place, base_offset: int, values: Sequence[int]) -> None:
        log = self._logs.get(place)
        if log is None:
            return
        mark = FOR_EVER if log.promise.acknowledged_stays else log.losses
        for offset, value in enumerate(values, base_offset):
            known = log.acknowledged.get(offset)
            if known is not None and known[0] != value and log.stays(known[1]):
                self.found(Kind.LOST_WRITE, log.name, f"{offset} was acknowledged for {known[0]} and for {value}")
            seen = log.read.get(offset)
            if seen is not None and seen[0] != value and log.stays(seen[2]):
                self.found(Kind.READ_CHANGED, log.name, f"{seen[0]} was read at {offset}, acknowledged for {value}")
            log.acknowledged[offset] = (value, mark)
        self.acknowledged_count += 1

    def told_of_gap(self, place: Place) -> None:
        """The first batch that a producer has no answer for was refused as out of order."""
        log = self._logs.get(place)
        if log is not None and (log.promise.acknowledged_stays or log.losses == 0):
            self.found(Kind.FALSE_GAP, log.name, "nothing acknowledged can have been lost")

    # --- Consumers -------------------------------------------------------------------------------------------

    def promised_start(self, place: Place) -> int:
        """Where a log starts at least, if it is asked now."""
        log = self._logs.get(place)
        return 0 if log is None else log.start

    def start_told(self, place: Place, start: int, *, promised: int) -> None:
        """`promised` is what was when the request was sent: an answer may be older than what is known when it comes."""
        log = self._logs.get(place)
        if log is not None and start < promised:
            self.found(Kind.DELETED_IS_BACK, log.name, f"the log starts at {start}, after {promised}")
        if log is not None and start > log.start_max:
            self.found(Kind.DELETED_UNASKED, log.name, f"the log starts at {start}, and should by {log.start_max}")

    def deleting_before(self, place: Place, offset: int | None) -> None:
        """That everything before an offset be deleted is asked for; None for everything that there is."""
        log = self._logs[place]
        log.start_max = max(log.start_max, ANY_OFFSET if offset is None else offset)

    def deleted_before(self, place: Place, offset: int) -> None:
        """It was acknowledged."""
        log = self._logs.get(place)
        if log is not None:
            log.start = max(log.start, offset)

    def was_read(self, place: Place, offset: int) -> bool:
        """Whether the record at an offset was read, and may not be lost any more."""
        log = self._logs.get(place)
        seen = log.read.get(offset) if log is not None else None
        return log is not None and seen is not None and log.stays(seen[2])

    def end_found(self, place: Place, offset: int) -> None:
        """A log ends before an offset up to which it was read: nothing is there, until something else is written."""
        log = self._logs.get(place)
        if log is not None:
            self.found(Kind.READ_CHANGED, log.name, f"the log was read up to {offset}, and ends before")

    def served(self, place: Place, asked_offset: int, records: Sequence[Served], *, high_watermark: int) -> None:
        """Records in the order in which they came."""
        log = self._logs.get(place)
        if log is None or not records:
            return
        self.served_count += len(records)
        # A batch is served whole, so the first records may be older than the one asked for.
        if not records[0].offset <= asked_offset <= records[-1].offset:
            self.found(Kind.WRONG_PLACE, log.name, f"{records[0].offset}..{records[-1].offset} for {asked_offset}")
        if records[-1].offset >= high_watermark:
            self.found(Kind.BEYOND_WATERMARK, log.name, f"{records[-1].offset}, watermark {high_watermark}")
        self._compare(place, log, records)

    def _compare(self, place: Place, log: _Log, records: Sequence[Served]) -> None:
        mark = FOR_EVER if log.promise.read_stays else log.losses
        expected = records[0].offset
        for offset, epoch, value in records:
            if offset != expected:
                self.found(Kind.GAP, log.name, f"{offset} follows {expected - 1}")
            expected = offset + 1
            sent = self._sent.get(value)
            if sent is None or sent[0] != place:
                self.found(Kind.PHANTOM, log.name, f"{value} at {offset}, sent to {sent}")
            if log.by_epoch.setdefault((offset, epoch), value) != value:
                was = log.by_epoch[offset, epoch]
                self.found(Kind.EPOCH_REUSED, log.name, f"{was} and {value} at {offset} in epoch {epoch}")
            seen = log.read.get(offset)
            if seen is not None and seen[0] != value:
                if log.stays(seen[2]):
                    self.found(Kind.READ_CHANGED, log.name, f"{seen[0]}, then {value} at {offset}")
                if epoch <= seen[1]:
                    self.found(Kind.EPOCH_REUSED, log.name, f"{value} at {offset} in {epoch} after {seen[1]}")
            log.read[offset] = (value, epoch, mark)
            known = log.acknowledged.get(offset)
            if known is not None and known[0] != value and log.stays(known[1]):
                self.found(Kind.LOST_WRITE, log.name, f"{offset} was acknowledged for {known[0]}, and holds {value}")

    # --- The end ---------------------------------------------------------------------------------------------

    def final(self, place: Place, records: Sequence[Served], *, start: int, end: int) -> None:
        """All that a log holds from its start to its end, when everything has come to rest."""
        log = self._logs.get(place)
        if log is None:
            return
        self.start_told(place, start, promised=log.start)
        offsets = [record.offset for record in records if record.offset >= start]
        if offsets != list(range(start, end)):
            self.found(Kind.GAP, log.name, f"{len(offsets)} records in {start}..{end}")
        if records:
            self._compare(place, log, records)
        holds = {record.offset: record.value for record in records}
        for offset, (value, losses) in log.acknowledged.items():
            if offset >= start and offset not in holds and log.stays(losses):
                self.found(Kind.LOST_WRITE, log.name, f"{value}, acknowledged at {offset}, of a log that ends at {end}")
        for offset, (value, _, losses) in log.read.items():
            if offset >= start and offset not in holds and log.stays(losses):
                self.found(Kind.READ_CHANGED, log.name, f"{value}, read at {offset}, of a log that ends at {end}")
        self._check_order(log, records)

    def _check_order(self, log: _Log, records: Sequence[Served]) -> None:
        at: dict[int, int] = {}
        last: dict[int, int] = {}
        for offset, _, value in records:
            if value in at:
                self.found(Kind.DUPLICATE, log.name, f"{value} at {at[value]} and {offset}")
                continue
            at[value] = offset
            if value in self._sent:
                _, producer, number = self._sent[value]
                if number < last.get(producer, -1):
                    self.found(Kind.REORDERED, log.name, f"{value} of producer {producer} at {offset}")
                last[producer] = number
