"""A compacted topic on a machine that fails, and what must be true of it all the same: a seed is a history.

    python -m headrace.sim.compacted 4711        run a seed
    python -m headrace.sim.compacted 0-999       run many

One client writes keys and tombstones, each batch once the one before is acknowledged, and reads all along. Meanwhile
the log is compacted, its beginning deleted, the power fails between operations and inside them, the process is killed.
Every batch is flushed before it is acknowledged: whatever was, is there in the end, or a later record of its key is.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from headrace.errors import CorruptBatch, ErrorCode
from headrace.protocol.batch import whole_batches
from headrace.protocol.messages import create_topics, delete_records
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.protocol.schema import ApiMessages
from headrace.sim.disk import Operation, PowerLost, Survival
from headrace.sim.machine import Machine
from headrace.sim.requests import encode_fetch, encode_produce, parse_fetched, parse_produced
from headrace.sim.tables import Message, ask
from headrace.sim.world import World

TOPIC: Final = "compacted"
SECOND_US: Final = 1_000_000
BATCHES: Final = 150
KEYS: Final = 12
PATIENCE_US: Final = 120 * SECOND_US
RETENTIONS_MS: Final = (0, 300, 3_000)
CHANGES: Final = tuple(operation for operation in Operation if operation is not Operation.READ)
BROKER: Final = {"log.cleaner.backoff.ms": "100", "auto.create.topics.enable": "false"}


class Outcome(NamedTuple):
    seed: int
    trace_hash: str
    batches: int
    records_left: int
    cleanings: int
    starts: int
    anomalies: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.batches} batches, {self.records_left} records left by {self.cleanings} "
            f"cleanings, {self.starts} starts; trace {self.trace_hash}"
        ]
        return "\n  ".join([*lines, *self.anomalies])


class CompactedRun:
    def __init__(self, seed: int, *, faults: int | None = None) -> None:
        self.world = World(seed)
        chance = self._chance = self.world.random
        delays = {"log.segment.delete.delay.ms": str(chance.choice((0, 200, 60_000)))}
        self.machine = Machine(self.world, settings=BROKER | delays, told=self._told)
        self.machine.disk.sync_us_most = chance.choice((5_000, 20_000, 100_000))
        self.anomalies: list[str] = []
        self.cleanings = 0
        self.producer_id = 0
        self._faults = chance.randint(3, 8) if faults is None else faults
        self._records_max = chance.choice((1, 4))
        self._retention_ms = chance.choice(RETENTIONS_MS)
        # What was sent at which offset, once it was acknowledged; and of what is under way, the batch.
        self._written: dict[int, Record] = {}
        self._told_ms: dict[int, int] = {}  # When.
        self._start = self._start_asked = 0
        self._sequence = 0
        self._under_way: tuple[list[Record], bytes] | None = None
        self._sent = 0
        self._reached = self._end = 0
        self._is_over = False

    def run(self) -> Outcome:
        self.machine.start()
        self._create()
        for _ in range(self._faults):
            fault = self._chance.choice((self._lose_power, self._lose_power_inside, self._kill, self._stop, self._fill))
            self.world.after(self._chance.randrange(15 * SECOND_US), partial(self._break, fault))
        self._client()
        self._administrate_later()
        if not self._await(lambda: self._sent >= BATCHES and self._under_way is None):
            self.anomalies.append(f"stuck: {self._sent} batches were sent")
        self.machine.disk.capacity_bytes = None
        # Long enough for one more cleaning, and for what was deleted to go.
        self._run_to(self.world.mono_us() + 3 * SECOND_US)
        # From here on nothing breaks any more; what was ordered to goes with this process.
        self._is_over = True
        self._break_last()
        found = self._read_all()
        self._check_end(found)
        return Outcome(
            self.world.seed,
            self.world.trace_hash(),
            self._sent,
            len(found),
            self.cleanings,
            self.machine.starts,
            tuple(self.anomalies[:20]),
        )

    # --- The client ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        chance = self._chance
        settings = {
            # Only with both may records be deleted from the beginning.
            "cleanup.policy": chance.choice(("compact", "compact,delete")),
            "retention.ms": "-1",
            "flush.messages": "1",
            "flush.before.expose": "true",
            "internal.segment.bytes": str(chance.choice((400, 1_500, 6_000))),
            "index.interval.bytes": str(chance.choice((0, 300))),
            "min.cleanable.dirty.ratio": str(chance.choice((0.0, 0.3))),
            "delete.retention.ms": str(self._retention_ms),
            "min.compaction.lag.ms": str(chance.choice((0, 0, 200))),
        }
        configs = [{"name": name, "value": value} for name, value in settings.items()]
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        answers: list[Message | None] = []
        self._await(lambda: self.machine.is_up)
        self._ask(create_topics.API, 7, {"topics": [topic], "timeout_ms": 1000}, answers.append)
        assert self._await(lambda: bool(answers))
        assert answers[0] is not None, "nothing breaks so early"

    def _ask(
        self, messages: ApiMessages, version: int, request: Message, answered: Callable[[Message | None], None]
    ) -> None:
        connection = self.machine.connect()
        if connection is None:
            answered(None)
        else:
            ask(connection, messages, version, request, answered)

    def _client(self) -> None:
        """One batch after the other. What has no answer is sent again: its sequence tells whether it is there."""
        if self._sent >= BATCHES and self._under_way is None:
            return
        if self._under_way is None:
            self._under_way = self._make_batch()
            self._sent += 1
        connection = self.machine.connect()
        if connection is None:
            self._client_later()
            return
        _, data = self._under_way
        connection.send(encode_produce(acks=-1, topic=TOPIC.encode(), partition=0, records=data), self._answered)

    def _client_later(self) -> None:
        self.world.after(self.world.delay_us(least=1_000, most=200_000), self._client)

    def _make_batch(self) -> tuple[list[Record], bytes]:
        chance = self._chance
        records = []
        for _ in range(chance.randint(1, self._records_max)):
            value = None if chance.random() < 0.2 else b"%d" % chance.randrange(10**9) + bytes(chance.choice((0, 60)))
            records.append(Record(b"key-%d" % chance.randrange(KEYS), value, timestamp_ms=self.machine.clock.wall_ms()))
        data = encode_batch(records, producer_id=self.producer_id, producer_epoch=0, base_sequence=self._sequence)
        self._sequence += len(records)
        return records, data

    def _answered(self, answer: bytes | None) -> None:
        assert self._under_way is not None
        error, base_offset = parse_produced(answer) if answer is not None else (None, -1)
        if error == ErrorCode.NONE:
            for offset, record in enumerate(self._under_way[0], base_offset):
                if offset in self._written:
                    self._found(f"offset {offset} was given out twice")
                self._written[offset] = record._replace(offset=offset)
                self._told_ms[offset] = self.machine.clock.wall_ms()
            self._under_way = None
        elif error is not None and error not in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._found(f"a batch was refused with {ErrorCode(error).name}")
            self._under_way = None
        self._client_later()

    def _administrate_later(self) -> None:
        self.world.after(self._chance.randrange(SECOND_US, 6 * SECOND_US), self._administrate)

    def _administrate(self) -> None:
        """Delete records now and then, so that segments go while they are being compacted; and read some."""
        if self._sent >= BATCHES:
            return
        if self._chance.random() < 0.5 and self._written:
            self._fetch(self._chance.randrange(self._start, max(self._written) + 1), self._served)
        else:
            asked = self._chance.randrange(max(self._written, default=0) + 1)
            partition = {"partition_index": 0, "offset": asked}
            request = {"topics": [{"name": TOPIC, "partitions": [partition]}], "timeout_ms": 1000}
            self._start_asked = max(self._start_asked, asked)
            self._ask(delete_records.API, 2, request, partial(self._deleted, asked))
        self._administrate_later()

    def _deleted(self, asked: int, answer: Message | None) -> None:
        if answer is not None and answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE:
            self._start = max(self._start, asked)

    def _fetch(self, offset: int, then: Callable[[int, list[Record], int], None]) -> None:
        connection = self.machine.connect()
        if connection is None:
            return

        def answered(answer: bytes | None) -> None:
            if answer is not None:
                fetched = parse_fetched(answer)
                if fetched.error == ErrorCode.NONE:
                    then(offset, self._open(fetched.records), fetched.high_watermark)

        frame = encode_fetch(
            topic=TOPIC.encode(), partition=0, offset=offset, wait_ms=0, bytes_min=0, bytes_max=1 << 20
        )
        connection.send(frame, answered)

    def _open(self, data: bytes) -> list[Record]:
        """The records of a fetch, the last of them the last offset of a batch that may hold none."""
        records: list[Record] = []
        try:
            for position, header in whole_batches(data):
                records += decode_records(data[position : position + header.size_bytes])
                self._reached = header.last_offset + 1
        except CorruptBatch as error:
            self._found(f"a bad batch was served: {error}")
        return records

    # --- What must be true -----------------------------------------------------------------------------------

    def _found(self, anomaly: str) -> None:
        self.anomalies.append(f"{self.world.mono_us() / SECOND_US:.4f} {anomaly}")

    def _served(self, asked: int, records: list[Record], high_watermark: int) -> None:
        """Records that were acknowledged, in order, and of each key the last before the watermark at the latest."""
        offsets = [record.offset for record in records]
        if offsets != sorted(set(offsets)):
            self._found(f"offsets {offsets} do not rise")
        for record in records:
            known = self._written.get(record.offset)
            if known is not None and known != record:
                self._found(f"offset {record.offset} holds {record}, and {known} was acknowledged there")

        self._check_tombstones(asked, set(offsets))

    def _check_tombstones(self, asked: int, offsets: set[int]) -> None:
        """Who reads on within the time of a tombstone must be shown it, unless it is superseded."""
        fresh_ms = self.machine.clock.wall_ms() - self._retention_ms
        last = {record.key: offset for offset, record in sorted(self._written.items())}
        under_way = {record.key for record in self._under_way[0]} if self._under_way is not None else set()
        for key, offset in last.items():
            is_fresh = self._told_ms[offset] > fresh_ms and self._written[offset].value is None
            if is_fresh and asked <= offset < self._reached and offset not in offsets and key not in under_way:
                self._found(f"the tombstone of {key!r} at {offset} is gone before its time")

    def _read_all(self) -> list[Record]:
        found: list[Record] = []
        offset, is_at_end = self._start, False

        def take(asked: int, records: list[Record], high_watermark: int) -> None:
            nonlocal offset, is_at_end
            self._served(asked, records, high_watermark)
            found.extend(record for record in records if record.offset >= asked)
            is_at_end = high_watermark <= asked or self._reached <= asked
            offset = max(self._reached, asked)

        if not self._await(lambda: self.machine.is_up):
            self._found("it does not start any more")
            return []
        self._run_to(self.world.mono_us() + SECOND_US)
        offset = self._actual_start()
        deadline_us = self.world.mono_us() + PATIENCE_US
        while not is_at_end and self.world.mono_us() < deadline_us:
            self._reached = offset
            self._fetch(offset, take)
            self._run_to(self.world.mono_us() + SECOND_US)
        if not is_at_end:
            self._found(f"it cannot be read beyond {offset}")
        self._end = offset
        return found

    def _actual_start(self) -> int:
        assert self.machine.node is not None
        start = self.machine.node.topics.partition(TOPIC, 0).log.start_offset
        if not self._start <= start <= max(self._start, self._start_asked):
            self._found(f"the log starts at {start}, and should between {self._start} and {self._start_asked}")
        return start

    def _check_end(self, found: list[Record]) -> None:
        kept = {record.offset: record for record in found}
        last: dict[bytes | None, int] = {}
        for offset, record in sorted(self._written.items()):
            last[record.key] = offset
        start = found[0].offset if found else 0
        for key, offset in last.items():
            record = self._written[offset]
            # A tombstone may have had its time; and what was deleted from the beginning is gone.
            if offset not in kept and record.value is not None and offset >= max(self._start_asked, self._start):
                self._found(f"the last record of {key!r}, at {offset}, is gone; the first found is at {start}")
        for record in found:
            if record.offset not in self._written:
                self._found(f"nobody was told of offset {record.offset}")
            elif record.value is not None and self._is_deleted(record, last, kept):
                self._found(f"{record.key!r} at {record.offset} is back, though it was deleted")
        end = max(self._written, default=-1) + 1
        if self._end != end:
            self._found(f"it ends at {self._end}, and everything before {end} was acknowledged")

    def _is_deleted(self, record: Record, last: dict[bytes | None, int], kept: dict[int, Record]) -> bool:
        """Whether a reader would take for alive what a tombstone deleted: that is gone, and the value is not."""
        later = [one for one in kept.values() if one.key == record.key and one.offset > record.offset]
        return not later and last[record.key] != record.offset and self._written[last[record.key]].value is None

    # --- Faults and time -------------------------------------------------------------------------------------

    def _break(self, fault: Callable[[], None]) -> None:
        if not self._is_over:
            fault()

    def _break_last(self) -> None:
        if self.machine.node is not None:
            if self._chance.random() < 0.7:
                self.machine.lose_power(self._chance.choice(list(Survival)))
            else:
                self.machine.kill()

    def _lose_power(self) -> None:
        if self.machine.node is not None:
            self.machine.lose_power(self._chance.choice(list(Survival)))

    def _lose_power_inside(self) -> None:
        """Of the rare kinds, since the others are so frequent: syncs of directories, renames, creations."""
        operation = self._chance.choice(CHANGES)
        self.machine.disk.lose_power_near(operation, changes=self._chance.choice((0, 1, 2, 3, 5, 10)))

    def _kill(self) -> None:
        if self.machine.node is not None:
            self.machine.kill()

    def _stop(self) -> None:
        if self.machine.is_up:
            self.machine.stop()

    def _fill(self) -> None:
        """So that there is room for little, for a while."""
        disk = self.machine.disk
        disk.capacity_bytes = 1 << 40
        disk.capacity_bytes -= disk.free_bytes() - self._chance.randrange(3_000)

        def make_room() -> None:
            self.machine.disk.capacity_bytes = None

        self.world.after(self._chance.randrange(SECOND_US // 10, SECOND_US), make_room)

    def _told(self, event: str, fields: object) -> None:
        self.cleanings += event == "log cleaned"

    def _run_to(self, mono_us: int) -> None:
        while self.world.mono_us() < mono_us:
            try:
                self.world.run_until(mono_us)
            except PowerLost:
                self.machine.lose_power(self._chance.choice(list(Survival)))

    def _await(self, condition: Callable[[], bool]) -> bool:
        deadline_us = self.world.mono_us() + PATIENCE_US
        while not condition() and self.world.mono_us() < deadline_us:
            try:
                self.world.run_until_true(lambda: condition() or self.world.mono_us() >= deadline_us)
            except PowerLost:
                self.machine.lose_power(self._chance.choice(list(Survival)))
        return condition()


def run_seed(seed: int) -> Outcome:
    return CompactedRun(seed).run()


def main(argument: str) -> None:
    first, _, last = argument.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    for seed in seeds:
        outcome = run_seed(seed)
        if outcome.anomalies or len(seeds) == 1:
            print(outcome)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
