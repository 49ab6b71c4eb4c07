"""Encoded batches on their way: to the leaders of their partitions, acknowledged, in order, each exactly once.

One thread for each broker that leads something. It sends the first batch of each of its partitions in one request and
waits for the answer, so that of a partition one batch is under way at a time: what has to be sent again is sent as it
was, and nothing can overtake it. With a producer id the broker knows a batch that it has already by its sequence
number, and the answer that got lost costs nothing.

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
from headrace.protocol.batch import sequence_after
from headrace.protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from headrace.protocol.messages.produce import API as PRODUCE
from headrace.protocol.produce import TOPIC_IDS_SINCE
from headrace.wire.cluster import Cluster
from headrace.wire.errors import Advice, Unavailable, advice, refusal
from headrace.wire.metadata import Metadata
from headrace.wire.patience import Patience
from headrace.wire.produce import TopicBatches, encode_produce
from headrace.wire.retrying import leaders_after

_REQUEST_BYTES: Final = 8 << 20
_PURPOSE: Final = "produce"
_NO_OFFSET: Final = -1
# The broker does not know our last batch, or thinks that one is missing.
_FORGOTTEN: Final = {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class Producer(NamedTuple):
    """By which a broker knows what it has already."""

    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class _Target:
    """One partition, and what waits for it."""

    partition: int
    leader_id: int
    producer: Producer | None
    next_sequence: int = 0
    waiting: deque[EncodedBatch] = field(default_factory=deque)
    is_busy: bool = False
    is_stamped: bool = False  # The first of `waiting`.
    is_in_doubt: bool = False  # It was sent, and nobody knows what became of it.
    patience: Patience | None = None  # Since it was first sent.
    first_offset: int | None = None
    last_offset: int | None = None
    records: int = 0
    unacknowledged: int = 0


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
        self._changed = threading.Condition()
        self._targets: dict[int, _Target] = {}
        self._threads: set[int] = set()
        self._queued_bytes = 0
        self._failure: BaseException | None = None
        self._closed = False
        self._producer = self._new_producer() if idempotent else None

    # --- For whoever writes --------------------------------------------------------------------------------------

    def put(self, partition: int, batches: Iterable[EncodedBatch]) -> None:
        with self._changed:
            target = self._targets.get(partition)
        if target is None:
            target = self._add_target(partition)
        for batch in batches:
            with self._changed:
                while not self._is_over and not self._has_room(len(batch.data)):
                    self._changed.wait()
                self._raise_failure()
                target.waiting.append(batch)
                self._queued_bytes += len(batch.data)
                self._changed.notify_all()

    def drain(self) -> None:
        """Wait until everything is acknowledged."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or not self._queued_bytes)
            self._raise_failure()

    def close(self) -> None:
        """Send nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def delivered(self) -> dict[int, Delivered]:
        with self._changed:
            return {
                number: Delivered(target.records, target.first_offset, target.last_offset)
                for number, target in sorted(self._targets.items())
                if target.records
            }

    @property
    def unacknowledged(self) -> int:
        """Records that were sent with acks=0."""
        with self._changed:
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

    def _add_target(self, partition: int) -> _Target:
        leader = self._cluster.leader(self._topic, partition)
        target = _Target(partition, leader.node_id, self._producer)
        with self._changed:
            self._targets[partition] = target
            self._employ([target])
        return target

    # --- The threads ---------------------------------------------------------------------------------------------

    def _employ(self, targets: Iterable[_Target]) -> None:
        for node_id in {target.leader_id for target in targets} - self._threads:
            self._threads.add(node_id)
            name = f"headrace-produce-{node_id}"
            threading.Thread(target=self._work, args=(node_id,), name=name, daemon=True).start()
        self._changed.notify_all()

    def _work(self, node_id: int) -> None:
        try:
            while (targets := self._next_targets(node_id)) is not None:
                self._send(node_id, targets)
        except BaseException as error:  # Theirs who write.
            with self._changed:
                if self._failure is None and not self._closed:
                    self._failure = error
                self._changed.notify_all()

    def _next_targets(self, node_id: int) -> list[_Target] | None:
        """Partitions that this broker leads and that have something to send, as many as fit into a request."""
        with self._changed:
            while not self._is_over:
                chosen: list[_Target] = []
                size = 0
                for target in self._targets.values():
                    if target.leader_id == node_id and target.waiting and not target.is_busy:
                        size += len(target.waiting[0].data)
                        if chosen and size > _REQUEST_BYTES:
                            break
                        chosen.append(target)
                if chosen:
                    for target in chosen:
                        target.is_busy = True
                        # To the end of the line, so that those behind are not left out of every request.
                        self._targets[target.partition] = self._targets.pop(target.partition)
                    return chosen
                self._changed.wait()
            return None

    # --- One request ---------------------------------------------------------------------------------------------

    def _send(self, node_id: int, targets: Sequence[_Target]) -> None:
        cluster = self._cluster
        seen = cluster.metadata
        for target in targets:
            self._prepare(target)
        try:
            connection = cluster.connection(node_id, _PURPOSE)
            topic = cluster.topic(self._topic)
            version = connection.version_of(PRODUCE)
            if topic.topic_id == ZERO_TOPIC_ID:
                version = min(version, TOPIC_IDS_SINCE - 1)
            batches = [(target.partition, target.waiting[0].data) for target in targets]
            timeout_ms = int(1000 * cluster.settings.request_timeout_s)
            body = encode_produce(
                version,
                [TopicBatches(self._topic, topic.topic_id, batches)],
                acks=self._acks,
                timeout_ms=timeout_ms,
            )
            ticket = connection.send_encoded(PRODUCE, body, version=version, answered=self._acks != 0)
            # A broker takes its time first, and then says that it was too long.
            patience_s = 1.5 * cluster.settings.request_timeout_s
            answer = connection.receive(ticket, timeout_s=patience_s) if self._acks != 0 else None
        except Unavailable as trouble:
            for target in targets:
                target.is_in_doubt = True
            self._retry(targets, trouble, seen)
            return
        if answer is None:
            self._conclude(dict.fromkeys(targets, _NO_OFFSET))
            return
        offsets: dict[_Target, int] = {}
        troubles: dict[_Target, HeadraceError] = {}
        hopeless: list[HeadraceError] = []
        by_partition = {target.partition: target for target in targets}
        for part in (part for each in answer["responses"] for part in each["partition_responses"]):
            if part["index"] not in by_partition:
                raise ProtocolError(f"partition {part['index']} of {self._topic!r} was answered and not asked for")
            target = by_partition.pop(part["index"])
            code = part["error_code"]
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                offsets[target] = part["base_offset"] if code == ErrorCode.NONE else _NO_OFFSET
            elif code in _FORGOTTEN and self._idempotent and not target.is_in_doubt:
                # Whatever was sent before was acknowledged, and this batch was refused: it may begin a new sequence.
                target.producer, target.next_sequence, target.is_stamped = self._new_producer(), 0, False
                troubles[target] = refusal(code, self._name(target))
            else:
                troubles[target] = self._explain(target, code, part["error_message"])
                if advice(code) is Advice.FAIL:
                    hopeless.append(troubles[target])
        for target in by_partition.values():
            target.is_in_doubt = True
            troubles[target] = Unavailable(f"{self._name(target)}: the answer does not tell what became of a batch")
        self._conclude(offsets)
        if hopeless:
            raise hopeless[0]
        if troubles:
            self._retry(list(troubles), next(iter(troubles.values())), seen)

    def _prepare(self, target: _Target) -> None:
        if target.patience is None:
            target.patience = self._cluster.patience(self._cluster.settings.delivery_timeout_s)
        if target.producer is not None and not target.is_stamped:
            batch = target.waiting[0]
            producer_id, epoch = target.producer
            stamp(batch, producer_id=producer_id, producer_epoch=epoch, base_sequence=target.next_sequence)
        target.is_stamped = True

    def _conclude(self, offsets: Mapping[_Target, int]) -> None:
        with self._changed:
            for target, offset in offsets.items():
                batch = target.waiting.popleft()
                self._queued_bytes -= len(batch.data)
                target.next_sequence = sequence_after(target.next_sequence, batch.record_count)
                target.is_stamped = target.is_in_doubt = target.is_busy = False
                target.patience = None
                if self._acks == 0:
                    target.unacknowledged += batch.record_count
                    continue
                target.records += batch.record_count
                if offset != _NO_OFFSET:
                    target.last_offset = offset + batch.record_count - 1
                    if target.first_offset is None:
                        target.first_offset = offset
            self._changed.notify_all()

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

    def _retry(self, targets: Sequence[_Target], trouble: HeadraceError, seen: Metadata) -> None:
        """Send the same again a little later, to whoever leads by then."""
        if self._acks == 0:
            raise trouble
        patience = min((target.patience for target in targets if target.patience), key=lambda one: one.left_s)
        places = {target: TopicPartition(TopicName(self._topic), target.partition) for target in targets}
        leaders = leaders_after(trouble, self._cluster, places.values(), patience=patience, seen=seen)
        with self._changed:
            for target, place in places.items():
                target.leader_id = leaders[place].node_id
                target.is_busy = False
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
