"""Encoded batches on their way: to the leaders of their partitions, acknowledged, in order, each exactly once.

Two connections to each broker that leads something, with a thread each and half of its partitions: brokers take the
requests of one connection one after the other. A request has the next batch of each of its partitions. With a producer
id up to five of a partition are under way at a time, which is how many a broker remembers: it knows a batch that it has
already by its sequence number, refuses one whose predecessor it lacks, and so the answer that got lost costs nothing.
Without an id it is one. Whatever has to be sent again is sent as it was, in the same order, once all of its partition
that was under way has come back; then again one at a time, until one is acknowledged.

Rules:

- What is queued stays below `memory_bytes`, except that one batch is always allowed; `put` waits.
- A failure that may pass is tried again until the delivery timeout is over. After any other nothing more is sent, and
  `put` and `drain` raise it.
- Nothing counts as written before its acknowledgement has come. Without acknowledgements nothing does.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.columnar.encoding import EncodedBatch, stamp
from headrace.errors import ErrorCode, HeadraceError, ProtocolError
from headrace.ids import ZERO_TOPIC_ID, TopicName, TopicPartition
from headrace.protocol.batch import NO_PRODUCER_ID, NO_SEQUENCE, sequence_after
from headrace.protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from headrace.protocol.messages.produce import API as PRODUCE
from headrace.protocol.produce import TOPIC_IDS_SINCE
from headrace.wire.cluster import Cluster
from headrace.wire.connection import Connection, Ticket
from headrace.wire.errors import Advice, Unavailable, advice, refusal
from headrace.wire.metadata import Metadata
from headrace.wire.patience import Patience
from headrace.wire.produce import TopicBatches, encode_produce
from headrace.wire.retrying import leaders_after

_REQUEST_BYTES: Final = 8 << 20
_CONNECTIONS: Final = 2  # To each broker; Apache Kafka was seen to take a fifth more than from one.
_NO_OFFSET: Final = -1
_UNDER_WAY_MAX: Final = 5  # Requests to a broker, and batches of a partition: it remembers so many of a producer.
# The broker does not know our last batch, or thinks that one is missing.
_FORGOTTEN: Final = {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class Producer(NamedTuple):
    """By which a broker knows what it has already."""

    producer_id: int
    epoch: int


_NOBODY: Final = Producer(NO_PRODUCER_ID, -1)


class _Way(NamedTuple):
    """One of the connections to a broker."""

    node_id: int
    number: int

    @property
    def purpose(self) -> str:
        return f"produce-{self.number}"


def _way_to(node_id: int, partition: int) -> _Way:
    return _Way(node_id, partition % _CONNECTIONS)


@dataclass(slots=True, eq=False)
class _Target:
    """One partition, and what waits for it: of `waiting` so many of the first are under way, and so on."""

    partition: int
    way: _Way
    producer: Producer | None
    next_sequence: int = 0  # Of the first that is not stamped.
    waiting: deque[EncodedBatch] = field(default_factory=deque)
    under_way: int = 0
    stamped: int = 0
    in_doubt: int = 0  # They were sent, and nobody knows what became of them.
    is_steady: bool = False  # The last to come back was acknowledged.
    trouble: HeadraceError | None = None  # Why the first is to be sent again,
    is_forgotten: bool = False  # namely because the broker knows nothing of those before it.
    patience: Patience | None = None  # Since it was first sent.
    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    unacknowledged: int = 0

    def may_send(self) -> bool:
        under_way_max = _UNDER_WAY_MAX if self.is_steady and self.producer is not None else 1
        return self.trouble is None and self.under_way < min(under_way_max, len(self.waiting))

    def doubt(self, batch: EncodedBatch) -> None:
        """Of this one and those before it, for all we know, the broker has some."""
        position = next(index for index, each in enumerate(self.waiting) if each is batch)
        self.in_doubt = max(self.in_doubt, position + 1)

    def come_back(self, trouble: HeadraceError) -> None:
        """One that was under way is not acknowledged; the first trouble is the cause of what follows it."""
        self.under_way -= 1
        self.is_steady = False
        if self.trouble is None:
            self.trouble = trouble


class _Request(NamedTuple):
    """One that is under way: what it carries, and where its answer comes."""

    connection: Connection
    ticket: Ticket
    batches: Mapping[_Target, EncodedBatch]


class Delivered(NamedTuple):
    """What became of one partition's rows. Other producers' records may lie between the two offsets."""

    records: int
    first_offset: int | None
    last_offset: int | None


class Delivery:
    """Fill it from one thread."""

    def __init__(self, cluster: Cluster, topic: str, *, acks: int, idempotent: bool, memory_bytes: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._idempotent = idempotent
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()  # Of all that follows; never held while waiting for a broker.
        self._progress = threading.Condition(self._lock)  # For whoever writes: there is room, or all is delivered.
        self._ways: dict[_Way, threading.Condition] = {}  # Each with a thread, which waits for something to send.
        self._targets: dict[int, _Target] = {}
        self._queued_bytes = 0
        self._failure: BaseException | None = None
        self._closed = False
        self._producer = self._new_producer() if idempotent else None

    # --- For whoever writes --------------------------------------------------------------------------------------

    def put(self, batches: Sequence[tuple[int, EncodedBatch]]) -> None:
        """With the partition of each. Many at once are better than few: a thread is woken once for all of them."""
        with self._lock:
            unknown = {partition for partition, _ in batches} - self._targets.keys()
        for partition in unknown:
            self._add_target(partition)
        with self._lock:
            for partition, batch in batches:
                size = len(batch.data)
                while not self._is_over and not self._has_room(size):
                    self._wake(self._ways)
                    self._progress.wait()
                self._raise_failure()
                self._targets[partition].waiting.append(batch)
                self._queued_bytes += size
            self._wake({self._targets[partition].way for partition, _ in batches})

    def drain(self) -> None:
        """Wait until everything is acknowledged."""
        with self._lock:
            self._progress.wait_for(lambda: self._is_over or not self._queued_bytes)
            self._raise_failure()

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._closed = True
            self._wake_all()

    def delivered(self) -> dict[int, Delivered]:
        with self._lock:
            return {
                number: Delivered(target.records, target.first_offset, target.last_offset)
                for number, target in sorted(self._targets.items())
                if target.records
            }

    @property
    def unacknowledged(self) -> int:
        """Records that were sent with acks=0."""
        with self._lock:
            return sum(target.unacknowledged for target in self._targets.values())

    def _has_room(self, size: int) -> bool:
        return not self._queued_bytes or self._queued_bytes + size <= self._memory_bytes

    @property
    def _is_over(self) -> bool:
        return self._closed or self._failure is not None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise HeadraceError(f"writing to topic {self._topic!r} was closed")

    def _add_target(self, partition: int) -> None:
        leader = self._cluster.leader(self._topic, partition)
        target = _Target(partition, _way_to(leader.node_id, partition), self._producer)
        with self._lock:
            self._targets[partition] = target
            self._employ([target])

    # --- The threads ---------------------------------------------------------------------------------------------

    def _employ(self, targets: Iterable[_Target]) -> None:
        """Have what these wait for sent, by whoever is on the way to their leaders."""
        ways = {target.way for target in targets}
        for way in ways - self._ways.keys():
            self._ways[way] = threading.Condition(self._lock)
            name = f"headrace-{way.purpose}-to-{way.node_id}"
            threading.Thread(target=self._work, args=(way,), name=name, daemon=True).start()
        self._wake(ways)

    def _wake(self, ways: Iterable[_Way]) -> None:
        for way in ways:
            self._ways[way].notify()

    def _wake_all(self) -> None:
        self._wake(self._ways)
        self._progress.notify_all()

    def _work(self, way: _Way) -> None:
        requests: deque[_Request] = deque()
        try:
            while (targets := self._next_targets(way, has_time=not requests)) is not None:
                seen = self._cluster.metadata
                # One connection for all that is under way, or it would not arrive in order; a lost one is left first.
                connection = requests[-1].connection if requests else None
                has_way = connection is None or connection.usable
                if targets and has_way and len(requests) < _UNDER_WAY_MAX:
                    if request := self._send(way, targets, connection):
                        requests.append(request)
                else:
                    targets = self._receive(requests.popleft())
                self._retry([target for target in targets if target.trouble and not target.under_way], seen)
        except BaseException as error:  # Theirs who write.
            with self._lock:
                if self._failure is None and not self._closed:
                    self._failure = error
                self._wake_all()

    def _next_targets(self, way: _Way, *, has_time: bool) -> list[_Target] | None:
        """Partitions that go this way and have something to send, as many as fit into a request."""
        with self._lock:
            while not self._is_over:
                chosen: list[_Target] = []
                size = 0
                for target in self._targets.values():
                    if target.way == way and target.may_send():
                        size += len(target.waiting[target.under_way].data)
                        if chosen and size > _REQUEST_BYTES:
                            break
                        chosen.append(target)
                if chosen or not has_time:
                    return chosen
                self._ways[way].wait()
            return None

    # --- One request ---------------------------------------------------------------------------------------------

    def _send(self, way: _Way, targets: Sequence[_Target], connection: Connection | None) -> _Request | None:
        """None where no answer will come."""
        cluster = self._cluster
        batches = {target: self._take(target) for target in targets}
        try:
            connection = connection or cluster.connection(way.node_id, way.purpose)
            topic = cluster.topic(self._topic)
            version = connection.version_of(PRODUCE)
            if topic.topic_id == ZERO_TOPIC_ID:
                version = min(version, TOPIC_IDS_SINCE - 1)
            parts = [(target.partition, batch.data) for target, batch in batches.items()]
            body = encode_produce(
                version,
                [TopicBatches(self._topic, topic.topic_id, parts)],
                acks=self._acks,
                timeout_ms=int(1000 * cluster.settings.request_timeout_s),
            )
            ticket = connection.send_encoded(PRODUCE, body, version=version, answered=self._acks != 0)
        except Unavailable as trouble:
            self._give_up(batches, trouble)
            return None
        if self._acks == 0:
            self._conclude(dict.fromkeys(targets, _NO_OFFSET))
            return None
        return _Request(connection, ticket, batches)

    def _take(self, target: _Target) -> EncodedBatch:
        """The next one that is not under way, stamped."""
        with self._lock:
            # To the end of the line, so that those behind are not left out of every request.
            self._targets[target.partition] = self._targets.pop(target.partition)
            batch = target.waiting[target.under_way]
            target.under_way += 1
        if target.patience is None:
            target.patience = self._patience()
        if target.stamped < target.under_way:
            producer_id, epoch = target.producer or _NOBODY
            sequence = target.next_sequence if target.producer else NO_SEQUENCE
            stamp(batch, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
            target.next_sequence = sequence_after(target.next_sequence, batch.record_count)
            target.stamped += 1
        return batch

    def _receive(self, request: _Request) -> list[_Target]:
        """Wait for the answer, and take in what it says; whom it was about."""
        try:
            # A broker takes its time first, and then says that it was too long.
            patience_s = 1.5 * self._cluster.settings.request_timeout_s
            answer = request.connection.receive(request.ticket, timeout_s=patience_s)
        except Unavailable as trouble:
            self._give_up(request.batches, trouble)
            return list(request.batches)
        offsets: dict[_Target, int] = {}
        hopeless: list[HeadraceError] = []
        by_partition = {target.partition: target for target in request.batches}
        for part in (part for each in answer["responses"] for part in each["partition_responses"]):
            if part["index"] not in by_partition:
                raise ProtocolError(f"partition {part['index']} of {self._topic!r} was answered and not asked for")
            target = by_partition.pop(part["index"])
            code = part["error_code"]
            if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                hopeless += self._refused(target, code, part["error_message"])
            elif target.trouble is None:
                offsets[target] = part["base_offset"] if code == ErrorCode.NONE else _NO_OFFSET
            else:
                # What came before it is in doubt: it is sent again after that, and the broker will know it.
                target.doubt(request.batches[target])
                target.come_back(target.trouble)
        self._conclude(offsets)
        if hopeless:
            raise hopeless[0]
        for target in by_partition.values():
            silence = Unavailable(f"{self._name(target)}: the answer does not tell what became of a batch")
            self._give_up({target: request.batches[target]}, silence)
        return list(request.batches)

    def _refused(self, target: _Target, code: int, message: str | None) -> list[HeadraceError]:
        """What no waiting will mend, if that is why."""
        if target.trouble is not None:
            target.come_back(target.trouble)  # Because of the one before it.
            return []
        is_forgotten = code in _FORGOTTEN and self._idempotent and not target.in_doubt
        trouble = refusal(code, self._name(target)) if is_forgotten else self._explain(target, code, message)
        target.is_forgotten = is_forgotten
        target.come_back(trouble)
        return [trouble] if not is_forgotten and advice(code) is Advice.FAIL else []

    def _patience(self) -> Patience:
        return self._cluster.patience(self._cluster.settings.delivery_timeout_s)

    def _give_up(self, batches: Mapping[_Target, EncodedBatch], trouble: Unavailable) -> None:
        """Nobody will tell what became of them."""
        for target, batch in batches.items():
            target.doubt(batch)
            target.come_back(trouble)

    def _conclude(self, offsets: Mapping[_Target, int]) -> None:
        with self._lock:
            for target, offset in offsets.items():
                batch = target.waiting.popleft()
                self._queued_bytes -= len(batch.data)
                target.under_way -= 1
                target.stamped -= 1
                target.in_doubt = max(0, target.in_doubt - 1)
                target.is_steady = True
                target.patience = self._patience() if target.under_way else None
                if self._acks == 0:
                    target.unacknowledged += batch.record_count
                    continue
                target.records += batch.record_count
                if offset != _NO_OFFSET:
                    target.last_offset = offset + batch.record_count - 1
                    if target.first_offset is None:
                        target.first_offset = offset
            self._progress.notify_all()

    # --- What goes wrong -----------------------------------------------------------------------------------------

    def _name(self, target: _Target) -> str:
        return f"partition {target.partition} of topic {self._topic!r}"

    def _explain(self, target: _Target, code: int, message: str | None) -> HeadraceError:
        if code == ErrorCode.MESSAGE_TOO_LARGE:
            size = len(target.waiting[0].data)
            return refusal(
                code,
                f"{self._name(target)} takes no batch of {size} bytes: make batch_bytes smaller, or max.message.bytes "
                "of the topic larger",
            )
        return refusal(code, f"writing to {self._name(target)}" + (f" ({message})" if message else ""))

    def _retry(self, targets: Sequence[_Target], seen: Metadata) -> None:
        """Send the same again a little later, to whoever leads by then."""
        if not targets:
            return
        trouble = targets[0].trouble
        assert trouble is not None
        if self._acks == 0:
            raise trouble
        for target in targets:
            if target.is_forgotten:
                if target.in_doubt:
                    raise trouble  # Some behind it were taken: a new sequence would send them twice.
                # Whatever was sent before was acknowledged, and this batch was refused: it may begin a new sequence.
                target.producer, target.next_sequence, target.stamped = self._new_producer(), 0, 0
        patience = min((target.patience for target in targets if target.patience), key=lambda one: one.left_s)
        places = {target: TopicPartition(TopicName(self._topic), target.partition) for target in targets}
        leaders = leaders_after(trouble, self._cluster, places.values(), patience=patience, seen=seen)
        with self._lock:
            for target, place in places.items():
                target.way = _way_to(leaders[place].node_id, target.partition)
                target.trouble, target.is_forgotten = None, False
            self._employ(targets)

    def _new_producer(self) -> Producer:
        """An id that nobody else has."""
        patience = self._cluster.patience()
        body = {"transactional_id": None, "transaction_timeout_ms": 2**31 - 1}
        while True:
            answer = self._cluster.call_any(INIT_PRODUCER_ID, body, timeout_s=patience.left_s)
            code = answer["error_code"]
            if code == ErrorCode.NONE:
                return Producer(answer["producer_id"], answer["producer_epoch"])
            if advice(code) is Advice.FAIL or not patience.pause():
                raise refusal(code, f"a producer id from {self._cluster}")
