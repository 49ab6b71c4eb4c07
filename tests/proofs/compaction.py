"""Ten million updates of a hundred thousand keys, compacted all the while, read all the while, killed twenty times.

One idempotent producer writes at a fixed rate to one partition, so that update number n must stand at offset n, however
often the node dies; which key it is of, and its value, follow from the number. A consumer follows from the beginning.
The rate leaves a part of two cores idle: how late the loop is then tells of the node, and not of clients that take
every CPU from it. The node compacts small segments as soon as a fifth is dirty, and is killed in the middle of that.

Then some keys are deleted; once their tombstones have had their time, and something else was compacted, nothing of them
is left. At last a Java consumer reads it all while it goes on being written, compacted and killed, and Kafka's
DumpLogSegments reads the files. Not before: beside a JVM on two cores the loop's lag would tell of the JVM.
"""

import os
import random
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.protocol.records import decode_records
from headrace.storage.checkpoints import CLEANED_OFFSETS, decode_offsets
from headrace.testing.node_process import NodeProcess
from tests.clients.scenario import Message
from tests.interop.following import Follower, cleanings_ahead
from tests.proofs.compaction_judges import FollowedNode, check_dump, check_seen, find_java
from tests.proofs.ledger import Anomaly, Place
from tests.proofs.metrics import SETTING, read_metrics
from tests.proofs.nodes import START_S_MAX, connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import batches, create_topic
from tests.proofs.writer import CLIENT

PLACE: Final = Place("updates", 0)
KEYS_PER_UPDATE: Final = 0.01
KILLS: Final = 20
UPDATES_PER_S: Final = 40_000
DELETED_SHARE: Final = 0.01
MEMORY_ABOVE_IDLE_BYTES_MAX: Final = 100 << 20
LAG_MS_P99_MAX: Final = 5.0
DELETE_RETENTION_MS: Final = 2_000
SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX = 256 << 10, 16 << 20
SETTINGS: Final = SETTING | {
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}
JAVA_KILLS: Final = 3  # More of them, which a Java consumer reads through.
JAVA_UPDATES_PER_KILL_MIN: Final = 60_000
JAVA_PAUSE_MS: Final = 2  # For a hundred messages, which makes it slower than they are written: cleanings overtake it.
_CHUNK: Final = 500
_SAMPLE_S: Final = 0.1
_PATIENCE_S: Final = 180.0


def run(work: Slice) -> Facts:
    proof = _Compaction(work)
    has_java = work.has(find_java, or_lacks="a Java consumer that reads through kills, and DumpLogSegments")
    with running(proof.node):
        proof.create_topic()
        proof.measure_idle()
        with _Reader(proof) as reader:
            with _Monitor(proof, updates=len(work.units)) as monitor:
                for start in range(0, len(work.units), _CHUNK):
                    chunk = min(_CHUNK, len(work.units) - start)
                    proof.send(chunk)
                    work.advance(chunk)
                proof.finish_kills()
                proof.delete_some()
            of_java = proof.follow_with_java(kills=JAVA_KILLS if work.is_full else 1) if has_java else {}
            reader.wait(proof.end, must_see=proof.must_see)
        facts = proof.check()
        proof.node.stop()
    facts |= monitor.facts() | {"messages_seen_by_the_consumer": reader.seen} | of_java
    if has_java:
        facts["records_found_by_dump_log_segments"] = proof.check_dump()
    if facts["memory_above_idle_bytes_max"] > MEMORY_ABOVE_IDLE_BYTES_MAX:
        raise Anomaly(f"node and cleaner took {facts['memory_above_idle_bytes_max']:,} bytes more than when idle")
    if work.is_full and facts["loop_lag_ms_p99"] > LAG_MS_P99_MAX:
        raise Anomaly(f"the loop was late by {facts['loop_lag_ms_p99']:.1f} ms in one case of a hundred")
    return facts


class _Compaction:
    """One partition, and what must be in it."""

    def __init__(self, work: Slice) -> None:
        updates = len(work.units)
        self.node = NodeProcess(work.scratch / "data", settings=SETTINGS)
        self.keys = max(100, int(updates * KEYS_PER_UPDATE))
        self.idle_bytes = 0
        self.is_down = False
        self._chance = random.Random(f"compaction {work.units.start}")
        kills = KILLS if work.is_full else 2
        self._kill_at = sorted(self._chance.randrange(updates // 10, updates) for _ in range(kills))
        self._kills = self._kills_inside = 0
        self._segment_bytes = min(max(updates * 8, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX)
        # The key of each update, and the last update of each key; of a deleted one, its tombstone.
        self.key_of = array("I")
        self._last = array("q", bytes(8 * self.keys))
        self._tombstones: set[int] = set()
        self._producer: Producer | None = None
        self._began_s = 0.0
        self._began_ms = int(time.time() * 1000)
        self._left = array("q")  # The offsets that `check` was served.

    @property
    def end(self) -> int:
        return len(self.key_of)

    @property
    def kills(self) -> int:
        return self._kills

    @property
    def directory(self) -> Path:
        return self.node.data / str(PLACE)

    def create_topic(self) -> None:
        settings = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(self._segment_bytes),
            "min.cleanable.dirty.ratio": "0.2",
            "delete.retention.ms": str(DELETE_RETENTION_MS),
        }
        with connect(self.node) as wire:
            code = create_topic(wire, PLACE.topic, partitions=1, settings=settings)
        assert code == 0, f"the topic was not created: error {code}"

    def measure_idle(self) -> None:
        self.idle_bytes = resident_bytes(self.node.pid)

    # --- Writing ---------------------------------------------------------------------------------------------

    def send(self, count: int) -> None:
        """Updates of keys of which some are updated far more often than others."""
        if self._kill_at and self.end >= self._kill_at[0]:
            self._kill_at.pop(0)
            self.kill()
        chance, keys = self._chance.random, self.keys
        for _ in range(count):
            self._send(int(keys * chance() ** 2))
        self._pace()

    def _send(self, key: int, *, tombstone: bool = False) -> None:
        producer = self._producer
        if producer is None:
            settings = {
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "linger.ms": 5,
                "batch.num.messages": 500,
                "queue.buffering.max.messages": 200_000,
            }
            producer = self._producer = Producer({**CLIENT, **settings, "bootstrap.servers": self.node.bootstrap})
            self._began_s = time.monotonic()
        number = self.end
        self.key_of.append(key)
        if key == len(self._last):
            self._last.append(number)
        self._last[key] = number
        if tombstone:
            self._tombstones.add(number)
        value = None if tombstone else value_of(number)
        while True:
            try:
                stamp_ms = self._timestamp_ms(number)
                producer.produce(PLACE.topic, value, key_text(key), PLACE.partition, timestamp=stamp_ms)
                return
            except BufferError:
                producer.poll(0.01)

    def _timestamp_ms(self, number: int) -> int:
        """Never ahead of the clock, which a node would refuse by more than an hour."""
        return self._began_ms + number * 500 // UPDATES_PER_S

    def _pace(self) -> None:
        assert self._producer is not None
        self._producer.poll(0)
        ahead_s = self.end / UPDATES_PER_S - (time.monotonic() - self._began_s)
        if ahead_s > 0:
            time.sleep(ahead_s)

    def flush(self) -> None:
        assert self._producer is not None
        left = self._producer.flush(_PATIENCE_S)
        assert left == 0, f"{left} updates are not acknowledged"

    # --- Breaking --------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self._wait_for_cleaning()
        self.is_down = True
        self.node.kill()
        self._kills += 1
        self._kills_inside += self._is_cleaning()
        self.node.start(timeout_s=START_S_MAX)
        self.is_down = False

    def finish_kills(self) -> None:
        """Those that were due later than the last update."""
        while self._kill_at:
            self._kill_at.pop()
            self.kill()

    def _wait_for_cleaning(self) -> None:
        """Most of the time something is being cleaned; wait a moment for when it is, and then no longer than that."""
        deadline_s = time.monotonic() + 5.0
        while time.monotonic() < deadline_s and not self._is_cleaning():
            time.sleep(0.005)
        time.sleep(self._chance.random() * 0.05)

    def _is_cleaning(self) -> bool:
        return any(name.endswith((".cleaned", ".swap")) for name in os.listdir(self.directory))

    # --- Deleting --------------------------------------------------------------------------------------------

    def delete_some(self) -> None:
        """Tombstones; and enough of other keys behind them for two more cleanings."""
        deleted = range(max(1, int(self.keys * DELETED_SHARE)))
        for key in deleted:
            self._send(key, tombstone=True)
        end = self.end
        self._send_others(deleted)
        self._await_cleaned(end)
        time.sleep(DELETE_RETENTION_MS / 1000 + 0.5)
        end = self.end
        self._send_others(deleted)
        self._await_cleaned(end)

    def _send_others(self, deleted: range) -> None:
        """So many that they fill two segments, which makes those before them be compacted."""
        for number in range(3 * self._segment_bytes // len(value_of(0))):
            self._send(deleted.stop + number % (self.keys - deleted.stop))
            if self.end % _CHUNK == 0:
                self._pace()
        self.flush()

    def _await_cleaned(self, offset: int) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while self.cleaned_offset() < offset:
            assert time.monotonic() < deadline_s, f"compacted up to {self.cleaned_offset()}, not to {offset}"
            time.sleep(0.05)

    def cleaned_offset(self) -> int:
        try:
            return sum(decode_offsets((self.node.data / CLEANED_OFFSETS).read_bytes()).values())
        except (FileNotFoundError, ValueError):
            return 0

    # --- Kafka's own consumer --------------------------------------------------------------------------------

    def follow_with_java(self, *, kills: int) -> Facts:
        """It reads from the beginning, through updates, cleanings and kills, until it meets a key that no other has."""
        until = key_text(len(self._last))
        followed = FollowedNode(self.node)
        with closing(
            Follower("the Java consumer", followed, PLACE.topic, until=until, pause_ms=JAVA_PAUSE_MS)
        ) as follower:
            for kill in range(kills):
                # Two segments: the first of them is full then, and compacted.
                self._send_anything(max(JAVA_UPDATES_PER_KILL_MIN, 2 * self._segment_bytes // _UPDATE_BYTES_MIN))
                self._send_until_overtaken(follower, times=kill + 1)
                self.kill()
            self._send(len(self._last))
            self.flush()
            follower.wait_end()
        check_seen(follower.seen, message_at=self._message_at, next_offset=self.end, must_see=self.must_see())
        return {
            "kills_that_the_java_consumer_read_through": kills,
            "cleanings_that_the_java_consumer_read_through": cleanings_ahead(follower.seen),
            "messages_seen_by_the_java_consumer": len(follower.seen),
        }

    def _send_anything(self, count: int) -> None:
        """Updates of keys that are not deleted, at the usual rate from now on."""
        self._began_s = time.monotonic() - self.end / UPDATES_PER_S
        deleted = len(self._tombstones)
        for number in range(count):
            self._send(deleted + int((self.keys - deleted) * self._chance.random()))
            if number % _CHUNK == 0:
                self._pace()

    def _send_until_overtaken(self, follower: Follower, *, times: int) -> None:
        """Until so many cleanings got ahead of it while it was reading: it is in the midst of it."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while (overtaken := cleanings_ahead(follower.seen[:])) < times:
            follower.check_running()
            assert time.monotonic() < deadline_s, f"{overtaken} cleanings got ahead of the Java consumer, not {times}"
            self._send_anything(UPDATES_PER_S // 4)

    def _message_at(self, offset: int) -> Message:
        value = None if offset in self._tombstones else value_of(offset)
        return Message(key_text(self.key_of[offset]), value, (), self._timestamp_ms(offset))

    def check_dump(self) -> int:
        return check_dump(self.directory, offsets=self._left, must_have=self.last_values())

    # --- What must be true -----------------------------------------------------------------------------------

    def expect(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """That this is what was written there."""
        expected = None if offset in self._tombstones else value_of(offset)
        if key != key_text(self.key_of[offset]) or value != expected:
            raise Anomaly(f"{PLACE}: {key!r}: {value!r} at offset {offset}, where {expected!r} was written")

    def must_see(self) -> set[int]:
        """What compaction has no right to, and whoever read to the end was shown; so is all of the last segment."""
        segment = max(int(path.stem) for path in self.directory.glob("*.log"))
        return self.last_values() | set(range(segment, self.end))

    def last_values(self) -> set[int]:
        """The offsets of those that must be there: of all keys that are not deleted."""
        return set(self._last) - self._tombstones

    def check(self) -> Facts:
        """Everything that is left."""
        cleaned = self.cleaned_offset()
        found = array("b", bytes(len(self._last)))
        next_offset = batch_count = size_bytes = 0
        with connect(self.node) as wire:
            for header, batch in batches(wire, PLACE, is_compacted=True):
                if header.base_offset < next_offset:
                    raise Anomaly(f"{PLACE}: offset {header.base_offset} behind {next_offset}")
                next_offset = header.last_offset + 1
                batch_count += 1
                size_bytes += len(batch)
                for record in decode_records(batch):
                    self.expect(record.offset, record.key, record.value)
                    key = self.key_of[record.offset]
                    if self._last[key] == record.offset:
                        found[key] = 1
                    self._left.append(record.offset)
        records = len(self._left)
        if next_offset != self.end:
            raise Anomaly(f"{PLACE}: ends at {next_offset}, after {self.end} updates")
        lost = expired = 0
        for key, offset in enumerate(self._last):
            if offset in self._tombstones:
                expired += not found[key]
            elif not found[key]:
                lost += 1
        if lost:
            raise Anomaly(f"{PLACE}: the last value of {lost} keys is gone")
        if expired != len(self._tombstones):
            raise Anomaly(f"{PLACE}: {len(self._tombstones) - expired} tombstones are left after their time")
        superseded = records - len(self._last) + expired
        if superseded > self.end - cleaned + self.keys:
            raise Anomaly(f"{PLACE}: {superseded} superseded records are left, compacted up to {cleaned} of {self.end}")
        return {
            "keys": self.keys,
            "kills": self._kills,
            "kills_inside_a_cleaning": self._kills_inside,
            "cleanings": self.node.log_text().count("log cleaned"),
            "records_left": records,
            "batches_left": batch_count,
            "bytes_left": size_bytes,
            "tombstones_expired": expired,
        }


def key_text(key: int) -> bytes:
    return b"key-%07d" % key


def value_of(number: int) -> bytes:
    return b"%048d" % number


_UPDATE_BYTES_MIN: Final = len(key_text(0)) + len(value_of(0))


def resident_bytes(pid: int) -> int:
    """Of a process and its children."""
    total = 0
    for process in [pid, *_children(pid)]:
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except FileNotFoundError:
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class _Thread:
    """Something that goes on all the while, and whose failure is everybody's."""

    def __init__(self, proof: _Compaction) -> None:
        self._proof = proof
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self._failure = failure

    def _run(self) -> None:
        raise NotImplementedError


class _Reader(_Thread):
    """A consumer that follows from the beginning. What it is shown is what was written there, in order, and no less."""

    seen = 0

    def __init__(self, proof: _Compaction) -> None:
        super().__init__(proof)
        self._shown = bytearray()  # Which offsets, of those before the next.

    def wait(self, end: int, *, must_see: Callable[[], set[int]]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while len(self._shown) < end and self._failure is None:
            assert time.monotonic() < deadline_s, f"the consumer is at {len(self._shown)}, not at {end}"
            time.sleep(0.05)
        if self._failure is None and (missed := [offset for offset in must_see() if not self._shown[offset]]):
            raise Anomaly(f"the consumer was not shown {len(missed)} records, the first at offset {min(missed)}")

    def _run(self) -> None:
        settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({**CLIENT, **settings, "bootstrap.servers": self._proof.node.bootstrap})
        try:
            consumer.assign([TopicPartition(*PLACE, 0)])
            while not self._stop.is_set():
                for message in consumer.consume(1000, 0.1):
                    self._take(message)
        finally:
            consumer.close()

    def _take(self, message: Any) -> None:
        if (error := message.error()) is not None:
            if error.retriable():  # The node is away.
                return
            raise Anomaly(f"the consumer was told: {error.str()}")
        offset = message.offset()
        skipped = offset - len(self._shown)
        if skipped < 0:
            raise Anomaly(f"{PLACE}: the consumer read offset {offset} after {len(self._shown) - 1}")
        self._proof.expect(offset, message.key(), message.value())
        self.seen += 1
        self._shown += bytes(skipped) + b"\x01"


class _Monitor(_Thread):
    """How late the loop is, and how much memory node and cleaner take."""

    def __init__(self, proof: _Compaction, *, updates: int) -> None:
        super().__init__(proof)
        # Half of what the time of writing has room for: the other half is for answers that take their time.
        self._samples_min = int(updates / UPDATES_PER_S / _SAMPLE_S / 2)
        self._lags_ms: list[float] = []
        self._memory_bytes = 0

    def _run(self) -> None:
        node = self._proof.node
        while not self._stop.wait(_SAMPLE_S):
            kills = self._proof.kills
            if self._proof.is_down:
                continue
            try:
                lag_s = read_metrics(node)["headrace_loop_lag_seconds_max"]
                self._memory_bytes = max(self._memory_bytes, resident_bytes(node.pid))
            except (OSError, AssertionError):
                if not self._proof.is_down and self._proof.kills == kills:
                    raise  # It was not killed meanwhile: it should have answered.
            else:
                self._lags_ms.append(lag_s * 1000)

    def facts(self) -> Facts:
        lags_ms = sorted(self._lags_ms)
        assert len(lags_ms) >= self._samples_min, f"the loop was looked at {len(lags_ms)} times only"
        return {
            "loop_lag_samples": len(lags_ms),
            "loop_lag_ms_p50": lags_ms[len(lags_ms) // 2],
            "loop_lag_ms_p99": lags_ms[len(lags_ms) * 99 // 100],
            "memory_above_idle_bytes_max": self._memory_bytes - self._proof.idle_bytes,
        }
