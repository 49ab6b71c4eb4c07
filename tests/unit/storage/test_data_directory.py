from typing import Any

import pytest

from headrace.errors import ConfigError, StorageError
from headrace.ids import TopicId, TopicName, TopicPartition
from headrace.protocol.batch import parse_header
from headrace.sim.disk import Operation, SimDisk, Survival
from headrace.sim.world import World
from headrace.storage import checkpoints
from headrace.storage.data_directory import DataDirectory, Identity
from headrace.storage.log import PartitionLog
from tests.unit.storage.logs import NOW_MS, Settings, batch, read_batches

TOPIC_ID = TopicId(bytes(range(16)))
ORDERS = TopicPartition(TopicName("orders"), 0)
BILLS = TopicPartition(TopicName("bills"), 3)


class Stage:
    def __init__(self, **settings: Any) -> None:
        self.disk = SimDisk(World(1))
        self.settings = Settings(**settings)
        self.begin()

    def begin(self) -> None:
        self.data = DataDirectory(self.disk)
        self.data.begin()

    def open(self, partition: TopicPartition = ORDERS) -> PartitionLog:
        return self.data.open_log(partition, self.settings, topic_id=TOPIC_ID, now_ms=NOW_MS)[0]

    def kill(self) -> None:
        self.disk = self.disk.kill()
        self.begin()

    def crash(self, survival: Survival = Survival.NOTHING) -> None:
        self.disk = self.disk.crash(survival)
        self.begin()


def append(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        data = memoryview(bytearray(batch(b"v")))
        log.append(data, parse_header(data), now_ms=NOW_MS, leader_epoch=0)


def flush(stage: Stage, log: PartitionLog) -> None:
    done: list[StorageError | None] = []
    log.flush_then(log.end_offset, done.append)
    stage.disk.world.run_until_true(lambda: bool(done))
    assert done == [None]


def test_a_directory_is_signed_once() -> None:
    stage = Stage()
    made = Identity("cluster", 7, "directory")
    assert stage.data.identity(make=lambda: made) == made
    stage.kill()
    assert stage.data.identity(make=lambda: Identity("other", 8, "other")) == made
    assert checkpoints.decode_properties(stage.disk.read_file("meta.properties") or b"")["headrace.format"] == "1"


def test_kafkas_signature_is_read() -> None:
    stage = Stage()
    stage.disk.replace_file("meta.properties", b"#\nversion=1\ncluster.id=abc\nnode.id=4\ndirectory.id=d\n")
    assert stage.data.identity(make=lambda: Identity("x", 1, "x")) == Identity("abc", 4, "d")


def test_a_signature_from_the_future_is_refused() -> None:
    stage = Stage()
    stage.disk.replace_file("meta.properties", b"headrace.format=9\n")
    with pytest.raises(ConfigError, match="format 9"):
        stage.data.identity(make=lambda: Identity("x", 1, "x"))


def test_a_clean_stop_is_believed_once() -> None:
    stage = Stage()
    assert not stage.data.clean
    append(stage.open(), 3)
    assert stage.data.close() == []
    stage.crash()
    assert stage.data.clean
    assert stage.open().end_offset == 3
    stage.crash()
    assert stage.data.clean is False
    assert stage.open().end_offset == 3


def test_a_stop_that_failed_is_no_clean_one() -> None:
    stage = Stage()
    append(stage.open())
    append(stage.open(BILLS))
    stage.disk.fail(Operation.SYNC, path_end=".log")
    ((partition, error),) = stage.data.close()
    assert partition == ORDERS
    assert isinstance(error, StorageError)
    stage.kill()
    assert not stage.data.clean


def test_an_offline_log_keeps_the_stop_from_being_clean() -> None:
    stage = Stage()
    error = StorageError("gone")
    stage.open().fail(error)
    assert stage.data.close() == [(ORDERS, error)]
    stage.kill()
    assert not stage.data.clean


def test_what_was_checkpointed_is_not_read_again() -> None:
    stage = Stage(segment_bytes=3 * len(batch(b"v")))
    log = stage.open()
    append(log, 7)
    flush(stage, log)
    stage.disk.world.run_until_idle()
    stage.data.checkpoint()
    stage.kill()
    _, recovery = stage.data.open_log(ORDERS, stage.settings, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert recovery.segments_scanned == 1
    stage.disk.open(checkpoints.RECOVERY_POINTS).delete()
    stage.kill()
    _, recovery = stage.data.open_log(ORDERS, stage.settings, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert recovery.segments_scanned == 3


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(40), b"0\n5\norders 0 5\n"])
def test_a_checkpoint_that_cannot_be_read_is_done_without(content: bytes) -> None:
    stage = Stage()
    append(stage.open(), 3)
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.START_OFFSETS):
        stage.disk.replace_file(name, content)
    stage.kill()
    log = stage.open()
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (0, 3, 0)


def test_deleted_records_stay_deleted() -> None:
    stage = Stage()
    log = stage.open()
    append(log, 5)
    flush(stage, log)
    log.raise_start(3)
    stage.data.checkpoint_starts()
    stage.crash()
    log = stage.open()
    assert (log.start_offset, log.end_offset) == (3, 5)


def test_records_written_after_a_crash_outlive_a_start_beyond_it() -> None:
    """Deleted up to 5, of which nothing survived; what is written then begins at 5 and is seen after a kill."""
    stage = Stage()
    log = stage.open()
    append(log, 5)
    log.raise_start(5)
    stage.data.checkpoint_starts()
    stage.crash()
    log = stage.open()
    append(log, 2)
    stage.kill()
    assert [header.base_offset for header in read_batches(stage.open())] == [5, 6]


def test_a_new_partition_is_not_taken_for_a_deleted_one_of_its_name() -> None:
    stage = Stage()
    log = stage.open()
    append(log, 5)
    flush(stage, log)
    log.raise_start(4)
    stage.data.checkpoint()
    stage.data.remove_log(ORDERS, marker="m")
    stage.data.checkpoint()
    log = stage.open()
    append(log, 2)
    stage.kill()
    log = stage.open()
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (0, 2, 0)


def test_a_removed_partition_does_not_come_back() -> None:
    stage = Stage()
    log = stage.open()
    append(log)
    flush(stage, log)
    folder = stage.data.remove_log(ORDERS, marker="m")
    stage.data.checkpoint()
    stage.crash()
    assert list(stage.data.found_partitions()) == []
    assert not stage.disk.exists(folder)


def test_who_holds_a_removed_log_writes_nothing_under_its_name() -> None:
    stage = Stage()
    old = stage.open()
    append(old, 3)
    stage.data.remove_log(ORDERS, marker="m")
    stage.open()
    before = stage.disk.changes
    outcomes: list[StorageError | None] = []
    old.flush_then(3, outcomes.append)
    old.close()
    stage.disk.world.run_until_idle()
    assert isinstance(outcomes[0], StorageError)
    assert stage.disk.changes == before


def test_removing_frees_what_interrupted_removals_left() -> None:
    stage = Stage()
    append(stage.open())
    folder = stage.data.remove_log(ORDERS, marker="m")
    assert stage.disk.exists(folder)
    stage.data.remove_folder(folder)
    assert not stage.disk.exists(folder)
    append(stage.open())
    stage.data.remove_log(ORDERS, marker="n")
    stage.kill()
    assert stage.disk.list(".") == []


def test_topic_names_as_long_as_they_may_be_are_removed() -> None:
    stage = Stage()
    longest = TopicPartition(TopicName("x" * 249), 0)
    stage.open(longest)
    assert len(stage.data.remove_log(longest, marker="0" * 32)) <= 255


def test_partitions_are_found_with_the_ids_they_name() -> None:
    stage = Stage()
    stage.open(ORDERS)
    stage.open(BILLS)
    stage.disk.make_dir("quarantine/orders-0")
    assert list(stage.data.found_partitions()) == [(BILLS, TOPIC_ID), (ORDERS, TOPIC_ID)]


@pytest.mark.parametrize("torn", [b"", b"version: 0\ntopic_id: AAEC", bytes(43), None])
def test_a_torn_partition_metadata_is_mended(torn: bytes | None) -> None:
    stage = Stage()
    stage.open()
    path = "orders-0/partition.metadata"
    stage.disk.open(path).delete()
    if torn is not None:
        stage.disk.replace_file(path, torn)
    stage.kill()
    assert list(stage.data.found_partitions()) == [(ORDERS, None)]
    stage.open()
    assert list(stage.data.found_partitions()) == [(ORDERS, TOPIC_ID)]


def test_sizes_add_up() -> None:
    stage = Stage()
    append(stage.open(), 2)
    append(stage.open(BILLS))
    assert stage.data.size_bytes == 3 * len(batch(b"v"))
    stage.disk.capacity_bytes = 1 << 20
    assert 0 < stage.data.free_bytes() < stage.data.total_bytes() == 1 << 20


# Checkpoints off the loop.


def recovery_points(disk: SimDisk) -> dict[TopicPartition, int]:
    return checkpoints.decode_offsets(disk.read_file(checkpoints.RECOVERY_POINTS))


def test_a_checkpoint_off_the_loop_is_there_once_it_says_so() -> None:
    stage = Stage()
    log = stage.open()
    append(log, 4)
    flush(stage, log)
    done: list[object] = []
    stage.data.checkpoint_then(done.append)
    assert done == []
    stage.disk.world.run_until_true(lambda: bool(done))
    assert done == [None]
    assert recovery_points(stage.disk.crash(Survival.NOTHING)) == {ORDERS: 4}


def test_power_lost_during_a_checkpoint_leaves_the_old_one_or_the_new_one() -> None:
    for seed in range(40):
        stage = Stage()
        log = stage.open()
        append(log, 4)
        flush(stage, log)
        stage.data.checkpoint()
        append(log, 3)
        flush(stage, log)
        stage.disk.world.random.seed(seed)
        stage.data.checkpoint_then(lambda error: None)
        for _ in range(seed % 3):
            stage.disk.world.step()
        assert recovery_points(stage.disk.crash()) in ({ORDERS: 4}, {ORDERS: 7})


def test_a_checkpoint_does_not_replace_one_that_was_begun_later() -> None:
    """A topic is deleted meanwhile: what the older one says of it must not come back."""
    stage = Stage()
    log = stage.open()
    append(log, 4)
    flush(stage, log)
    stage.data.checkpoint_then(lambda error: None)
    stage.data.remove_log(ORDERS, marker="m")
    stage.data.checkpoint()
    stage.disk.world.run_until_idle()
    assert recovery_points(stage.disk) == {}


def test_checkpoints_do_not_get_in_each_others_way() -> None:
    stage = Stage()
    log = stage.open()
    done: list[object] = []
    for _ in range(3):
        append(log)
        flush(stage, log)
        stage.data.checkpoint_then(done.append)
        stage.data.checkpoint_then(done.append)
    stage.disk.world.run_until_idle()
    assert done == [None] * 6
    stage.data.checkpoint_then(done.append)
    stage.disk.world.run_until_idle()
    assert recovery_points(stage.disk) == {ORDERS: 3}


@pytest.mark.parametrize(
    "operation", [Operation.CREATE, Operation.APPEND, Operation.SYNC, Operation.RENAME, Operation.SYNC_DIR]
)
def test_a_checkpoint_that_fails_says_so_and_the_next_may_succeed(operation: Operation) -> None:
    stage = Stage()
    log = stage.open()
    append(log, 4)
    flush(stage, log)
    stage.disk.fail(operation)
    done: list[object] = []
    stage.data.checkpoint_then(done.append)
    stage.disk.world.run_until_idle()
    assert isinstance(done[0], OSError | StorageError)
    stage.data.checkpoint_then(done.append)
    stage.disk.world.run_until_idle()
    assert done[1:] == [None]
    assert recovery_points(stage.disk.crash(Survival.NOTHING)) == {ORDERS: 4}


def test_a_stop_that_finds_no_room_is_no_clean_one() -> None:
    stage = Stage()
    append(stage.open())
    stage.disk.capacity_bytes = 0
    assert [partition for partition, _ in stage.data.close()] == [ORDERS, None]
    stage.disk.capacity_bytes = None
    stage.kill()
    assert stage.data.clean is False


# How far logs are compacted.


def test_how_far_a_log_was_compacted_outlives_a_restart() -> None:
    stage = Stage()
    append(stage.open(), 5)
    assert stage.data.cleaned_offset(ORDERS) is None
    stage.data.note_cleaned(ORDERS, 3)
    stage.kill()
    stage.open()
    assert stage.data.cleaned_offset(ORDERS) == 3
    assert stage.disk.read_file("cleaner-offset-checkpoint") == b"0\n1\norders 0 3\n"


def test_of_a_partition_that_is_gone_nothing_is_believed() -> None:
    """Another of its name may follow, and be shorter than what was compacted of this one."""
    stage = Stage()
    append(stage.open(), 5)
    stage.data.note_cleaned(ORDERS, 3)
    stage.data.remove_log(ORDERS, marker="m")
    stage.data.checkpoint()
    stage.crash()
    assert stage.data.cleaned_offset(ORDERS) is None


def test_gaps_in_what_was_compacted_are_not_taken_for_a_crashes() -> None:
    """Kafka leaves them between segments too, and does not wait for recovery points."""
    stage = Stage(segment_bytes=200)
    log = stage.open()
    append(log, 9)
    flush(stage, log)
    stage.disk.world.run_until_idle()
    bases = [segment.base_offset for segment in log.segments]
    stage.disk.open(f"orders-0/{bases[1]:020d}.log").delete()
    stage.disk.replace_file("cleaner-offset-checkpoint", b"0\n1\norders 0 %d\n" % bases[-1])
    stage.disk.sync_dir("orders-0")
    stage.crash()
    log = stage.open()
    assert log.end_offset == 9
    stage.disk.replace_file("cleaner-offset-checkpoint", b"0\n0\n")
    stage.crash()
    assert stage.open().end_offset == bases[1]


def test_an_offset_behind_the_end_is_forgotten_at_once() -> None:
    """What is written there next may not be on disk: it must not be trusted for it."""
    stage = Stage()
    log = stage.open()
    append(log, 5)
    flush(stage, log)
    stage.data.note_cleaned(ORDERS, 9)
    stage.disk.sync_dir(".")
    stage.kill()
    stage.open()
    stage.crash()
    assert stage.data.cleaned_offset(ORDERS) is None
