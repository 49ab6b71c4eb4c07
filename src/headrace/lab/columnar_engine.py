"""The columnar engine: batches built from columns, several requests under way to each broker, one thread.

A message counts as sent when it was taken into a batch that is being filled, as with any producer. A batch is closed
when it is full, or when its first message has lingered and the broker is not behind; batches take the partitions by
turns. What a broker has not answered waits on its connection, at most `IN_FLIGHT_MAX` requests at a time as with
Kafka's own producer, and the rest in the buffer.

A batch that was refused, or whose connection was lost, has failed: it is not sent again. A sender that measures tells
what went wrong, and a second try would hide it. A broker that is away is looked for again while its batches wait.

A second thread, as `columnar.Writer` has one for each broker, would have to take turns with this one at the
interpreter's lock, and both at the wrong moments: sending and answering are parts of one loop.
"""

import select
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.columnar.encoding import encode_batches
from headrace.columnar.record_columns import ByteColumn, RecordColumns
from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID
from headrace.lab.engines import Terms
from headrace.lab.errors import LabError
from headrace.lab.payloads import Payloads
from headrace.lab.sender_clock import SenderClock
from headrace.lab.timeline import Timeline
from headrace.protocol.compression import Codec
from headrace.protocol.messages.produce import API as PRODUCE
from headrace.protocol.produce import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
from headrace.wire.cluster import Cluster
from headrace.wire.connection import Connection, Ticket
from headrace.wire.errors import Advice, Unavailable, advice
from headrace.wire.produce import TopicBatches, encode_produce, read_lone_answer
from headrace.wire.settings import ClientSettings

Int64s = npt.NDArray[np.int64]

IN_FLIGHT_MAX: Final = 5
_REQUEST_BYTES_MAX: Final = 1 << 20
_ACKS: Final = {"0": 0, "1": 1, "all": -1}
_PURPOSE: Final = "produce"
_LOOK_AGAIN_NS: Final = 200_000_000
_LOOK_S: Final = 0.5  # Sending stands still meanwhile, and it shows as lateness.
_SLEEP_MAX_S: Final = 1.0
_INT32: Final = struct.Struct(">i")
_ZERO: Final = np.zeros(1, np.int64)


class _Batch(NamedTuple):
    partition: int
    data: memoryview
    value_bytes: int
    planned: Int64s
    sent: Int64s


@dataclass(slots=True, eq=False)
class _Lane:
    """One broker, and what is on its way to it."""

    node_id: int
    waiting: deque[_Batch] = field(default_factory=deque)
    in_flight: deque[tuple[Ticket, list[_Batch]]] = field(default_factory=deque)
    connection: Connection | None = None  # None while the broker is away.

    @property
    def is_behind(self) -> bool:
        return bool(self.waiting) or len(self.in_flight) >= IN_FLIGHT_MAX


class ColumnarEngine:
    offer_max = 8192

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        terms: Terms,
        payloads: Payloads,
        timeline: Timeline,
        clock: SenderClock,
        *,
        partition: int | None,
    ) -> None:
        self._topic = topic
        self._terms = terms
        self._acks = _ACKS[terms.acks]
        self._codec = Codec[terms.compression.upper()]
        self._linger_ns = int(terms.linger_ms * 1_000_000)
        self._payloads = payloads
        self._timeline = timeline
        self._clock = clock
        self._cluster = Cluster(settings)
        self._timeout_ms = int(1000 * settings.request_timeout_s)
        try:
            partitions = self._cluster.partitions(topic)
            self._topic_id = self._cluster.topic(topic).topic_id
            if partition is not None and partition not in partitions:
                raise LabError(f"topic {topic!r} has no partition {partition}, but {len(partitions)}")
            self._leaders = {number: self._cluster.leader(topic, number).node_id for number in partitions}
            self._lanes = {node_id: _Lane(node_id) for node_id in self._leaders.values()}
            for lane in self._lanes.values():
                lane.connection = self._cluster.connection(lane.node_id, _PURPOSE)
                lane.connection.open()
        except BaseException:
            self._cluster.close()
            raise
        self.throttled_ns = 0
        self._look_at_ns: int | None = None  # When to look for leaders again, if some are not where they were.
        self._turns = cycle(partitions if partition is None else [partition])
        self._next_partition = next(self._turns)
        self._planned: list[Int64s] = []  # Of messages that are in no batch yet.
        self._sent: list[Int64s] = []
        self._pending = 0
        self._pending_bytes = 0
        self._oldest_ns = 0
        self._held_bytes = 0  # Of all values whose fate is not known.
        self._held = 0
        self._column: ByteColumn | None = None
        self._stamps_ms: Int64s = np.empty(0, np.int64)

    # --- From messages to batches --------------------------------------------------------------------------------

    def offer(self, planned: Int64s, now_ns: int) -> int:
        room = int((self._terms.buffer_bytes - self._held_bytes) / max(1.0, self._payloads.mean_bytes))
        if self._held == 0:
            room = max(1, room)  # One message is always allowed.
        taken = min(len(planned), max(0, room))
        if not taken:
            return 0
        if not self._pending:
            self._oldest_ns = now_ns
        size_bytes = self._payloads.reserve(taken)
        sent = np.full(taken, now_ns)
        self._planned.append(planned[:taken])
        self._sent.append(sent)
        self._timeline.sent(planned[:taken], sent, size_bytes)
        self._pending += taken
        self._pending_bytes += size_bytes
        self._held += taken
        self._held_bytes += size_bytes
        return taken

    def _close_batches(self, now_ns: int) -> None:
        terms = self._terms
        while self._pending:
            next_lane = self._lanes[self._leaders[self._next_partition]]
            is_due = now_ns - self._oldest_ns >= self._linger_ns and not next_lane.is_behind
            is_full = self._pending_bytes >= terms.batch_bytes or (
                terms.batch_messages is not None and self._pending >= terms.batch_messages
            )
            if not (is_due or is_full) or not self._encode(is_due=is_due):
                return

    def _encode(self, *, is_due: bool) -> bool:
        """Close all batches that can be, of what is pending; the last one only if its time has come. Whether any."""
        count = min(self._pending, self._payloads.columns_max)
        planned, sent = _joined(self._planned), _joined(self._sent)
        column, rows = self._payloads.columns(count)
        if column is not self._column:
            self._column, self._stamps_ms = column, np.zeros(len(column), np.int64)
        self._stamps_ms[rows] = self._clock.utc_ms(planned[:count])
        batches = encode_batches(
            RecordColumns(None, column, None, self._stamps_ms),
            rows,
            batch_bytes=self._terms.batch_bytes,
            batch_rows=self._terms.batch_messages,
            codec=self._codec,
        )
        is_last_open = (not is_due or count < self._pending) and batches[-1].record_count != self._terms.batch_messages
        ready = batches[:-1] if is_last_open and len(batches) > 1 else batches
        sizes = np.concatenate([_ZERO, np.cumsum(column.offsets[rows + 1] - column.offsets[rows])]).tolist()
        used = 0
        for batch in ready:
            end = used + batch.record_count
            value_bytes = sizes[end] - sizes[used]
            lane = self._lanes[self._leaders[self._next_partition]]
            lane.waiting.append(
                _Batch(self._next_partition, batch.data, value_bytes, planned[used:end], sent[used:end])
            )
            self._next_partition = next(self._turns)
            self._pending_bytes -= value_bytes
            used = end
        self._payloads.release(used)
        self._pending -= used
        self._planned, self._sent = [planned[used:]], [sent[used:]]
        if self._pending:
            self._oldest_ns = int(sent[used])
        return used > 0

    # --- From batches to brokers ---------------------------------------------------------------------------------

    def poll(self, now_ns: int) -> None:
        for lane in self._lanes.values():
            self._receive(lane)
        self._close_batches(now_ns)
        if self._look_at_ns is not None and now_ns >= self._look_at_ns:
            self._look_at_ns = None if self._has_found_all() else self._clock.now_ns() + _LOOK_AGAIN_NS
        for lane in self._lanes.values():
            self._send(lane)

    def _send(self, lane: _Lane) -> None:
        while lane.waiting and len(lane.in_flight) < IN_FLIGHT_MAX and lane.connection is not None:
            batches = _request_batches(lane.waiting)
            try:
                ticket = self._request(lane.connection, batches)
            except Unavailable as trouble:
                self._lose(lane, trouble, batches)
                return
            if self._acks:
                lane.in_flight.append((ticket, batches))
            else:
                self._conclude(batches)

    def _request(self, connection: Connection, batches: list[_Batch]) -> Ticket:
        version = connection.version_of(PRODUCE)
        if self._topic_id == ZERO_TOPIC_ID:
            version = min(version, TOPIC_IDS_SINCE - 1)
        body = encode_produce(
            version,
            [TopicBatches(self._topic, self._topic_id, [(batch.partition, batch.data) for batch in batches])],
            acks=self._acks,
            timeout_ms=self._timeout_ms,
        )
        return connection.send_encoded(PRODUCE, body, version=version, answered=self._acks != 0)

    def _receive(self, lane: _Lane) -> None:
        while lane.in_flight and lane.connection is not None and lane.connection.is_answering():
            ticket, batches = lane.in_flight[0]
            try:
                frame, position = lane.connection.receive_frame(ticket)
            except Unavailable as trouble:
                self._lose(lane, trouble, [])
                return
            lane.in_flight.popleft()
            codes = _read_codes(ticket, frame, position)
            self.throttled_ns += read_throttle_ms(frame, ticket.version) * 1_000_000
            self._conclude([batch for batch in batches if codes.get(batch.partition) == ErrorCode.NONE])
            for batch in batches:
                code = codes.get(batch.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                if code != ErrorCode.NONE:
                    self._fail([batch], error_name(code))
                    if advice(code) is Advice.REFRESH:
                        self._look_at_ns = self._clock.now_ns()

    def _conclude(self, batches: list[_Batch]) -> None:
        now_ns = self._clock.now_ns()
        record = self._timeline.acknowledged if self._acks else self._timeline.unanswered
        for batch in batches:
            record(batch.planned, batch.sent, np.full(len(batch.planned), now_ns), batch.value_bytes)
        self._let_go(batches)

    def _let_go(self, batches: list[_Batch]) -> None:
        self._held -= sum(len(batch.planned) for batch in batches)
        self._held_bytes -= sum(batch.value_bytes for batch in batches)

    # --- What goes wrong -----------------------------------------------------------------------------------------

    def _fail(self, batches: list[_Batch], reason: str) -> None:
        messages = sum(len(batch.planned) for batch in batches)
        if messages:
            self._timeline.failed(messages, self._clock.now_ns(), reason)
        self._let_go(batches)

    def _lose(self, lane: _Lane, trouble: Unavailable, batches: list[_Batch]) -> None:
        """The broker is away: what was under way to it has failed, what waits goes on waiting."""
        for _, under_way in lane.in_flight:
            batches = batches + under_way
        lane.in_flight.clear()
        self._fail(batches, type(trouble).__name__)
        lane.connection = None
        self._look_at_ns = self._clock.now_ns()

    def _has_found_all(self) -> bool:
        """Whether every broker is there that leads something. What others lead by now goes to them."""
        try:
            known = self._cluster.refresh([self._topic], timeout_s=_LOOK_S)
        except Unavailable:
            return False
        topic = known.topics.get(self._topic)
        if topic is None:
            return False
        self._topic_id = topic.topic_id
        waiting = [batch for lane in self._lanes.values() for batch in lane.waiting]
        for lane in self._lanes.values():
            lane.waiting.clear()
        for number, partition in enumerate(topic.partitions):
            if partition.leader_id in known.brokers:
                self._leaders[number] = partition.leader_id
                self._lanes.setdefault(partition.leader_id, _Lane(partition.leader_id))
        for batch in waiting:
            self._lanes[self._leaders[batch.partition]].waiting.append(batch)
        leading = set(self._leaders.values())
        found = [self._has_found(lane) for lane in self._lanes.values() if lane.node_id in leading]
        return all(found)

    def _has_found(self, lane: _Lane) -> bool:
        if lane.connection is not None:
            return True
        try:
            connection = self._cluster.connection(lane.node_id, _PURPOSE)
            connection.open()
        except Unavailable:
            return False
        lane.connection = connection
        return True

    # --- Waiting -------------------------------------------------------------------------------------------------

    def wait(self, timeout_ns: int) -> None:
        timeout_s = min(timeout_ns / 1e9, _SLEEP_MAX_S)
        asked = [lane.connection for lane in self._lanes.values() if lane.in_flight and lane.connection is not None]
        if asked:
            select.select(asked, [], [], timeout_s)  # The one call of its kind that counts in microseconds.
        else:
            time.sleep(timeout_s)

    @property
    def deadline_ns(self) -> int | None:
        return self._oldest_ns + self._linger_ns if self._pending else None

    @property
    def outstanding(self) -> int:
        return self._held

    def pop_statistics(self) -> list[dict[str, Any]]:
        return []

    def hasten(self) -> None:
        self._linger_ns = 0

    def close(self) -> None:
        self._cluster.close()


def _read_codes(ticket: Ticket, frame: memoryview, position: int) -> dict[int, int]:
    """What an answer says of each partition."""
    lone = read_lone_answer(frame, position, ticket.version)
    if lone is not None:
        return dict([lone])
    answer = ticket.api.response.decode(frame, ticket.version, position)
    return {part["index"]: part["error_code"] for each in answer["responses"] for part in each["partition_responses"]}


def read_throttle_ms(frame: memoryview, version: int) -> int:
    """The last field of an answer; where tags follow it, which they do only beside an error, it is not looked for."""
    tags_bytes = 1 if version >= FLEXIBLE_SINCE else 0
    if tags_bytes and frame[-1] != 0:
        return 0
    (throttle_ms,) = _INT32.unpack_from(frame, len(frame) - _INT32.size - tags_bytes)
    return int(throttle_ms)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _request_batches(waiting: deque[_Batch]) -> list[_Batch]:
    """The next batches that go into one request: one of a partition, and not too many bytes."""
    chosen = [waiting.popleft()]
    partitions = {chosen[0].partition}
    size_bytes = len(chosen[0].data)
    while waiting and waiting[0].partition not in partitions:
        size_bytes += len(waiting[0].data)
        if size_bytes > _REQUEST_BYTES_MAX:
            break
        chosen.append(waiting.popleft())
        partitions.add(chosen[-1].partition)
    return chosen


def _joined(parts: list[Int64s]) -> Int64s:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
