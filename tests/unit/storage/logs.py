"""Batches, settings and logs for the tests of the storage room, on a simulated disk."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.errors import StorageError
from headrace.protocol.batch import BatchHeader, parse_header, whole_batches
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.sim.disk import SimDisk, Survival
from headrace.sim.world import World
from headrace.storage.loading import Recovery, load_log
from headrace.storage.log import Appended, Duplicate, PartitionLog
from headrace.storage.segment import Span

LONG_MAX = 2**63 - 1
NOW_MS = 1_700_000_000_000
DIRECTORY = "orders-0"


@dataclass(frozen=True)
class Settings:
    """A `LogConfig` whose limits are out of the way."""

    segment_bytes: int = 1 << 30
    segment_ms: int = LONG_MAX
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    flush_before_expose: bool = False
    retention_ms: int = -1
    retention_bytes: int = -1
    log_append_time: bool = False
    deletes: bool = True
    compacts: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000


def batch(*values: bytes, timestamp_ms: int = NOW_MS, timestamps_ms: Sequence[int] | None = None, **more: Any) -> bytes:
    """A client's batch, at offset 0 as clients send it; `timestamps_ms` gives each record its own."""
    stamps = timestamps_ms or [timestamp_ms] * len(values)
    return encode_batch(
        [Record(key=None, value=value, timestamp_ms=stamp) for value, stamp in zip(values, stamps, strict=True)],
        **more,
    )


class LogStage:
    """One log in a world of its own, and the ways to end and reopen it."""

    def __init__(
        self, disk: SimDisk | None = None, *, clean: bool = True, recovery_point: int = 0, **settings: Any
    ) -> None:
        self.disk = disk or SimDisk(World(1))
        self.world = self.disk.world
        self.settings = Settings(**settings)
        self.start_checkpoint = 0
        self.recovery = Recovery()
        self.open(clean=clean, recovery_point=recovery_point)

    def open(self, *, clean: bool, recovery_point: int = 0) -> None:
        self.log, self.recovery = load_log(
            self.disk,
            DIRECTORY,
            self.settings,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=self.start_checkpoint,
            now_ms=NOW_MS,
        )

    def stop(self) -> None:
        """Stop cleanly and start again."""
        self.log.close()
        recovery_point = self.log.recovery_point
        self.disk = self.disk.kill()
        self.open(clean=True, recovery_point=recovery_point)

    def kill(self, *, recovery_point: int = 0) -> None:
        self.disk = self.disk.kill()
        self.open(clean=False, recovery_point=recovery_point)

    def crash(self, survival: Survival = Survival.NOTHING, *, recovery_point: int = 0) -> None:
        self.disk = self.disk.crash(survival)
        self.open(clean=False, recovery_point=recovery_point)

    def configure(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self.log.configure(self.settings)

    def append(self, data: bytes | None = None, *, now_ms: int = NOW_MS, epoch: int = 0) -> Appended | Duplicate:
        view = memoryview(bytearray(data if data is not None else batch(b"value")))
        return self.log.append(view, parse_header(view), now_ms=now_ms, leader_epoch=epoch)

    def fill(self, count: int, **more: Any) -> None:
        for number in range(count):
            self.append(batch(b"%d" % number, **more))

    def flush(self) -> StorageError | None:
        """Flush everything there is, and let it finish."""
        outcomes: list[StorageError | None] = []
        self.log.flush_then(self.log.end_offset, outcomes.append)
        self.world.run_until_true(lambda: bool(outcomes))
        return outcomes[0]

    def settle(self) -> None:
        """Let the flush that a roll began finish."""
        self.world.run_until_idle()

    def path(self, base_offset: int, suffix: str) -> str:
        return f"{DIRECTORY}/{base_offset:020d}{suffix}"

    def content(self, base_offset: int, suffix: str = ".log") -> bytes:
        return self.disk.read_file(self.path(base_offset, suffix)) or b""

    def batches(self) -> list[BatchHeader]:
        return read_batches(self.log)

    def values(self) -> list[bytes | None]:
        """The values of all records that a reader gets, in order."""
        return [record.value for record in read_records(self.log)]


def read(span: Span) -> bytes:
    file, position, size = span
    return file.read(position, size)


def read_batches(log: PartitionLog) -> list[BatchHeader]:
    """Every batch that a reader gets who reads from the start to the end."""
    return [header for header, _ in _read_all(log)]


def read_records(log: PartitionLog) -> list[Record]:
    return [record for _, data in _read_all(log) for record in decode_records(data)]


def _read_all(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes]]:
    offset = log.start_offset
    while (span := log.read(offset, bytes_max=1 << 20, at_least_one=True)) is not None:
        data = read(span)
        found = list(whole_batches(data))
        assert found, "a span without a whole batch"
        assert found[0][1].last_offset >= offset, "a span that does not reach the offset asked for"
        for position, header in found:
            yield header, data[position : position + header.size_bytes]
        offset = found[-1][1].last_offset + 1
