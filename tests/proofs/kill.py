"""Real producers, a real consumer, and SIGKILL at moments chosen by a seed.

One node serves three topics, each with its own idea of when a record is safe: flushed before it is acknowledged,
flushed when the system likes, flushed before it is shown. In every round two idempotent producers write to all of
them, one that lives as long as the data and one that is new; somewhere on the way the node is killed, sometimes again
while it recovers, and the producers carry on with its successor. Then everything is read back.

The kernel seldom lets a kill cut a write short, so in some rounds the beginning of a batch is put behind the last one,
as if it had.

A round is rerun with those before it in its slice, because they share a data directory. The seed decides what is sent
and where the kill is aimed; the operating system decides exactly where it strikes.
"""

import itertools
import os
import random
import signal
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, TopicPartition

from headrace.protocol.batch import whole_batches, write_placement
from headrace.testing.node_process import NodeProcess
from tests.oracle.toolbox import ToolMissing
from tests.proofs.ledger import Anomaly, Ledger, Place
from tests.proofs.nodes import START_S_MAX, connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import Reading, create_topic, leader_epochs, wait_visible
from tests.proofs.tracing import Tracer, check_strace
from tests.proofs.writer import CLIENT, Watch, Writer, wait_delivered

SHOWN_LATE: Final = "shown-late"
_NEVER: Final = str(2**63 - 1)
_SEGMENT: Final = {"internal.segment.bytes": str(512 << 10)}
TOPICS: Final = {
    "flushed": _SEGMENT,  # By the node's own log.flush.interval.messages=1.
    "lazy": _SEGMENT | {"flush.messages": _NEVER},
    SHOWN_LATE: _SEGMENT | {"flush.messages": _NEVER, "flush.before.expose": "true"},
}
PARTITIONS: Final = 2
PLACES: Final = tuple(Place(topic, partition) for topic in TOPICS for partition in range(PARTITIONS))
# One checkpoint a second instead of one a minute, so that kills find some, and find them half done.
SETTINGS: Final = {"log.flush.interval.messages": "1", "log.flush.offset.checkpoint.interval.ms": "1000"}

# What a node does between two kills: appends, answers, rolls and replaces files.
# The n-th of these calls is chosen up to so many.
AIMS: Final = {"write": 300, "sendmsg": 150, "openat": 12, "rename": 8}


def run(work: Slice) -> Facts:
    slice_ = _Kills(work)
    with running(slice_.node):
        slice_.create_topics()
        for number in work.each():
            slice_.round(number)
        slice_.node.stop()
        slice_.count_torn_tails()
    return slice_.facts()


class _Kills:
    """One data directory and all that is known about it."""

    def __init__(self, work: Slice) -> None:
        self.node = NodeProcess(work.scratch / "data", settings=SETTINGS)
        self._trace = work.scratch / "strace.txt"
        self._can_trace = _can_trace()
        self._ledger = Ledger()
        self._readings = {place: Reading(place) for place in PLACES}
        self._writer_numbers = itertools.count()
        self._lasting: Writer | None = None
        self._counts: Facts = dict.fromkeys(
            ("kills_at_any_moment", "kills_inside_a_call", "kills_while_starting", "writes_cut_short", "clean_stops"), 0
        )
        self._messages_seen = 0
        self._start_s_max = 0.0
        self._torn_tails = 0

    def create_topics(self) -> None:
        with connect(self.node) as wire:
            for topic, settings in TOPICS.items():
                code = create_topic(wire, topic, partitions=PARTITIONS, settings=settings)
                assert code == 0, f"topic {topic} was not created: error {code}"

    def round(self, number: int) -> None:
        chance = random.Random(f"kill {number}")
        writers = [self._lasting_writer(chance), self._writer(chance)]
        load = list(_load(chance, writers))
        with connect(self.node) as wire:
            epochs = leader_epochs(wire, list(TOPICS))
        with _Reader(self.node.bootstrap, self._readings) as reader:
            self._send_and_kill(chance, writers, load)
            if chance.random() < 0.4:
                self._tear(chance)
            if chance.random() < 0.25:
                self.node.launch()
                time.sleep(chance.uniform(0.02, 0.6))
                self.node.kill()
                self._counts["kills_while_starting"] += 1
            self._start()
            for writer, place, size in load:
                _send(writer, place, size)
            wait_delivered(writers)
            self._verify(epochs, reader)
        if chance.random() < 0.2:
            self.node.stop()
            self._counts["clean_stops"] += 1
            self._start()

    def _send_and_kill(self, chance: random.Random, writers: list[Writer], load: list["_Send"]) -> None:
        """Take from the load until the node is dead."""
        kill_at = sum(writer.acknowledged for writer in writers) + chance.randrange(1, len(load) * 3 // 4)
        aim = chance.choice((None, *AIMS)) if self._can_trace else None
        with self._aimed(aim, chance):
            watch = Watch("acknowledged while a kill was due")
            while not self.node.has_ended:
                if load:
                    _send(*load.pop())
                else:
                    for writer in writers:
                        writer.poll(0.005)
                acknowledged = sum(writer.acknowledged for writer in writers)
                if acknowledged >= kill_at and (aim is None or not load):
                    aim = None  # A call that never came is not waited for.
                    time.sleep(chance.random() * 0.02)
                    os.kill(self.node.pid, signal.SIGKILL)
                    break
                watch.saw(acknowledged)
            self._counts["kills_at_any_moment" if aim is None else "kills_inside_a_call"] += 1
            self.node.kill()

    @contextmanager
    def _aimed(self, call: str | None, chance: random.Random) -> Iterator[None]:
        if call is None:
            yield
            return
        which = chance.randrange(1, AIMS[call] + 1)
        with Tracer(self.node.pid, f"{call}:signal=SIGKILL:when={which}", output=self._trace):
            yield

    def _tear(self, chance: random.Random) -> None:
        """Leave of the next batch what a write that was cut short would have left."""
        for place in chance.sample(PLACES, 2):
            segment = max((self.node.data / str(place)).glob("*.log"))
            content = segment.read_bytes()
            found = list(whole_batches(content))
            if found:
                position, header = found[-1]
                batch = bytearray(content[position : position + header.size_bytes])
                write_placement(memoryview(batch), base_offset=header.last_offset + 1, leader_epoch=header.leader_epoch)
                with segment.open("ab") as file:
                    file.write(batch[: chance.randrange(1, len(batch))])
                self._counts["writes_cut_short"] += 1

    def _verify(self, epochs: dict[Place, int], reader: "_Reader") -> None:
        shown = self._ledger.count_sent()
        with connect(self.node) as wire:
            for place, epoch in leader_epochs(wire, list(TOPICS)).items():
                if epoch <= epochs[place]:
                    raise Anomaly(f"{place}: leader epoch {epoch} after a kill, {epochs[place]} before it")
            wait_visible(wire, shown)
            reader.wait(shown)
            for place, reading in self._readings.items():
                values: dict[int, int] = {}

                def on_record(offset: int, value: bytes | None, place: Place = place, values: Any = values) -> None:
                    self._ledger.find(place, offset, value)
                    values[offset] = zlib.crc32(value or b"")

                reading.read(wire, on_record)
                self._ledger.check_complete(place)
                if place.topic == SHOWN_LATE:
                    self._messages_seen += reader.check(place, values)

    def _start(self) -> None:
        self.node.start(timeout_s=START_S_MAX)
        self._start_s_max = max(self._start_s_max, self.node.ready_s)

    def _lasting_writer(self, chance: random.Random) -> Writer:
        if self._lasting is None:
            self._lasting = self._writer(chance)
        return self._lasting

    def _writer(self, chance: random.Random) -> Writer:
        settings = {
            "compression.type": chance.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")),
            "batch.size": chance.choice((16_000, 64_000, 256_000)),
            "batch.num.messages": chance.choice((5, 50, 10_000)),
            "max.in.flight.requests.per.connection": chance.choice((1, 5, 5)),
        }
        return Writer(next(self._writer_numbers), self.node.bootstrap, self._ledger, settings)

    def count_torn_tails(self) -> None:
        """What the nodes found of them; a few more, where kills struck inside a write themselves."""
        self._torn_tails = self.node.log_text().count("log recovered")

    def facts(self) -> Facts:
        readings = self._readings.values()
        segments = sum(1 for _ in self.node.data.glob("*/*.log"))
        return self._counts | {
            "messages_acknowledged": self._ledger.acknowledged,
            "messages_found": self._ledger.found,
            "messages_seen_by_the_consumer": self._messages_seen,
            "batches_checked": sum(reading.batches for reading in readings),
            "bytes_checked": sum(reading.bytes for reading in readings),
            "segments": segments,
            "torn_tails_cut": self._torn_tails,
            "epoch_max": max(reading.epoch for reading in readings),
            "start_s_max": self._start_s_max,
        }


_Send = tuple[Writer, Place, int]


def _load(chance: random.Random, writers: list[Writer]) -> Iterator[_Send]:
    """Mostly small messages, and a few so large that a write of them can be cut short."""
    for _ in range(chance.randrange(3_000, 9_000)):
        large = chance.random() < 0.004
        size = chance.randrange(50_000, 200_000) if large else chance.randrange(12, 400)
        yield chance.choice(writers), chance.choice(PLACES), size


def _send(writer: Writer, place: Place, size: int) -> None:
    watch = Watch("acknowledged, and the producer is full")
    while not writer.send(place, size=size):
        writer.poll(0.01)
        watch.saw(writer.acknowledged)


def _can_trace() -> bool:
    try:
        check_strace()
    except ToolMissing:
        return False
    return True


class _Reader:
    """A consumer that reads, all through the round, what is shown only once it is flushed."""

    def __init__(self, bootstrap: str, readings: dict[Place, Reading]) -> None:
        self._seen: dict[Place, dict[int, int]] = {place: {} for place in PLACES if place.topic == SHOWN_LATE}
        self._next = {place: readings[place].end_offset for place in self._seen}
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, ends: dict[Place, int]) -> None:
        """Until it has read everything that is shown."""
        watch = Watch("seen by the consumer")
        while any(self._next[place] < ends[place] for place in self._seen):
            if self._failure is not None:
                raise self._failure
            watch.saw(sum(map(len, self._seen.values())))
            time.sleep(0.01)

    def check(self, place: Place, values: dict[int, int]) -> int:
        """How many messages it saw, every one of which must still be there."""
        seen = self._seen[place]
        for offset, crc in seen.items():
            if values.get(offset) != crc:
                raise Anomaly(f"{place}: a consumer read something else at offset {offset} than is there now")
        return len(seen)

    def _run(self, bootstrap: str) -> None:
        settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({**CLIENT, **settings, "bootstrap.servers": bootstrap, "fetch.wait.max.ms": 50})
        try:
            consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])
            while not self._stop.is_set():
                for message in consumer.consume(1000, 0.05):
                    self._take(message)
        except BaseException as failure:
            self._failure = failure
        finally:
            consumer.close()

    def _take(self, message: Any) -> None:
        if (error := message.error()) is not None:
            if error.retriable():  # The node is away.
                return
            raise Anomaly(f"the consumer was told: {error.str()}")
        place = Place(message.topic(), message.partition())
        if message.offset() != self._next[place]:
            raise Anomaly(f"{place}: the consumer read offset {message.offset()} where {self._next[place]} was due")
        self._seen[place][message.offset()] = zlib.crc32(message.value() or b"")
        self._next[place] += 1
