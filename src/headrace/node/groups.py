"""The groups that this node coordinates: coordinators over the partitions of `__consumer_offsets`.

Each partition of that topic is one shard: its log holds what its coordinator decided, and a start replays it. Requests
and due timers become decisions there; what a decision says goes into the log, then into effect, then to those who are
answered, of whom some asked long ago.

The rules of groups are `coordination`'s business. Here is what it does not know: which shard a group belongs to, how
records get into a log and out of it, and who waits for which answer.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from headrace.coordination.coordinator import Coordinator, CoordinatorStatistics
from headrace.coordination.decision import Decision, Now
from headrace.coordination.members import Caller, Ticket
from headrace.coordination.records import GroupRecord, Unread, encode_record, parse_record
from headrace.coordination.settings import GroupSettings
from headrace.coordination.utf16 import offsets_partition
from headrace.errors import ApiError, CorruptBatch, ErrorCode, StorageError
from headrace.ids import TopicPartition
from headrace.node.apis import Call, Message
from headrace.node.appending import append_batch
from headrace.node.configs import BrokerConfig
from headrace.node.later import Later, resolved
from headrace.node.placement import place
from headrace.node.topics import OFFSETS_TOPIC, Partition, Topic
from headrace.ports import Cancel
from headrace.protocol.batch import HEADER_BYTES, parse_header
from headrace.protocol.records import Record, decode_records, encode_batch

if TYPE_CHECKING:
    from headrace.node.node import Node

Decide: TypeAlias = Callable[[Coordinator, Message, Caller, Now], Decision]
Refused: TypeAlias = Callable[[ErrorCode], Message]

# What is read of a log before others have their turn.
_LOAD_BYTES_PER_TURN: Final = 256 << 10
# Beside key and value: a record's lengths, differences and attributes at their longest.
_RECORD_OVERHEAD_BYTES: Final = 32


class GroupsStatistics(NamedTuple):
    groups_by_state: dict[str, int]
    members: int
    offsets: int
    waiting_answers: int
    shards_loading: int


class _Waiting(NamedTuple):
    """Somebody who is owed an answer, and how to refuse it."""

    answer: Later[Message]
    refused: Refused


class _Shard:
    """One partition of the topic, and the coordinator of its groups."""

    __slots__ = ("_armed_us", "_cancel", "_groups", "_node", "coordinator", "fault", "next_offset", "partition")

    def __init__(self, groups: "Groups", partition: Partition) -> None:
        self._groups = groups
        self._node = groups.node
        self.partition = partition
        self.coordinator = Coordinator(settings_from(self._node.config), random_bytes=self._node.random_bytes)
        # Why it does not serve, where it does not: it is being loaded, could not be, or is another's.
        self.fault = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self.next_offset = partition.log.start_offset
        self._armed_us: int | None = None
        self._cancel: Cancel | None = None
        if self.next_offset == partition.log.end_offset:
            self.begin()

    @property
    def is_loading(self) -> bool:
        return self.fault is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def begin(self) -> None:
        """Everything was read: serve."""
        self.fault = ErrorCode.NONE
        self.coordinator.start(self._groups.now())
        self._arm()

    def end(self, code: ErrorCode) -> None:
        """Serve no longer; who waits here is told to look elsewhere."""
        if self.fault is ErrorCode.NONE:
            self._groups.deliver(self.coordinator.decide_unload(code, self._groups.now()).answers)
        self.fault = code
        if self._cancel is not None:
            self._cancel()

    # --- Loading ---------------------------------------------------------------------------------------------

    def load_some(self, then: Callable[[], None], *, is_warm: bool = False) -> None:
        """Replay a little more of the log, then call back: at once, or once the device has brought it."""
        if not self.is_loading:
            then()  # It was deleted meanwhile.
            return
        log = self.partition.log
        try:
            span = log.read(self.next_offset, bytes_max=_LOAD_BYTES_PER_TURN, at_least_one=True, to_end=True)
            if span is None:
                self.begin()
            else:
                file, position, size = span
                if not is_warm and not file.is_warm(position, size):
                    file.warm_then(position, size, lambda: self.load_some(then, is_warm=True))
                    return
                self._replay(file.read(position, size))
        except (ApiError, CorruptBatch, StorageError) as error:
            self.fault = ErrorCode.NOT_COORDINATOR
            self._node.events.error("groups not loaded", partition=self.partition.index, error=error)
        then()

    def _replay(self, data: bytes) -> None:
        """Whole batches; a span may end inside one."""
        position = 0
        while position + HEADER_BYTES <= len(data):
            header = parse_header(data, position)
            end = position + header.size_bytes
            if end > len(data):
                break
            for record in decode_records(memoryview(data)[position:end]):
                if record.offset >= self.next_offset:
                    self._apply(record)
            self.next_offset = header.last_offset + 1
            position = end

    def _apply(self, record: Record) -> None:
        said = parse_record(record.key, record.value)
        if isinstance(said, Unread):
            self._groups.unread += 1
            self._node.events.warning(
                "group record not read", partition=self.partition.index, offset=record.offset, reason=said.reason
            )
        else:
            self.coordinator.apply(said)

    # --- Deciding --------------------------------------------------------------------------------------------

    def carry_out(self, decision: Decision) -> ErrorCode:
        """Into the log, into effect, and to those who are answered; or nothing of it, and why."""
        try:
            self._append(decision.records)
        except ApiError as error:
            self.coordinator.abandon(decision, self._groups.now())
            self._arm()
            return error.code
        self.coordinator.enact(decision)
        self._arm()
        if decision.answers:
            self._answer(decision.answers)
        return ErrorCode.NONE

    def _answer(self, answers: list[tuple[Ticket, Message]]) -> None:
        """Once everything that they tell of is as durable as the topic's settings ask, as if it had been produced."""
        log = self.partition.log
        if log.unflushed_messages < self.partition.topic.config.flush_messages:
            self._groups.deliver(answers)
            return

        def flushed(error: StorageError | None) -> None:
            if error is None:
                self._groups.deliver(answers)
            else:
                self._groups.refuse((ticket for ticket, _ in answers), ErrorCode.COORDINATOR_NOT_AVAILABLE)

        log.flush_then(log.end_offset, flushed)

    def _append(self, records: list[GroupRecord]) -> None:
        """One batch, as long as they fit. What needs several are offsets, each of which stands for itself: a crash
        between them, or a disk that fills up, takes none of the others' meaning."""
        now_ms = self._node.clock.wall_ms()
        encoded = [Record(*encode_record(one), timestamp_ms=now_ms) for one in records]
        begin = 0
        for end in _cuts(encoded, bytes_max=self.partition.topic.config.max_message_bytes):
            try:
                self._append_batch(bytearray(encode_batch(encoded[begin:end])), now_ms)
            except ApiError as error:
                for record in records[:begin]:
                    self.coordinator.apply(record)  # What the log says is so.
                self._node.events.error("group records not written", partition=self.partition.index, error=error)
                raise
            begin = end

    def _append_batch(self, batch: bytearray, now_ms: int) -> None:
        if len(batch) > self.partition.topic.config.max_message_bytes:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record of {len(batch)} bytes, above max.message.bytes")
        try:
            append_batch(self._node, self.partition, memoryview(batch), parse_header(batch), now_ms=now_ms)
        except ApiError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    # --- Time ------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer, for the first deadline. Deadlines mostly move on: it fires early, and is set again."""
        due_us = self.coordinator.next_deadline_us()
        if due_us is None or (self._armed_us is not None and self._armed_us <= due_us):
            return
        if self._cancel is not None:
            self._cancel()
        self._armed_us = due_us
        self._cancel = self._node.timers.at(due_us, self._fire)

    def _fire(self) -> None:
        self._armed_us = self._cancel = None
        while (decision := self.coordinator.decide_due(self._groups.now())) is not None:
            self.carry_out(decision)
        self._arm()
        self._node.finish_turn()


class Groups:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.unread = 0
        self._shards: dict[int, _Shard] = {}
        self._loading: deque[_Shard] = deque()
        self._waiting: dict[Ticket, _Waiting] = {}
        self._tickets = count(1)

    def now(self) -> Now:
        clock = self.node.clock
        return Now(clock.mono_us(), clock.wall_ms())

    # --- Which there are -------------------------------------------------------------------------------------

    def topic_opened(self, topic: Topic) -> None:
        """The topic of groups is there, made or found: what its logs say is read, a little at a time.

        Partitions that are added to it later hold no groups: which partition a group belongs to must not change.
        """
        if topic.name != OFFSETS_TOPIC:
            return
        self._shards = {partition.index: _Shard(self, partition) for partition in topic.partitions}
        self._loading = deque(shard for shard in self._shards.values() if shard.is_loading)
        self._load_on()

    def _load_on(self) -> None:
        while self._loading and not self._loading[0].is_loading:
            self._loading.popleft()
        if self._loading:
            shard = self._loading[0]
            self.node.timers.at(self.node.clock.mono_us(), lambda: shard.load_some(self._load_on))

    def topic_deleted(self, topic: Topic) -> None:
        """Nobody reads on in what is gone; and without the topic of groups there are none."""
        if topic.name == OFFSETS_TOPIC:
            shards, self._shards = self._shards, {}
            for shard in shards.values():
                shard.end(ErrorCode.NOT_COORDINATOR)
            return
        gone = {TopicPartition(topic.name, partition.index) for partition in topic.partitions}
        for shard in self._shards.values():
            if shard.fault is ErrorCode.NONE:
                decision = shard.coordinator.decide_partitions_deleted(gone, self.now())
                if decision.records:
                    shard.carry_out(decision)

    def forget_expired(self) -> None:
        """Now, and not when it is next time to look: for whoever moves the wall clock."""
        for shard in self._shards.values():
            if shard.fault is ErrorCode.NONE:
                shard.carry_out(shard.coordinator.decide_retention(self.now()))

    def ensure_topic(self) -> Later[ErrorCode]:
        """The topic of groups, made when somebody first looks for a coordinator."""
        node = self.node
        if self._shards:
            return resolved(ErrorCode.NONE)
        created = node.catalogue.creation_of(OFFSETS_TOPIC)
        if created is None:
            config = node.config
            created = node.catalogue.create(
                OFFSETS_TOPIC,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
                assignment=place(config.offsets_topic_num_partitions, replication_factor=1, nodes=[node.id]),
            )
        return created.map(
            lambda outcome: ErrorCode.NONE if isinstance(outcome, Topic) else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )

    # --- Asking ----------------------------------------------------------------------------------------------

    def decide(self, decide: Decide, request: Message, call: Call, *, refused: Refused) -> Later[Message]:
        """What the coordinator of the request's group answers, now or later."""
        shard = self._shard_of(request["group_id"])
        if isinstance(shard, ErrorCode):
            return resolved(refused(shard))
        ticket = Ticket(next(self._tickets))
        caller = Caller(ticket, call.version, call.client_id or "", f"/{call.client.address}")
        decision = decide(shard.coordinator, request, caller, self.now())
        answer: Later[Message] = Later()
        self._waiting[ticket] = _Waiting(answer, refused)
        code = shard.carry_out(decision)
        if code is not ErrorCode.NONE:
            self.refuse([ticket], code)
        return answer

    def coordinator_of(self, group_id: str) -> Coordinator:
        """For questions that change nothing; ApiError where it cannot be asked."""
        shard = self._shard_of(group_id)
        if isinstance(shard, ErrorCode):
            raise ApiError(shard)
        return shard.coordinator

    def coordinators(self) -> list[Coordinator]:
        """All of them; ApiError while some are still being loaded."""
        if any(shard.is_loading for shard in self._shards.values()):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [shard.coordinator for shard in self._shards.values() if shard.fault is ErrorCode.NONE]

    def _shard_of(self, group_id: str) -> _Shard | ErrorCode:
        if not self._shards:
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards[offsets_partition(group_id, partitions=len(self._shards))]
        if shard.partition.log.offline is not None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # What memory knows, the disk may not.
        return shard if shard.fault is ErrorCode.NONE else shard.fault

    # --- Answering -------------------------------------------------------------------------------------------

    def deliver(self, answers: Iterable[tuple[Ticket, Message]]) -> None:
        for ticket, response in answers:
            self._waiting.pop(ticket).answer.resolve(response)

    def refuse(self, tickets: Iterable[Ticket], code: ErrorCode) -> None:
        for ticket in tickets:
            waiting = self._waiting.pop(ticket)
            waiting.answer.resolve(waiting.refused(code))

    def statistics(self) -> GroupsStatistics:
        seen = [shard.coordinator.statistics() for shard in self._shards.values() if shard.fault is ErrorCode.NONE]
        return GroupsStatistics(
            groups_by_state=_added_up(seen),
            members=sum(one.members for one in seen),
            offsets=sum(one.offsets for one in seen),
            waiting_answers=len(self._waiting),
            shards_loading=sum(shard.is_loading for shard in self._shards.values()),
        )


def settings_from(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        members_max=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_chars_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_ms=config.offsets_retention_check_interval_ms,
    )


def _cuts(records: list[Record], *, bytes_max: int) -> Iterator[int]:
    """Where to end each batch so that none takes more than so many bytes, if no record alone does."""
    size = HEADER_BYTES
    for index, record in enumerate(records):
        grown = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if index and size + grown > bytes_max:
            yield index
            size = HEADER_BYTES
        size += grown
    if records:
        yield len(records)


def _added_up(seen: list[CoordinatorStatistics]) -> dict[str, int]:
    added: dict[str, int] = {}
    for one in seen:
        for state, groups in one.groups_by_state.items():
            added[state] = added.get(state, 0) + groups
    return added
