"""A data directory: one folder per partition, and the files at the root that say how to read them.

Owns opening and closing all logs, the checkpoints and the mark of a clean stop. Kafka's layout.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from headrace.errors import StorageError
from headrace.ids import TopicId, TopicPartition
from headrace.ports import Disk, File
from headrace.storage import checkpoints
from headrace.storage.loading import Recovery, load_log
from headrace.storage.log import PartitionLog
from headrace.storage.log_config import LogConfig

DELETE_SUFFIX: Final = "-delete"
_NEW_RECOVERY_POINTS: Final = checkpoints.RECOVERY_POINTS + ".new"
FORMAT_VERSION: Final = "1"


class Identity(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: str


class DataDirectory:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.clean = disk.exists(checkpoints.CLEAN_SHUTDOWN)
        self._recovery_points = self._read_offsets(checkpoints.RECOVERY_POINTS)
        self._start_offsets = self._read_offsets(checkpoints.START_OFFSETS)
        # Up to where each log was compacted.
        self._cleaned_offsets = self._read_offsets(checkpoints.CLEANED_OFFSETS)
        self._is_cleaned_stale = False
        self._checkpointing = False
        self._checkpoints = 0  # How many were begun.

    def begin(self) -> None:
        """From here on a crash is a crash. Remove what an interrupted deletion left."""
        if self.clean:
            self._disk.open(checkpoints.CLEAN_SHUTDOWN).delete()
            self._disk.sync_dir(".")
        for name in self._disk.list("."):
            if name.endswith(DELETE_SUFFIX):
                self._disk.remove_tree(name)

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.decode_offsets(self._disk.read_file(name))
        except ValueError:
            # Without recovery points everything is read again; without start offsets, segments say where logs start.
            return {}

    def identity(self, *, make: Callable[[], Identity]) -> Identity:
        """Who wrote this directory; a new one is signed with what `make` gives."""
        data = self._disk.read_file(checkpoints.META_PROPERTIES)
        if data is None:
            identity = make()
            self._disk.replace_file(
                checkpoints.META_PROPERTIES,
                checkpoints.encode_properties(
                    {
                        "version": "1",
                        "cluster.id": identity.cluster_id,
                        "node.id": str(identity.node_id),
                        "directory.id": identity.directory_id,
                        "headrace.format": FORMAT_VERSION,
                    }
                ),
            )
            return identity
        properties = checkpoints.decode_properties(data)
        checkpoints.check_meta(properties, path=checkpoints.META_PROPERTIES)
        made = make()
        return Identity(
            properties.get("cluster.id", made.cluster_id),
            int(properties.get("node.id", properties.get("broker.id", str(made.node_id)))),
            properties.get("directory.id", made.directory_id),
        )

    def found_partitions(self) -> Iterable[tuple[TopicPartition, TopicId | None]]:
        """Partition folders that are there, with the topic id each names."""
        for name in self._disk.list("."):
            partition = checkpoints.parse_partition_directory(name)
            if partition is not None:
                metadata = self._disk.read_file(f"{name}/{checkpoints.PARTITION_METADATA}")
                yield partition, checkpoints.decode_partition_metadata(metadata)

    def open_log(
        self, partition: TopicPartition, config: LogConfig, *, topic_id: TopicId, now_ms: int
    ) -> tuple[PartitionLog, Recovery]:
        directory = str(partition)
        is_new = not self._disk.exists(directory)
        log, recovery = load_log(
            self._disk,
            directory,
            config,
            clean=self.clean or is_new,
            # Compaction leaves gaps, and only where everything was on disk: they are not taken for a crash's.
            recovery_point=max(self._recovery_points.get(partition, 0), self._cleaned_offsets.get(partition, 0)),
            start_offset=self._start_offsets.get(partition, 0),
            now_ms=now_ms,
        )
        metadata = f"{directory}/{checkpoints.PARTITION_METADATA}"
        if checkpoints.decode_partition_metadata(self._disk.read_file(metadata)) is None:
            # Not waited for: the catalogue knows the id too, and a torn file is mended here.
            self._disk.replace_file(metadata, checkpoints.encode_partition_metadata(topic_id), sync=False)
        if self._cleaned_offsets.get(partition, 0) > log.end_offset:
            # Its end was lost, and will be written anew: at once, since a recovery point is taken from it.
            del self._cleaned_offsets[partition]
            self._write_cleaned(sync=True)
        self.logs[partition] = log
        return log, recovery

    def remove_log(self, partition: TopicPartition, *, marker: str) -> str:
        """Move a partition out of the way; the folder to remove once nobody reads it.

        Not before the next `checkpoint` is it gone for good: until then a crash can bring the folder back, and what the
        checkpoints say of it would be believed of another partition of that name.
        """
        doomed = f"{partition.topic[:150]}-{partition.partition}.{marker}{DELETE_SUFFIX}"
        self._disk.rename_dir(str(partition), doomed)
        # Whoever still holds the log must not write under a name that may soon belong to another.
        self.logs.pop(partition).fail(StorageError(f"{partition} was deleted"))
        self._forget(partition)
        return doomed

    def remove_partition(self, partition: TopicPartition) -> None:
        """As `remove_log`, at once, for one that is not open."""
        self._disk.remove_tree(str(partition))
        self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        self._start_offsets.pop(partition, None)
        self._recovery_points.pop(partition, None)
        self._is_cleaned_stale |= self._cleaned_offsets.pop(partition, None) is not None

    def remove_folder(self, name: str) -> None:
        self._disk.remove_tree(name)

    def doomed(self, files: Iterable[File]) -> None:
        for file in files:
            file.delete()

    def checkpoint(self) -> None:
        """Write down what is known to be on disk, so that a restart need not read it."""
        self._checkpoints += 1
        self._disk.replace_file(checkpoints.RECOVERY_POINTS, self._encode_recovery_points())
        if self._is_cleaned_stale:
            self._write_cleaned(sync=True)
            self._is_cleaned_stale = False
        self.checkpoint_starts()

    def checkpoint_then(self, done: Callable[[OSError | StorageError | None], None]) -> None:
        """As `checkpoint`, off the loop, of recovery points alone: start offsets are written whenever they change.

        A checkpoint that was begun later replaces it, and one that is under way makes do for it.
        """
        if self._checkpointing:
            done(None)
            return
        self._checkpointing = True
        self._checkpoints += 1
        number = self._checkpoints
        file: File | None = None

        def finish(error: OSError | StorageError | None) -> None:
            self._checkpointing = False
            done(error)

        def synced(error: OSError | None) -> None:
            assert file is not None
            if error is not None or number != self._checkpoints:
                finish(error)
                return
            try:
                file.rename(checkpoints.RECOVERY_POINTS)
            except StorageError as failure:
                finish(failure)
            else:
                self._disk.sync_dir_then(".", finish)

        try:
            # Always a new file: one whose sync failed must not be written to again.
            if self._disk.exists(_NEW_RECOVERY_POINTS):
                self._disk.open(_NEW_RECOVERY_POINTS).delete()
            file = self._disk.open(_NEW_RECOVERY_POINTS, create=True)
            file.append((self._encode_recovery_points(),))
            file.sync_then(synced)
        except StorageError as failure:
            finish(failure)

    def _encode_recovery_points(self) -> bytes:
        return checkpoints.encode_offsets({tp: log.recovery_point for tp, log in self.logs.items()})

    def checkpoint_starts(self) -> None:
        """At once when records are deleted: a crash must not bring them back."""
        starts = {tp: log.start_offset for tp, log in self.logs.items()}
        self._disk.replace_file(checkpoints.START_OFFSETS, checkpoints.encode_offsets(starts))
        self._start_offsets = starts

    def cleaned_offset(self, partition: TopicPartition) -> int | None:
        """Up to where a log was compacted; None where it never was."""
        return self._cleaned_offsets.get(partition)

    def note_cleaned(self, partition: TopicPartition, offset: int) -> None:
        self._cleaned_offsets[partition] = offset
        self._write_cleaned(sync=False)  # If a crash takes it, the same is compacted once more.

    def _write_cleaned(self, *, sync: bool) -> None:
        encoded = checkpoints.encode_offsets(self._cleaned_offsets)
        self._disk.replace_file(checkpoints.CLEANED_OFFSETS, encoded, sync=sync)

    def is_start_written(self, partition: TopicPartition) -> bool:
        """Whether a crash would find the log starting where it does now."""
        return self._start_offsets.get(partition, 0) == self.logs[partition].start_offset

    def close(self) -> list[tuple[TopicPartition | None, StorageError]]:
        """Put everything on disk and say so. A log that fails keeps the stop from counting as clean."""
        failures: list[tuple[TopicPartition | None, StorageError]] = []
        for partition, log in self.logs.items():
            try:
                log.close()
            except StorageError as error:
                log.fail(error)
            if log.offline is not None:
                failures.append((partition, log.offline))
        try:
            self.checkpoint()
            watermarks = {tp: log.high_watermark for tp, log in self.logs.items()}
            self._disk.replace_file(checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets(watermarks))
            if not failures:
                self._disk.replace_file(checkpoints.CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')
        except StorageError as error:
            failures.append((None, error))
        return failures

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs.values())

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def total_bytes(self) -> int:
        return self._disk.total_bytes()
