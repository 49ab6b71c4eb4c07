"""Records of many partitions, fetched ahead of whoever decodes them, within a bounded memory.

One thread for each broker that leads something: it asks for all its partitions in one request, in turns so that none is
left behind, checks and decompresses what comes (which the interpreter does without its lock) and queues it. Partitions
move between threads as their leaders do. Order is kept within a partition, and promised nowhere else.

Rules:

- What is queued and under way stays below `memory_bytes`, except that one answer is always allowed, and each thread
  holds what it has just opened until there is room for it.
- A failure that may pass is tried again, without a record lost or repeated, for as long as the settings allow a request
  without an answer; any other is raised by the iterator, after everything that was fetched before it.
- A bounded partition ends at its end even where the last offsets hold no records (markers of transactions, or what
  compaction left). That an answer is empty proves nothing: other partitions filled it, or the broker had no time to
  read its disk or its remote storage. The proof is a batch that begins at the end or behind it, asked for from where we
  are, of this partition alone and whether committed or not. Where the log itself ends at the end, no such batch can be
  shown: then nothing is taken for an answer only after it was the answer for as long as our patience lasts.
- A partition whose log is shorter than the end that was settled has lost records, unless it catches up in time.
- Nothing is fetched before somebody asks.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.columnar.opening import AbortedTransactions, Opened, open_batches
from headrace.columnar.positions import OffsetsGone, Range
from headrace.errors import CorruptBatch, ErrorCode, HeadraceError, ProtocolError
from headrace.ids import ZERO_TOPIC_ID, TopicId, TopicName, TopicPartition
from headrace.protocol.fetch import TOPIC_IDS_SINCE
from headrace.protocol.messages.fetch import API as FETCH
from headrace.wire.cluster import Cluster
from headrace.wire.errors import Advice, Unavailable, advice, refusal
from headrace.wire.fetch import FetchedPartition, parse_fetch_answer
from headrace.wire.metadata import Metadata
from headrace.wire.offsets import EARLIEST, list_offsets
from headrace.wire.patience import Patience
from headrace.wire.retrying import leaders_after

WAIT_MS: Final = 500  # How long a broker holds an answer for want of records.
_WAIT_MS_MAX: Final = 4_000  # Where it gave nothing although it should have something: perhaps the time was too short.
_REQUEST_BYTES_MIN, _REQUEST_BYTES_MAX = 1 << 20, 16 << 20
_ANSWER_SHARE: Final = 3  # So many answers fit into the memory: one queued, one decoded, one under way.
_FRAME_BYTES: Final = 1 << 16  # An answer beside its records.
# Where little is left to read, no more than that is asked for: at least so much, and by this guess before we know.
_TAIL_BYTES_MIN: Final = 1 << 16
_RECORD_BYTES: Final = 256
_PURPOSE: Final = "fetch"
_OFFSET: Final = Struct(">q")  # What a batch begins with.


class Fetched(NamedTuple):
    """Some of one partition's records."""

    place: TopicPartition
    opened: Opened
    first_offset: int  # Those before it were asked for by nobody: a batch comes whole.


@dataclass(slots=True, eq=False)
class _Source:
    """One partition that is being read."""

    place: TopicPartition
    topic_id: TopicId
    position: int
    end: int | None
    leader_id: int
    leader_epoch: int
    is_busy: bool = False  # In a request.
    is_alone: bool = False  # To be asked for by itself, whether committed or not, to see what comes next.
    wait_ms: int = WAIT_MS
    wait_until_s: float = 0.0
    patience: Patience | None = None  # While it fails, or gives nothing although it should have something.
    record_bytes: float = _RECORD_BYTES  # As fetched, on average.

    def bytes_wanted(self, bytes_max: int) -> int:
        """What is left up to the end and a little more, if that is less."""
        if self.end is None:
            return bytes_max
        left = 1.25 * self.record_bytes * (self.end - self.position)
        return int(min(bytes_max, max(_TAIL_BYTES_MIN, left)))


class _Request(NamedTuple):
    sources: Sequence[_Source]
    bytes_max: int

    @property
    def is_probe(self) -> bool:
        return any(source.is_alone for source in self.sources)

    @property
    def wait_ms(self) -> int:
        return min(source.wait_ms for source in self.sources)


@dataclass(slots=True)
class _Lent:
    """A buffer that parts of an answer lie in, perhaps to be used again after the last of them."""

    buffer: bytearray
    count: int = 1  # The thread that received it.


class Prefetch:
    """Iterate over it once, in one thread; `close` it from any."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Iterable[Range],
        *,
        read_committed: bool,
        skip_missing: bool,
        memory_bytes: int,
    ) -> None:
        self.bytes_fetched = 0
        self._throttled_ms: Counter[int] = Counter()  # By broker.
        self._cluster = cluster
        self._read_committed = read_committed
        self._skip_missing = skip_missing
        self._memory_bytes = memory_bytes
        self._changed = threading.Condition()
        self._sources: dict[TopicPartition, _Source] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._queue: deque[tuple[Fetched, int, _Lent]] = deque()
        self._used_bytes = 0
        self._buffers: list[bytearray] = []
        self._failure: BaseException | None = None
        self._is_begun = False
        self._closed = False
        self.add(ranges)

    # --- For whoever reads ---------------------------------------------------------------------------------------

    def add(self, ranges: Iterable[Range]) -> None:
        """Read these partitions too."""
        made = []
        for place, first, end in ranges:
            if end is None or first < end:
                leader = self._cluster.leader(*place)
                topic_id = self._cluster.topic(place.topic).topic_id
                made.append(_Source(place, topic_id, first, end, leader.node_id, leader.epoch))
        with self._changed:
            self._sources |= {source.place: source for source in made}
            self._employ(made)

    def poll(self, timeout_s: float) -> Iterator[Fetched] | None:
        """What is there within this time: one or nothing. None where there will never be more."""
        with self._changed:
            if not self._is_begun:
                self._is_begun = True
                self._employ(self._sources.values())
            self._changed.wait_for(lambda: self._queue or self._is_over, timeout_s)
            if self._queue:
                return self._lend(*self._queue.popleft())
            if self._failure is not None:
                raise self._failure
            return None if self._is_over else iter(())

    @property
    def throttled_ms(self) -> int:
        """For so long in all a broker said that it holds answers back; of several the one that did so for longest."""
        with self._changed:
            return max(self._throttled_ms.values(), default=0)

    @property
    def memory_used_bytes(self) -> int:
        with self._changed:
            return self._used_bytes

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def _lend(self, fetched: Fetched, size: int, lent: "_Lent") -> Iterator[Fetched]:
        """Its memory is taken to be in use until the reader asks for the next."""
        try:
            yield fetched
        finally:
            with self._changed:
                self._give_back(lent)
                self._used_bytes -= size
                self._changed.notify_all()

    @property
    def _is_over(self) -> bool:
        return self._closed or self._failure is not None or not self._sources

    # --- The threads ---------------------------------------------------------------------------------------------

    def _employ(self, sources: Iterable[_Source]) -> None:
        """A thread for each of their leaders; those at work find them by themselves."""
        for node_id in {source.leader_id for source in sources}:
            if self._is_begun and node_id not in self._threads:
                name = f"headrace-fetch-{node_id}"
                thread = threading.Thread(target=self._work, args=(node_id,), name=name, daemon=True)
                self._threads[node_id] = thread
                thread.start()
        self._changed.notify_all()

    def _work(self, node_id: int) -> None:
        try:
            while (request := self._next_request(node_id)) is not None:
                self._fetch(node_id, request)
        except BaseException as error:  # Theirs who iterate.
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._failure is None and not self._closed:
                self._failure = error
            self._changed.notify_all()

    @property
    def _request_bytes(self) -> int:
        share = self._memory_bytes // (_ANSWER_SHARE * max(1, len(self._threads)))
        return min(max(share, _REQUEST_BYTES_MIN), _REQUEST_BYTES_MAX)

    def _next_request(self, node_id: int) -> "_Request | None":
        """What to ask this broker for, once there is memory for the answer. None where there is nothing left to do."""
        with self._changed:
            while not self._is_over:
                now_s = time.monotonic()
                led = [source for source in self._sources.values() if source.leader_id == node_id]
                ready = [source for source in led if source.wait_until_s <= now_s and not source.is_busy]
                size = self._request_bytes
                has_room = not self._used_bytes or self._used_bytes + size <= self._memory_bytes
                if ready and has_room:
                    chosen = next(([source] for source in ready if source.is_alone), ready)
                    for source in chosen:
                        source.is_busy = True
                    self._used_bytes += size
                    return _Request(chosen, size)
                waits_s = [source.wait_until_s - now_s for source in led if source.wait_until_s > now_s]
                self._changed.wait(min(waits_s) if waits_s and not ready else None)
            return None

    # --- One request ---------------------------------------------------------------------------------------------

    def _fetch(self, node_id: int, request: "_Request") -> None:
        sources, size = request
        seen = self._cluster.metadata
        try:
            connection = self._cluster.connection(node_id, _PURPOSE)
            version = connection.version_of(FETCH)
            if any(source.topic_id == ZERO_TOPIC_ID for source in sources):
                version = min(version, TOPIC_IDS_SINCE - 1)
            ticket = connection.send(FETCH, self._body(request), version=version)
            timeout_s = self._cluster.settings.request_timeout_s + request.wait_ms / 1000
            frame, position = connection.receive_frame(ticket, timeout_s=timeout_s, buffer_for=self._borrow)
        except Unavailable as trouble:
            self._release(size)
            self._retry(sources, trouble, seen)
            return
        self._release(size, fetched_bytes=len(frame))
        assert isinstance(frame.obj, bytearray)
        lent = _Lent(frame.obj)
        answer = parse_fetch_answer(frame, position, version)
        if answer.throttle_ms:
            with self._changed:
                self._throttled_ms[node_id] += answer.throttle_ms
        codes = {source: answer.error for source in sources if answer.error != ErrorCode.NONE}
        by_id = version >= TOPIC_IDS_SINCE
        names: dict[str | bytes, TopicName] = {
            source.topic_id if by_id else source.place.topic: source.place.topic for source in sources
        }
        by_place = {source.place: source for source in sources}
        served = []
        for part in answer.partitions:
            name = names.get(part.topic)
            source = None if name is None else by_place.get(TopicPartition(name, part.partition))
            if source is None:
                raise ProtocolError(f"partition {part.partition} of {part.topic!r} was answered and not asked for")
            if part.records:
                served.append(source)
            if part.error == ErrorCode.NONE:
                self._accept(source, part, lent)
            elif part.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range(source)
            else:
                codes[source] = part.error
        self._conclude([source for source in sources if source not in codes], served, lent)
        if codes:
            self._refused(codes, seen)

    def _conclude(self, sources: Iterable[_Source], served: Iterable[_Source], lent: "_Lent") -> None:
        with self._changed:
            self._give_back(lent)
            # Those whose records came are last next time: a broker fills its answer from the front.
            for source in served:
                self._sources[source.place] = self._sources.pop(source.place)
            for source in sources:
                source.is_busy = False
                if source.end is not None and source.position >= source.end:
                    del self._sources[source.place]
            self._changed.notify_all()

    def _body(self, request: "_Request") -> dict[str, Any]:
        topics: dict[str, dict[str, Any]] = {}
        for source in request.sources:
            topic = topics.setdefault(
                source.place.topic, {"topic": source.place.topic, "topic_id": source.topic_id, "partitions": []}
            )
            topic["partitions"].append(
                {
                    "partition": source.place.partition,
                    "current_leader_epoch": source.leader_epoch,
                    "fetch_offset": source.position,
                    "partition_max_bytes": source.bytes_wanted(request.bytes_max),
                }
            )
        return {
            "max_wait_ms": request.wait_ms,
            "min_bytes": 1,
            "max_bytes": request.bytes_max,
            "isolation_level": int(self._read_committed and not request.is_probe),
            "topics": list(topics.values()),
        }

    def _accept(self, source: _Source, part: FetchedPartition, lent: "_Lent") -> None:
        if not part.records:
            self._accept_nothing(source, part)
            return
        if source.is_alone and self._read_committed:
            self._accept_probe(source, part.records)
            return
        source.patience = None
        source.is_alone = False
        source.wait_ms = WAIT_MS
        aborted = None
        if self._read_committed:
            listed = ({"producer_id": producer, "first_offset": first} for producer, first in part.aborted)
            aborted = AbortedTransactions(listed)
        records: memoryview = part.records
        size, first_offset = len(records), source.position
        while len(records):
            try:
                opened = open_batches(
                    records,
                    aborted=aborted,
                    decompressed_bytes_max=self._memory_bytes // _ANSWER_SHARE,
                    batch_bytes_max=self._memory_bytes,
                )
            except CorruptBatch as error:
                raise CorruptBatch(f"{source.place}: {error}") from None
            if opened.next_offset is None:
                raise CorruptBatch(
                    f"{source.place}: {len(records)} bytes at offset {source.position} that hold no whole batch"
                )
            if opened.next_offset <= source.position:
                raise CorruptBatch(
                    f"{source.place}: a batch that ends before offset {opened.next_offset}, where one with "
                    f"{source.position} was asked for"
                )
            fetched = Fetched(source.place, opened, source.position)
            source.position = opened.next_offset
            source.record_bytes = size / max(1, source.position - first_offset)
            if opened.record_count:
                self._enqueue(fetched, lent)
            if source.end is not None and source.position >= source.end:
                return
            records = opened.unopened

    def _accept_probe(self, source: _Source, records: memoryview) -> None:
        """Of records that may not be committed, only where the first begins is of any use."""
        assert source.end is not None
        if len(records) < _OFFSET.size:
            raise CorruptBatch(f"{source.place}: {len(records)} bytes at offset {source.position} are no batch")
        (base_offset,) = _OFFSET.unpack_from(records)
        source.is_alone = False
        if base_offset >= source.end:
            source.position = source.end
        else:
            # There is something: the answer that was empty should have had it, and the next one may.
            self._wait_a_little(source)

    def _accept_nothing(self, source: _Source, part: FetchedPartition) -> None:
        if source.end is None:
            source.patience = None
            return
        # Some brokers tell where it is stable only those who ask for what is committed.
        was_committed = self._read_committed and not source.is_alone
        readable = part.last_stable_offset if was_committed else part.high_watermark
        if source.patience is None:
            source.patience = self._cluster.patience()
        elif not source.patience.left_s:
            self._believe_nothing(source, part, readable)
            return
        if source.position >= readable:  # Its leader has yet to catch up, or never will.
            source.is_alone = False
        elif source.is_alone:
            self._wait_a_little(source)
        else:
            # Other partitions filled the answer, or there is nothing, or the broker was too slow.
            source.is_alone = True

    def _believe_nothing(self, source: _Source, part: FetchedPartition, readable: int) -> None:
        """Patience is over."""
        assert source.end is not None
        if readable < source.end:
            raise OffsetsGone(
                f"{source.place} ends at offset {readable}, where it had more, up to {source.end}: its log was cut"
            )
        if not source.is_alone or part.high_watermark != source.end:
            raise OffsetsGone(
                f"{source.place}: its broker gives nothing from offset {source.position} on, and nothing that shows "
                f"that there is nothing up to {source.end}: its log goes on up to {part.high_watermark}"
            )
        source.position = source.end

    def _wait_a_little(self, source: _Source) -> None:
        """Before it is asked for again, with more time to answer."""
        assert source.patience is not None
        source.wait_until_s = time.monotonic() + source.patience.next_wait_s()
        source.wait_ms = min(2 * source.wait_ms, _WAIT_MS_MAX)

    def _enqueue(self, fetched: Fetched, lent: "_Lent") -> None:
        size = fetched.opened.data.nbytes
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or not self._queue or self._used_bytes + size <= self._memory_bytes
            )
            if self._closed:
                return
            lent.count += 1
            self._used_bytes += size
            self._queue.append((fetched, size, lent))
            self._changed.notify_all()

    # --- What goes wrong -----------------------------------------------------------------------------------------

    def _refused(self, codes: Mapping[_Source, int], seen: Metadata) -> None:
        for source, code in codes.items():
            trouble = refusal(code, f"Fetch of {source.place}")
            if advice(code) is Advice.FAIL:
                raise trouble
        self._retry(list(codes), trouble, seen)

    def _retry(self, sources: Sequence[_Source], trouble: HeadraceError, seen: Metadata) -> None:
        """Ask again a little later, and whoever leads by then."""
        cluster = self._cluster
        for source in sources:
            if source.patience is None:
                source.patience = cluster.patience()
        patience = min((source.patience for source in sources if source.patience), key=lambda one: one.left_s)
        places = [source.place for source in sources]
        leaders = leaders_after(trouble, cluster, places, patience=patience, seen=seen)
        for source in sources:
            if cluster.topic(source.place.topic).topic_id != source.topic_id:
                raise OffsetsGone(f"topic {source.place.topic!r} was deleted and made anew while it was read")
        with self._changed:
            for source in sources:
                source.leader_id, source.leader_epoch = leaders[source.place]
                source.is_busy = False
            self._employ(sources)

    def _out_of_range(self, source: _Source) -> None:
        earliest = list_offsets(self._cluster, {source.place: EARLIEST})[source.place].offset
        if source.position >= earliest:
            raise OffsetsGone(
                f"{source.place} has no offset {source.position} any more: its log was cut behind what was read already"
            )
        if not self._skip_missing:
            raise OffsetsGone(
                f"{source.place} begins at offset {earliest}: {source.position} and what follows was deleted meanwhile",
                'missing="skip" goes on from there',
            )
        source.position = earliest

    # --- Memory --------------------------------------------------------------------------------------------------

    def _release(self, size: int, *, fetched_bytes: int = 0) -> None:
        with self._changed:
            self._used_bytes -= size
            self.bytes_fetched += fetched_bytes
            self._changed.notify_all()

    @property
    def _buffer_bytes(self) -> int:
        """What an answer that is as large as we asked for fits into."""
        return self._request_bytes + _FRAME_BYTES

    def _borrow(self, frame_bytes: int) -> bytearray:
        """Used ones for answers that fill them: new ones would have to be mapped in page by page, each time. For a
        smaller one just what it needs, since it may wait for its reader in the company of thousands."""
        with self._changed:
            if not self._buffer_bytes // 2 <= frame_bytes <= self._buffer_bytes:
                return bytearray(frame_bytes)
            return self._buffers.pop() if self._buffers else bytearray(self._buffer_bytes)

    def _give_back(self, lent: "_Lent") -> None:
        lent.count -= 1
        is_ours = len(lent.buffer) == self._buffer_bytes
        if lent.count == 0 and is_ours and len(self._buffers) < _ANSWER_SHARE:
            self._buffers.append(lent.buffer)
