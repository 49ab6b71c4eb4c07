"""A broker without sockets: topics, their logs, and the answers to requests.

A callback state machine. It is given its clock, timers, disk and randomness, so the same code runs under the
server's event loop and under a seeded heap. One writer; nothing here waits.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from headrace.errors import ApiError, DiskFull, ErrorCode, HeadraceError, ProtocolError, StorageError
from headrace.ids import NodeId, TopicName, TopicPartition
from headrace.node.apis import (
    API_VERSIONS_KEY,
    API_VERSIONS_UNKNOWN,
    PRODUCE_KEY,
    Answer,
    Api,
    Call,
    Client,
    Parts,
    framed,
    handle_message,
    unknown_api,
)
from headrace.node.appending import Gathered, write_gathered
from headrace.node.catalogue import RETRY_US, Catalogue, Placed
from headrace.node.compacting import Compaction
from headrace.node.configs import BrokerConfig
from headrace.node.fetch_sessions import FetchSessions
from headrace.node.fetching import Fetch
from headrace.node.groups import Groups
from headrace.node.later import Later
from headrace.node.meters import TICK_US
from headrace.node.statistics import NodeStatistics
from headrace.node.topics import (
    DELETING,
    TOPICS,
    Partition,
    Topic,
    Topics,
)
from headrace.ports import Cleaner, Clock, Disk, File, Timers
from headrace.protocol.header import parse_request_header
from headrace.storage.data_directory import DataDirectory, Identity
from headrace.storage.loading import Recovery
from headrace.storage.segment import Segment
from headrace.store.local import Delete, LocalStore, Operation, Put

PRODUCER_IDS: Final = "producer_ids"
BROKER_CONFIGS: Final = "configs/brokers/"
PRODUCER_ID_BLOCK: Final = 1000
CHECKPOINT_DELAY_US: Final = 1_000_000


class Endpoint(NamedTuple):
    """What clients of one listener are told to connect to."""

    host: str
    port: int


class Events(Protocol):
    """Where a node tells what happened; structured, one event a line."""

    def info(self, event: str, /, **fields: object) -> None: ...
    def warning(self, event: str, /, **fields: object) -> None: ...
    def error(self, event: str, /, **fields: object) -> None: ...


class Loaded(NamedTuple):
    """What starting found."""

    topics: int
    partitions: int
    clean: bool
    bytes_scanned: int
    bytes_cut: int


class Node:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        disk: Disk,
        random_bytes: Callable[[int], bytes],
        events: Events,
        cleaner: Cleaner | None = None,
    ) -> None:
        """Without a cleaner nothing is compacted."""
        # Imported here because the handlers know the node, and the table knows the handlers.
        from headrace.node.handlers import APIS

        self.apis: Mapping[int, Api] = APIS
        self._disk = disk
        self.clock = clock
        self.timers = timers
        self.random_bytes = random_bytes
        self.events = events
        self.topics = Topics()
        self.data = DataDirectory(disk)
        self.identity = self.data.identity(
            make=lambda: Identity(_short_id(random_bytes(16)), config.node_id, _short_id(random_bytes(16)))
        )
        self.id = NodeId(config.node_id)
        self.store = LocalStore(disk)
        self.static_config = config
        self.config = config
        self.endpoints: dict[str, Endpoint] = {}
        self.sessions = FetchSessions(slots_max=config.max_incremental_fetch_session_cache_slots)
        self.collected = NodeStatistics(now_us=clock.mono_us())
        self.catalogue = Catalogue(self, open_partitions=self._open_partitions, free_name=self._free_name)
        self.groups = Groups(self)
        self.compaction = None if cleaner is None else Compaction(self, disk, cleaner)
        # Batches of the frames being taken that nobody waits for.
        self.gathered: Gathered = {}
        self._woken: list[Fetch] = []
        self._producer_ids = range(0)
        self._is_checkpoint_due = False
        self._closing = False

    # --- Starting and stopping -------------------------------------------------------------------------------

    def start(self) -> Later[Loaded | HeadraceError]:
        """Open everything. Resolved once what a restart changes (leader epochs) is durable, or cannot be."""
        self.data.begin()
        if self.store.bad_bytes:
            self.events.warning("journal repaired", bytes=self.store.bad_bytes)
        self._apply_broker_overrides()
        deleted = self.catalogue.finish_deletions()
        # Offsets that a crash took back must not be given out again under the same epoch.
        epoch_bump = 0 if self.data.clean else 1
        operations: list[Operation] = []
        bytes_scanned = bytes_cut = 0
        for name, record in self.catalogue.found().items():
            topic = self.catalogue.make_topic(name, record.id, record.overrides)
            for recovery in self._open_partitions(topic, record.partitions, epoch_bump=epoch_bump):
                bytes_scanned += recovery.bytes_scanned
                bytes_cut += recovery.bytes_cut
            self.topics.add(topic)
            self.groups.topic_opened(topic)
            stored = self.store.read(TOPICS + name)
            if stored is None or stored.value != topic.record():
                operations.append(Put(TOPICS + name, topic.record()))
        if deleted and self.attempt("deletion not settled", self.data.checkpoint):
            operations += [Delete(DELETING + name) for name in deleted]
        self._schedule_upkeep()
        started: Later[Loaded | HeadraceError] = Later()
        loaded = Loaded(len(self.topics), self.topics.partition_count(), self.data.clean, bytes_scanned, bytes_cut)
        if operations:
            self.store.multi_then(operations, lambda error: started.resolve(error or loaded))
        else:
            started.resolve(loaded)
        return started

    def _open_partitions(self, topic: Topic, placed: Placed, *, epoch_bump: int = 0) -> list[Recovery]:
        """Open the logs of partitions that the topic does not have yet."""
        recoveries = []
        for index in range(len(topic.partitions), len(placed)):
            epoch, replicas = placed[index]
            name = TopicPartition(topic.name, index)
            log, recovery = self.data.open_log(name, topic.config, topic_id=topic.id, now_ms=self.clock.wall_ms())
            epoch = max(epoch, log.epochs.latest) + epoch_bump
            partition = Partition(topic, index, log, leader_epoch=epoch, replicas=replicas)
            log.on_watermark = partial(self._watermark_moved, partition)
            log.on_offline = partial(self._log_failed, partition)
            log.on_sealed = self._checkpoint_soon
            topic.partitions.append(partition)
            recoveries.append(recovery)
            if recovery.bytes_cut or recovery.quarantined:
                self.events.warning(
                    "log recovered",
                    partition=name,
                    bytes_scanned=recovery.bytes_scanned,
                    bytes_cut=recovery.bytes_cut,
                    quarantined=len(recovery.quarantined),
                )
            if log.high_watermark < log.end_offset:
                log.flush_then(log.end_offset, lambda error: None)
        return recoveries

    def close(self) -> bool:
        """Put everything on disk; whether the stop was clean."""
        self._closing = True
        if self.compaction is not None:
            self.compaction.close()
        failures = self.data.close()
        for partition, error in failures:
            self.events.error("log not closed", partition=partition, error=error)
        return not failures

    # --- Requests --------------------------------------------------------------------------------------------

    def handle(self, frame: memoryview, client: Client) -> Parts | Later[Parts] | None:
        """Answer one frame: now, later, or (None) not at all. ProtocolError: close the connection.

        The frame's memory is the caller's again on return.
        """
        try:
            return self.take(frame, client)
        finally:
            self.finish_frames()

    def finish_frames(self) -> None:
        """To be called behind the last frame taken, whatever became of them: before any other client's is taken.

        ProtocolError: close the connection.
        """
        if self.gathered:
            write_gathered(self, now_ms=self.clock.wall_ms())

    def take(self, frame: memoryview, client: Client) -> Parts | Later[Parts] | None:
        """As `handle`, for one of several frames of a client. Their memory must stay until `finish_frames`."""
        key, version, correlation_id, client_id, position = parse_request_header(frame)
        if self.gathered and key != PRODUCE_KEY:
            self.finish_frames()
        api = self.apis.get(key)
        if api is None:
            raise unknown_api(key, version)
        if not api.version_min <= version <= api.version_max:
            if key != API_VERSIONS_KEY:
                raise unknown_api(key, version)
            # A client that knows more than we do asks once, and must be able to read the answer.
            version = API_VERSIONS_UNKNOWN
        if len(frame) > api.request_bytes_max:
            raise ProtocolError(f"{api.messages.name} request of {len(frame)} bytes, above {api.request_bytes_max}")
        # The cheapest way to a named tuple: every request makes one.
        call = tuple.__new__(Call, (version, client_id, client))
        answer: Answer | Later[Answer] | None
        if api.handle_raw is not None:
            answer = api.handle_raw(self, frame, position, call)
        else:
            answer = handle_message(api, self, frame, position, call)
        if answer is None:
            return None
        version = max(version, 0)
        if isinstance(answer, Later):
            return answer.map(lambda ready: framed(ready, api=api, version=version, correlation_id=correlation_id))
        return framed(answer, api=api, version=version, correlation_id=correlation_id)

    def finish_turn(self) -> None:
        """Look again at the parked fetches that this turn woke. The shell calls it when a turn's requests are done."""
        while self._woken:
            woken, self._woken = self._woken, []
            for fetch in woken:
                fetch.look_again()

    def wake(self, fetch: Fetch) -> None:
        self._woken.append(fetch)

    def _watermark_moved(self, partition: Partition) -> None:
        # The flush that moved it does not say how far in bytes; whoever waits looks again.
        partition.notify()
        self.finish_turn()

    def _log_failed(self, partition: Partition) -> None:
        if self._closing:
            return  # Closing says itself what it could not put on disk; syncs that it overtook say nothing.
        self.events.error("log offline", partition=partition.log.directory, error=partition.log.offline)
        # Readers are told, those too that have nothing to read.
        partition.notify()
        self.finish_turn()

    # --- Broker settings -------------------------------------------------------------------------------------

    def broker_overrides(self, scope: str) -> dict[str, str]:
        """Settings given at run time for this node (`scope` its id) or for all nodes (`scope` empty)."""
        stored = self.store.read(BROKER_CONFIGS + scope)
        return dict(json.loads(stored.value)) if stored else {}

    def configure_broker(self, scope: str, overrides: dict[str, str]) -> Later[ApiError | None]:
        configured: Later[ApiError | None] = Later()

        def stored(error: HeadraceError | None) -> None:
            if error is not None:
                configured.resolve(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
                return
            self._apply_broker_overrides()
            self.catalogue.follow_broker_config()
            configured.resolve(None)

        self.store.multi_then([Put(BROKER_CONFIGS + scope, json.dumps(overrides))], stored)
        return configured

    def _apply_broker_overrides(self) -> None:
        static = self.static_config.layers[-1].texts
        self.config = BrokerConfig.resolve(
            static, dynamic=self.broker_overrides(str(self.id)), dynamic_default=self.broker_overrides("")
        )

    # --- Producer ids ----------------------------------------------------------------------------------------

    def next_producer_id(self) -> Later[int | ApiError]:
        """An id never given before: blocks are written down before any id of them is handed out.

        Nor one that another broker gave to whoever wrote a log adopted here: its batches would be taken for retries.
        """
        given: Later[int | ApiError] = Later()
        if self._producer_ids:
            given.resolve(self._take_producer_id())
            return given
        stored_next = self.store.read(PRODUCER_IDS)
        first = max(
            int(stored_next.value) if stored_next else 0,
            max((log.producers.id_end for log in self.data.logs.values()), default=0),
        )
        block = range(first, first + PRODUCER_ID_BLOCK)

        def stored(error: HeadraceError | None) -> None:
            if error is not None:
                given.resolve(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))
                return
            if not self._producer_ids:
                self._producer_ids = block
            given.resolve(self._take_producer_id())

        self.store.multi_then([Put(PRODUCER_IDS, str(block.stop))], stored)
        return given

    def _take_producer_id(self) -> int:
        producer_id = self._producer_ids[0]
        self._producer_ids = self._producer_ids[1:]
        return producer_id

    # --- Upkeep ----------------------------------------------------------------------------------------------

    def _schedule_upkeep(self) -> None:
        config = self.config
        self._every(config.log_retention_check_interval_ms, self.delete_expired)
        self._every(config.log_flush_offset_checkpoint_interval_ms, self._checkpoint)
        if self.compaction is not None:
            self.compaction.look_regularly()
        self._every(config.producer_id_expiration_check_interval_ms, self._expire_producers)
        self._every(TICK_US // 1000, lambda: self.collected.settle(now_us=self.clock.mono_us()))

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def again() -> None:
            if not self._closing:
                self.attempt("upkeep failed", work)
                self.timers.at(self.clock.mono_us() + interval_ms * 1000, again)

        self.timers.at(self.clock.mono_us() + interval_ms * 1000, again)

    def _checkpoint(self) -> None:
        def done(error: OSError | StorageError | None) -> None:
            if error is not None:
                self.events.error("recovery points not written", error=error)

        self._is_checkpoint_due = False
        self.data.checkpoint_then(done)

    def _checkpoint_soon(self) -> None:
        """What was sealed and is on disk shall be trusted after a crash, and not be read again."""
        if not self._is_checkpoint_due:
            self._is_checkpoint_due = True
            self.timers.at(self.clock.mono_us() + CHECKPOINT_DELAY_US, self._checkpoint)

    def attempt(self, complaint: str, work: Callable[[], None]) -> bool:
        """Do what can as well be done later, if the disk does not let it be done now; whether it did."""
        try:
            work()
        except StorageError as error:
            self.events.error(complaint, error=error)
            return False
        return True

    def _free_name(self, name: TopicName, done: Callable[[], None]) -> None:
        """Let the name of a topic be used again, once no crash can bring its folders back."""

        def try_again() -> None:
            self.timers.at(self.clock.mono_us() + RETRY_US, partial(self._free_name, name, lambda: None))

        def freed(error: HeadraceError | None) -> None:
            # Any other error is the store's end, and the next start's business.
            if isinstance(error, DiskFull):
                try_again()
            done()

        if self.attempt("deletion not settled", self.data.checkpoint):
            said = [path for path in (TOPICS + name, DELETING + name) if self.store.read(path) is not None]
            self.store.multi_then([Delete(path) for path in said], freed)
        else:
            try_again()
            done()

    def delete_expired(self, partitions: Iterable[Partition] | None = None) -> None:
        """Apply retention, to every log or to these."""
        if partitions is None:
            partitions = [partition for topic in self.topics for partition in topic.partitions]
        now_ms = self.clock.wall_ms()
        dropped = [(partition, self._drop_expired(partition, now_ms)) for partition in partitions]
        if any(segments for _, segments in dropped):
            # A full disk may not let this be written, and then making room comes first.
            is_written = self.attempt("start offsets not written", self.data.checkpoint)
            for partition, segments in dropped:
                if segments:
                    partition.notify(0)  # Readers are told where the log starts, when they are next told something.
                    self._delete_segments(partition, segments, one_by_one=not is_written)

    def _drop_expired(self, partition: Partition, now_ms: int) -> list[Segment]:
        try:
            return partition.log.drop_expired(now_ms=now_ms)
        except StorageError as error:
            partition.log.fail(error)
            return []

    def _delete_segments(self, partition: Partition, segments: list[Segment], *, one_by_one: bool) -> None:
        """`one_by_one` where nothing else says where the log starts: what a crash brings back must not have a hole."""
        files: list[File] = []
        try:
            for segment in segments:
                files += segment.doomed_files()
                if one_by_one:
                    self._disk.sync_dir(partition.log.directory)
        except StorageError as error:
            partition.log.fail(error)
            return
        self.events.info("segments expired", partition=partition.log.directory, segments=len(segments))
        self.remove_later(partition, files)

    def remove_later(self, partition: Partition, files: list[File]) -> None:
        """Delete files of segments that were replaced or dropped: readers under way still hold spans of them."""

        def remove() -> None:
            self.attempt("segments not removed", lambda: self.data.doomed(files))

        delay_us = partition.topic.config.file_delete_delay_ms * 1000
        self.timers.at(self.clock.mono_us() + delay_us, remove)

    def _expire_producers(self) -> None:
        now_ms = self.clock.wall_ms()
        for log in self.data.logs.values():
            log.producers.expire(now_ms=now_ms, expiration_ms=self.config.producer_id_expiration_ms)

    def arm_flush(self, partition: Partition) -> None:
        """Flush by time: one timer per log, armed by the first record that is not on disk."""
        partition.flush_timer_armed = True

        def fire() -> None:
            partition.flush_timer_armed = False
            partition.log.flush_then(partition.log.end_offset, lambda error: None)

        self.timers.at(self.clock.mono_us() + partition.topic.config.flush_ms * 1000, fire)


def _short_id(random: bytes) -> str:
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()
