"""What a partition remembers of idempotent producers, so that a retry is not a second write.

Per producer: its epoch and its last five batches. A batch seen before is answered with the offset it got then; a
gap is refused. A producer nobody remembers may start at any sequence.

Snapshots are in Kafka's `.snapshot` format. Kafka writes one entry for each producer, of its last batch, so that a
client which retries more than one batch over a restart is told of a gap that is none. Here there is one entry for each
remembered batch, oldest first: who reads one entry a producer, as Kafka does, is left with the last.
"""

import struct
from collections import deque
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import ApiError, ErrorCode
from headrace.protocol.batch import NO_PRODUCER_ID, sequence_after
from headrace.protocol.checksum import crc32c

BATCHES_REMEMBERED: Final = 5

_SNAPSHOT_HEAD: Final = Struct(">hI")
_SNAPSHOT_COUNT: Final = Struct(">i")
# Id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of a transaction.
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1


class WrittenBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


_NO_BATCH: Final = WrittenBatch(-1, -1, -1, 0, -1)


class _Producer:
    __slots__ = ("awaited_sequence", "batches", "coordinator_epoch", "epoch", "first_transaction_offset", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Where a producer of which nothing was written yet must begin; None for anywhere.
        self.awaited_sequence: int | None = None
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.first_transaction_offset = -1


class Producers:
    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def id_end(self) -> int:
        """Above every id remembered."""
        return max(self._by_id, default=-1) + 1

    def remembered_offsets(self) -> frozenset[int]:
        """The last offsets of the batches that a retry is known by."""
        return frozenset(batch.last_offset for producer in self._by_id.values() for batch in producer.batches)

    def check(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, last_sequence: int
    ) -> WrittenBatch | None:
        """None: write it. A batch: this is a retry of that one. ApiError: it must not be written."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            return None
        if producer_epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {producer_epoch}, which is smaller than the last seen "
                f"epoch {producer.epoch}",
            )
        if producer_epoch > producer.epoch:
            if base_sequence != 0:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {producer_id}: {producer_epoch} "
                    f"(request epoch), {base_sequence} (seq. number), {producer.epoch} (current producer epoch)",
                )
            return None
        batches = producer.batches
        for batch in reversed(batches):
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        awaited = sequence_after(batches[-1].last_sequence, 1) if batches else producer.awaited_sequence
        if awaited is not None and base_sequence != awaited:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: {base_sequence} (incoming seq. "
                f"number), {sequence_after(awaited, -1)} (current end sequence number)",
            )
        return None

    def await_refused(self, *, producer_id: int, producer_epoch: int, base_sequence: int, now_ms: int) -> None:
        """A batch that was in order found no room, and will be sent again.

        Of a producer that nobody remembers, a smaller one behind it might find some, and then it would come too late.
        """
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = _Producer(producer_epoch)
            producer.awaited_sequence = base_sequence
            producer.timestamp = now_ms

    def note(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
    ) -> None:
        """Remember a batch that was written."""
        assert producer_id != NO_PRODUCER_ID
        producer = self._by_id.get(producer_id)
        if producer is None or producer.epoch != producer_epoch:
            producer = self._by_id[producer_id] = _Producer(producer_epoch)
        producer.batches.append(WrittenBatch(base_sequence, last_sequence, last_offset, offset_delta, timestamp))
        producer.timestamp = timestamp

    def expire(self, *, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for long; how many."""
        silent = [
            producer_id for producer_id, producer in self._by_id.items() if now_ms - producer.timestamp >= expiration_ms
        ]
        for producer_id in silent:
            del self._by_id[producer_id]
        return len(silent)

    def encode(self) -> bytes:
        """A snapshot of what must outlive a restart."""
        entries = [
            _SNAPSHOT_ENTRY.pack(
                producer_id,
                producer.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                batch.timestamp,
                producer.coordinator_epoch,
                producer.first_transaction_offset,
            )
            for producer_id, producer in self._by_id.items()
            for batch in producer.batches or [_NO_BATCH._replace(timestamp=producer.timestamp)]
        ]
        body = _SNAPSHOT_COUNT.pack(len(entries)) + b"".join(entries)
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> "Producers":
        """ValueError where the snapshot is torn; the caller rebuilds from the log."""
        producers = cls()
        try:
            version, crc = _SNAPSHOT_HEAD.unpack_from(data)
            body = memoryview(data)[_SNAPSHOT_HEAD.size :]
            if version != _SNAPSHOT_VERSION or crc32c(body) != crc:
                raise ValueError("producer snapshot with a wrong version or CRC")
            (count,) = _SNAPSHOT_COUNT.unpack_from(body)
            if len(body) != _SNAPSHOT_COUNT.size + count * _SNAPSHOT_ENTRY.size:
                raise ValueError("producer snapshot with a wrong size")
        except struct.error as error:
            raise ValueError("producer snapshot is cut short") from error
        for (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            delta,
            timestamp,
            coordinator_epoch,
            first_offset,
        ) in _SNAPSHOT_ENTRY.iter_unpack(body[_SNAPSHOT_COUNT.size :]):
            producer = producers._by_id.get(producer_id)
            if producer is None or producer.epoch != epoch:
                producer = producers._by_id[producer_id] = _Producer(epoch)
            producer.timestamp = timestamp
            producer.coordinator_epoch = coordinator_epoch
            producer.first_transaction_offset = first_offset
            if last_sequence >= 0:
                base_sequence = sequence_after(last_sequence, -delta)
                producer.batches.append(WrittenBatch(base_sequence, last_sequence, last_offset, delta, timestamp))
        return producers

    def statistics(self) -> dict[int, tuple[int, int, int]]:
        """Producer id to epoch, last sequence and last offset."""
        return {
            producer_id: (producer.epoch, producer.batches[-1].last_sequence, producer.batches[-1].last_offset)
            for producer_id, producer in self._by_id.items()
            if producer.batches
        }
