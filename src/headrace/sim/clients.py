"""Producers and consumers of a simulated node. They live outside its machine, and tell a checker what they see.

Each behaves as a careful client does: an idempotent producer keeps up to five batches under way and sends again,
in order, whatever it has no answer for; an ordinary one never sends twice; a consumer goes on where it was, and now and
then looks again at what it has read.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from headrace.errors import CorruptBatch, ErrorCode
from headrace.protocol.messages import MESSAGES, init_producer_id, list_offsets
from headrace.protocol.records import Record, encode_batch
from headrace.sim.checker import Checker, Kind, Place, Served
from headrace.sim.machine import Connection, Machine
from headrace.sim.requests import (
    Fetched,
    encode_fetch,
    encode_produce,
    parse_fetched,
    parse_produced,
    split_batches,
)
from headrace.sim.tables import ask

IN_FLIGHT_MAX: Final = 5
EARLIEST: Final = -2
BACKOFF_US_LEAST, BACKOFF_US_MOST = 5_000, 200_000
SEQUENCES: Final = 2**31
# What a client may be told while something is wrong, and tries again.
TROUBLES: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


class Topic(NamedTuple):
    name: str
    id: bytes
    partitions: int


class Target(NamedTuple):
    """A partition to write to or read from."""

    topic: Topic
    partition: int

    @property
    def place(self) -> Place:
        return Place(self.topic.id, self.partition)

    @property
    def name(self) -> bytes:
        return self.topic.name.encode()

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.partition}"


class Ledger:
    """Numbers for records, and what every batch that was ever sent contains.

    A batch that is served must be, byte for byte from its CRC on, one that was sent; so nobody needs to open it.
    """

    def __init__(self, machine: Machine, checker: Checker) -> None:
        self.machine = machine
        self.world = machine.world
        self.checker = checker
        self._values = 0
        self._contents: dict[bytes, tuple[int, ...]] = {}
        self._producers = 0

    def new_producer(self) -> int:
        self._producers += 1
        return self._producers

    def make_batch(self, count: int, *, pad_bytes: int, **producer: int) -> tuple[bytes, tuple[int, ...]]:
        values = tuple(range(self._values, self._values + count))
        self._values += count
        timestamp_ms = self.machine.clock.wall_ms()
        data = encode_batch(
            [Record(None, b"%d " % value + bytes(pad_bytes), timestamp_ms=timestamp_ms) for value in values],
            **producer,  # type: ignore[arg-type]
        )
        self._contents[data[16:]] = values
        return data, values

    def open(self, records: bytes, where: str) -> list[Served]:
        """The records of what was served."""
        served: list[Served] = []
        try:
            for header, content in split_batches(records):
                values = self._contents.get(content)
                if values is None or header.last_offset_delta != len(values) - 1:
                    raise CorruptBatch(f"at offset {header.base_offset}, nobody sent this")
                epoch = header.leader_epoch
                served += [Served(offset, epoch, value) for offset, value in enumerate(values, header.base_offset)]
        except CorruptBatch as error:
            self.checker.found(Kind.TORN, where, str(error))
        return served


def ask_start(connection: Connection, target: Target, answered: Callable[[int | None], None]) -> None:
    """Where a log starts; `answered(None)` where nobody can say."""

    def read(answer: dict[str, Any] | None) -> None:
        (told,) = answer["topics"][0]["partitions"] if answer is not None else [None]
        answered(told["offset"] if told is not None and told["error_code"] == ErrorCode.NONE else None)

    asked = {"partition_index": target.partition, "current_leader_epoch": -1, "timestamp": EARLIEST}
    request = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": target.topic.name, "partitions": [asked]}],
    }
    ask(connection, MESSAGES[list_offsets.API.key], 5, request, read)


class _Batch(NamedTuple):
    data: bytes
    values: tuple[int, ...]


class Producer:
    """One producer to one partition."""

    def __init__(
        self,
        ledger: Ledger,
        target: Target,
        *,
        acks: int,
        idempotent: bool,
        pause_us: int,
        records_max: int,
        pad_bytes_max: int,
        in_flight_max: int,
    ) -> None:
        assert not idempotent or acks == -1
        self._ledger = ledger
        self._world = ledger.world
        self._target = target
        self._acks = acks
        self._idempotent = idempotent
        self._pause_us = pause_us
        self._records_max = records_max
        self._pad_bytes_max = pad_bytes_max
        self._in_flight_max = in_flight_max if idempotent else 1
        self._number = ledger.new_producer()
        self._producer_id = -1
        # Near the top, so that it wraps.
        self._sequence = SEQUENCES - self._world.random.randrange(1, 200) if idempotent else 0
        self._connection: Connection | None = None
        self._unanswered: deque[_Batch] = deque()
        self._sent_count = 0  # Of those without an answer, how many were sent on this connection.
        self._waiting = False
        self.is_stopped = False
        self._world.after(1 + self._world.random.randrange(pause_us), self._tick)

    @property
    def is_idle(self) -> bool:
        return self.is_stopped and not self._unanswered

    def _tick(self) -> None:
        if self.is_stopped:
            return
        # In bursts, so that more than one is under way.
        for _ in range(self._world.random.randint(1, self._in_flight_max)):
            if len(self._unanswered) < self._in_flight_max:
                self._make()
        self._send()
        self._world.after(1 + self._world.random.randrange(2 * self._pause_us), self._tick)

    def _make(self) -> None:
        if self._idempotent and self._producer_id < 0:
            return
        chance = self._world.random
        count = chance.randint(1, self._records_max)
        pad_bytes = chance.randrange(self._pad_bytes_max)
        if self._idempotent:
            batch = _Batch(
                *self._ledger.make_batch(
                    count,
                    pad_bytes=pad_bytes,
                    producer_id=self._producer_id,
                    producer_epoch=0,
                    base_sequence=self._sequence,
                )
            )
            self._sequence = (self._sequence + count) % SEQUENCES
        else:
            batch = _Batch(*self._ledger.make_batch(count, pad_bytes=pad_bytes))
        self._ledger.checker.sending(self._number, self._target.place, batch.values)
        self._unanswered.append(batch)

    def _send(self) -> None:
        """Send what has no answer yet and is not under way, in order."""
        if self._waiting:
            return
        if self._connection is None or not self._connection.is_open:
            if not self._idempotent:  # What was under way stays unknown, also before anybody says that it is lost.
                for _ in range(self._sent_count):
                    self._unanswered.popleft()
            self._sent_count = 0
            self._connection = self._ledger.machine.connect()
            if self._connection is None:
                self._retry_later()
                return
        if self._idempotent and self._producer_id < 0:
            self._ask_producer_id(self._connection)
            return
        for index in range(self._sent_count, len(self._unanswered)):
            self._send_one(self._connection, self._unanswered[index])
        self._sent_count = len(self._unanswered)
        if self._acks == 0:
            self._unanswered.clear()
            self._sent_count = 0

    def _send_one(self, connection: Connection, batch: _Batch) -> None:
        frame = encode_produce(
            acks=self._acks, topic=self._target.name, partition=self._target.partition, records=batch.data
        )
        if self._acks == 0:
            connection.send(frame, None)
        else:
            connection.send(frame, lambda answer: self._answered(connection, batch, answer))

    def _answered(self, connection: Connection, batch: _Batch, answer: bytes | None) -> None:
        if connection is not self._connection or not self._unanswered:
            return  # Of a connection that was given up already.
        if answer is None:
            self._give_up(connection)
            return
        error, base_offset = parse_produced(answer)
        is_first = self._unanswered[0] is batch
        if error == 0:
            assert is_first, "answers come in order"
            self._unanswered.popleft()
            self._sent_count -= 1
            self._ledger.checker.acknowledged(self._target.place, base_offset, batch.values)
        elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_first:
            self._ledger.checker.told_of_gap(self._target.place)
            self._begin_anew(connection)
        else:
            if is_first and error not in TROUBLES:
                self._ledger.checker.found(Kind.REFUSED, str(self._target), ErrorCode(error).name)
            self._give_up(connection)

    def _give_up(self, connection: Connection) -> None:
        """Start again with what has no answer. What an ordinary producer sent stays unknown."""
        connection.close()
        self._connection = None
        self._sent_count = 0
        if not self._idempotent:
            self._unanswered.clear()
        self._retry_later()

    def _begin_anew(self, connection: Connection) -> None:
        """The node forgot something. What is unanswered stays unknown, and the rest goes on under a new id."""
        self._unanswered.clear()
        self._producer_id = -1
        self._give_up(connection)

    def abandon(self) -> None:
        """Let go of everything, at once: the topic is gone, or will be."""
        self.is_stopped = True
        self._unanswered.clear()
        if self._connection is not None:
            self._connection.close()

    def _retry_later(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._world.after(self._world.delay_us(least=BACKOFF_US_LEAST, most=BACKOFF_US_MOST), self._retry)

    def _retry(self) -> None:
        self._waiting = False
        if self._unanswered or (self._idempotent and self._producer_id < 0 and not self.is_stopped):
            self._send()

    def _ask_producer_id(self, connection: Connection) -> None:
        self._waiting = True

        def given(answer: dict[str, object] | None) -> None:
            self._waiting = False
            if answer is None or answer["error_code"] != 0:
                self._give_up(connection)
                return
            producer_id = answer["producer_id"]
            assert isinstance(producer_id, int)
            self._ledger.checker.producer_id_given(producer_id)
            self._producer_id = producer_id
            self._send()

        request = {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
        ask(connection, MESSAGES[init_producer_id.API.key], 4, request, given)


class Consumer:
    """Reads some partitions, one after the other."""

    def __init__(
        self, ledger: Ledger, targets: Sequence[Target], *, pause_us: int, wait_ms: int, bytes_max: int
    ) -> None:
        self._ledger = ledger
        self._world = ledger.world
        self._positions: dict[Target, int] = dict.fromkeys(targets, 0)
        self._turns: deque[Target] = deque(targets)
        self._pause_us = pause_us
        self._wait_ms = wait_ms
        self._bytes_max = bytes_max
        self._connection: Connection | None = None
        self.is_stopped = False
        self._later()

    def _later(self) -> None:
        if not self.is_stopped:
            self._world.after(1 + self._world.random.randrange(2 * self._pause_us), self._poll)

    def _poll(self) -> None:
        if self._connection is None or not self._connection.is_open:
            self._connection = self._ledger.machine.connect()
        if self._connection is None or self.is_stopped or not self._turns:
            self._later()
            return
        target = self._turns[0]
        self._turns.rotate(-1)
        chance = self._world.random
        if chance.random() < 0.1:
            self._positions[target] = max(0, self._positions[target] - chance.randrange(40))
        offset = self._positions[target]
        frame = encode_fetch(
            topic=target.name,
            partition=target.partition,
            offset=offset,
            wait_ms=chance.randint(0, self._wait_ms),
            bytes_min=1,
            bytes_max=chance.randint(1, self._bytes_max),
        )
        start = self._ledger.checker.promised_start(target.place)
        # What it read last, and must find again where nothing that was read may be lost.
        is_owed = self._ledger.checker.was_read(target.place, offset - 1)
        connection = self._connection
        connection.send(frame, lambda answer: self._answered(connection, target, offset, start, is_owed, answer))

    def _answered(
        self, connection: Connection, target: Target, offset: int, start: int, is_owed: bool, answer: bytes | None
    ) -> None:
        if answer is not None and not self.is_stopped:
            fetched = parse_fetched(answer)
            checker = self._ledger.checker
            if fetched.error == 0:
                checker.start_told(target.place, fetched.start_offset, promised=start)
                records = self._ledger.open(fetched.records, str(target))
                checker.served(target.place, offset, records, high_watermark=fetched.high_watermark)
                if records:
                    self._positions[target] = records[-1].offset + 1
            elif fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE and connection.is_open:
                ask_start(connection, target, lambda start: self._reset(target, offset, is_owed, start))
                return
            elif fetched.error not in TROUBLES:
                checker.found(Kind.REFUSED, str(target), f"offset {offset}: {ErrorCode(fetched.error).name}")
        self._later()

    def _reset(self, target: Target, offset: int, is_owed: bool, start: int | None) -> None:
        """Go on after an offset that is out of range: before the start, or else, after a loss, behind the end."""
        if start is not None and offset < start:
            self._positions[target] = start
        elif start is not None:
            if is_owed:
                self._ledger.checker.end_found(target.place, offset)
            self._positions[target] = max(start, offset - 1 - self._world.random.randrange(40))
        self._later()

    def abandon(self) -> None:
        self.is_stopped = True
        if self._connection is not None:
            self._connection.close()


class Reader:
    """Reads a partition that shall have come to rest: all of it in order, and then here and there."""

    def __init__(self, ledger: Ledger, target: Target, *, samples: int, done: Callable[[], None]) -> None:
        self._ledger = ledger
        self._target = target
        self._samples = samples
        self._done = done
        self._found: list[Served] = []
        self._start = 0
        self._connection: Connection | None = None
        self._read_on(0)

    def _read_on(self, offset: int) -> None:
        self._fetch(offset, 1 << 20, self._read)

    def _read(self, offset: int, fetched: Fetched, records: list[Served]) -> None:
        self._found += records
        if records:
            self._read_on(records[-1].offset + 1)
            return
        self._start = fetched.start_offset
        self._ledger.checker.final(self._target.place, self._found, start=self._start, end=fetched.high_watermark)
        self._sample()

    def _sample(self) -> None:
        if self._samples == 0 or not self._found or self._found[-1].offset < self._start:
            self._done()
            return
        self._samples -= 1
        self._fetch(self._ledger.world.random.randint(self._start, self._found[-1].offset), 1, self._sampled)

    def _sampled(self, offset: int, fetched: Fetched, records: list[Served]) -> None:
        if not records:
            self._ledger.checker.found(Kind.GAP, str(self._target), f"nothing at {offset}")
        self._ledger.checker.served(self._target.place, offset, records, high_watermark=fetched.high_watermark)
        self._sample()

    def _fetch(self, offset: int, bytes_max: int, then: Callable[[int, Fetched, list[Served]], None]) -> None:
        target = self._target
        connection = self._connection = self._connection or self._ledger.machine.connect()
        assert connection is not None, "the machine is up by now"
        frame = encode_fetch(
            topic=target.name, partition=target.partition, offset=offset, wait_ms=0, bytes_min=0, bytes_max=bytes_max
        )

        def answered(answer: bytes | None) -> None:
            assert answer is not None, "nothing breaks any more"
            fetched = parse_fetched(answer)
            if fetched.error == 0:
                then(offset, fetched, self._ledger.open(fetched.records, str(target)))
            elif fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE and offset == 0:
                ask_start(connection, target, self._start_found)
            else:
                name = ErrorCode(fetched.error).name
                self._ledger.checker.found(Kind.REFUSED, str(target), f"offset {offset}: {name}")
                self._done()

        connection.send(frame, answered)

    def _start_found(self, start: int | None) -> None:
        assert start is not None, "nothing breaks any more"
        self._read_on(start)
