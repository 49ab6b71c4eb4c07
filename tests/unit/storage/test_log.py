import errno

import pytest

from headrace.errors import ApiError, DiskFull, ErrorCode, StorageError
from headrace.protocol.batch import LOG_APPEND_TIME, parse_header, whole_batches
from headrace.protocol.records import decode_records
from headrace.sim.disk import Operation
from headrace.storage.log import Appended, Duplicate
from headrace.storage.segment import TimestampOffset
from tests.unit.storage.logs import DIRECTORY, NOW_MS, LogStage, batch, read, read_records

ONE = len(batch(b"0"))


def bases(stage: LogStage) -> list[int]:
    return [segment.base_offset for segment in stage.log.segments]


# Appending and rolling.


def test_a_new_log_is_empty() -> None:
    log = LogStage().log
    assert (log.start_offset, log.high_watermark, log.end_offset, log.flushed_offset) == (0, 0, 0, 0)
    assert log.read(0, bytes_max=100, at_least_one=True) is None


def test_a_batch_is_kept_as_it_was_sent_but_for_its_place() -> None:
    stage = LogStage()
    sent = batch(b"a", b"b")
    stage.append()
    assert stage.append(sent, epoch=7) == Appended(1, 2, -1)
    span = stage.log.read(1, bytes_max=1000, at_least_one=True)
    assert span is not None
    kept = read(span)
    assert kept == (1).to_bytes(8, "big") + sent[8:12] + (7).to_bytes(4, "big") + sent[16:]


def test_a_segment_takes_what_fits_and_not_a_byte_more() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(7)
    assert bases(stage) == [0, 3, 6]


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    stage = LogStage(segment_bytes=100)
    for _ in range(3):
        stage.append(batch(b"x" * 500))
    assert bases(stage) == [0, 1, 2]


def test_segments_roll_by_the_time_of_their_records() -> None:
    stage = LogStage(segment_ms=1000)
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 5, NOW_MS + 2001, NOW_MS + 2002):
        stage.append(batch(b"v", timestamp_ms=timestamp_ms), now_ms=NOW_MS + 10_000_000)
    assert bases(stage) == [0, 2, 5]


def test_segments_without_times_roll_by_the_clock() -> None:
    stage = LogStage(segment_ms=1000)
    stage.append(batch(b"v", timestamp_ms=-1), now_ms=NOW_MS)
    stage.append(batch(b"v", timestamp_ms=-1), now_ms=NOW_MS + 1000)
    stage.append(batch(b"v", timestamp_ms=-1), now_ms=NOW_MS + 1001)
    assert bases(stage) == [0, 2]


def test_the_time_of_a_segment_is_remembered_over_a_restart() -> None:
    stage = LogStage(segment_ms=1000)
    stage.append(batch(b"v", timestamp_ms=NOW_MS))
    stage.stop()
    stage.append(batch(b"v", timestamp_ms=NOW_MS + 1001))
    assert bases(stage) == [0, 1]


@pytest.mark.parametrize("restart", [False, True])
def test_segments_roll_when_their_index_is_full(restart: bool) -> None:
    """A time index of 48 bytes has room for four entries, the last of which is kept for sealing."""
    stage = LogStage(index_interval_bytes=0, segment_index_bytes=48)
    for number in range(10):
        if restart:
            stage.stop()
        stage.append(batch(b"v", timestamp_ms=NOW_MS + number))
    if restart:
        # The first batch after an opening makes no entry, as nothing was counted before it.
        assert bases(stage) == [0]
    else:
        assert bases(stage) == [0, 4, 8]


def test_a_reopened_index_counts_what_it_holds() -> None:
    stage = LogStage(index_interval_bytes=0, segment_index_bytes=48)
    for number in range(4):
        stage.append(batch(b"v", timestamp_ms=NOW_MS + number))
    stage.stop()
    stage.append(batch(b"v", timestamp_ms=NOW_MS + 9))
    assert bases(stage) == [0, 4]


def test_offsets_stay_within_what_an_index_entry_can_hold() -> None:
    stage = LogStage()
    stage.append()
    huge = bytearray(batch(b"v"))
    header = parse_header(huge)._replace(last_offset_delta=2**31 - 2)
    # No test writes two thousand million records: the header is believed.
    stage.log.append(memoryview(huge), header, now_ms=NOW_MS, leader_epoch=0)
    assert bases(stage) == [0]
    stage.append()
    assert bases(stage) == [0, 2**31]


def test_an_empty_segment_is_not_rolled() -> None:
    stage = LogStage()
    stage.log.roll(now_ms=NOW_MS)
    assert bases(stage) == [0]


def test_the_broker_stamps_where_it_is_asked_to() -> None:
    stage = LogStage(log_append_time=True)
    sent = batch(b"a", b"b", timestamp_ms=5, producer_id=1, producer_epoch=0, base_sequence=0)
    assert stage.append(sent, now_ms=NOW_MS + 9) == Appended(0, 1, NOW_MS + 9)
    assert [record.timestamp_ms for record in read_records(stage.log)] == [NOW_MS + 9] * 2
    (header,) = stage.batches()
    assert header.attributes & LOG_APPEND_TIME
    assert header.base_timestamp == 5
    # A retry is told the stamp of the first time.
    assert stage.append(sent, now_ms=NOW_MS + 50) == Duplicate(0, 1, NOW_MS + 9)


def test_a_producer_of_an_older_epoch_is_refused() -> None:
    stage = LogStage()
    stage.append(batch(b"v", producer_id=1, producer_epoch=3, base_sequence=0))
    with pytest.raises(ApiError) as caught:
        stage.append(batch(b"v", producer_id=1, producer_epoch=2, base_sequence=1))
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


# Reading.


def test_reads_outside_the_log_are_refused() -> None:
    stage = LogStage()
    stage.fill(3)
    stage.log.raise_start(1)
    for offset in (-1, 0, 4, 100):
        with pytest.raises(ApiError) as caught:
            stage.log.read(offset, bytes_max=100, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert stage.log.read(3, bytes_max=100, at_least_one=True) is None


@pytest.mark.parametrize("warm", [True, False])
def test_a_span_respects_its_limit_unless_one_batch_must_be_given(warm: bool) -> None:
    stage = LogStage(index_interval_bytes=0)
    stage.fill(10)
    if not warm:
        stage.stop()
    log = stage.log
    for offset in range(10):
        rest = (10 - offset) * ONE
        for bytes_max in (0, 1, ONE - 1, ONE, ONE + 1, 3 * ONE, 100 * ONE):
            span = log.read(offset, bytes_max=bytes_max, at_least_one=True)
            assert span is not None
            assert span[1] == offset * ONE
            # Ends on a batch where the index knows one within the limit.
            assert span[2] == min(rest, max(ONE, bytes_max // ONE * ONE))
            limited = log.read(offset, bytes_max=bytes_max, at_least_one=False)
            assert limited == (span if bytes_max >= ONE else None)


@pytest.mark.parametrize("records", [1, 7])
def test_a_reader_who_reads_on_costs_one_look_at_the_log_each_time(records: int) -> None:
    stage = LogStage(segment_bytes=500_000)
    for _ in range(300):
        stage.append(batch(*[b"x" * (5000 // records)] * records))
    stage.stop()
    looks = []
    offset = 0
    while (span := stage.log.read(offset, bytes_max=30_000, at_least_one=True)) is not None:
        headers = [header for _, header in whole_batches(read(span))]
        assert headers[0].base_offset == offset
        offset = headers[-1].last_offset + 1
        before = stage.disk.counts[Operation.READ]
        stage.log.read(offset, bytes_max=30_000, at_least_one=True)
        looks.append(stage.disk.counts[Operation.READ] - before)
    assert offset == stage.log.end_offset
    # At the end there is nothing to look at; the first look at a segment reads its index, too.
    assert sorted(looks)[1 : -len(stage.log.segments)] == [1] * (len(looks) - 1 - len(stage.log.segments))


@pytest.mark.parametrize("start", [0, 3, 700, 1399])
def test_every_offset_is_found_whatever_was_read_or_forgotten_before(start: int) -> None:
    stage = LogStage(index_interval_bytes=300, segment_bytes=20_000)
    for number in range(200):
        stage.append(batch(*[b"%d" % number] * 7))
    stage.log.raise_start(start)
    for offset in range(start, stage.log.end_offset):
        span = stage.log.read(offset, bytes_max=2000, at_least_one=True)
        assert span is not None
        first = parse_header(read(span))
        assert first.base_offset <= offset <= first.last_offset


def test_a_reader_crosses_segments_one_at_a_time() -> None:
    stage = LogStage(segment_bytes=2 * ONE)
    stage.fill(5)
    sizes = []
    for offset in (0, 2, 4):
        span = stage.log.read(offset, bytes_max=10_000, at_least_one=True)
        assert span is not None
        sizes.append(span[2])
    assert sizes == [2 * ONE, 2 * ONE, ONE]


def test_a_gap_is_passed_over() -> None:
    stage = LogStage(segment_bytes=2 * ONE)
    stage.fill(6)
    stage.log.close()
    for suffix in (".log", ".index", ".timeindex"):
        stage.disk.open(stage.path(2, suffix)).delete()
    stage.open(clean=True, recovery_point=6)
    for offset in (2, 3):
        span = stage.log.read(offset, bytes_max=10_000, at_least_one=True)
        assert span is not None
        assert next(whole_batches(read(span)))[1].base_offset == 4


def test_a_broken_batch_header_is_told_as_corruption() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(4)
    stage.log.close()
    stage.disk.overwrite(stage.path(0, ".log"), ONE, bytes(61))
    stage.open(clean=True, recovery_point=4)
    assert stage.log.read(0, bytes_max=ONE, at_least_one=True) is not None
    with pytest.raises(ApiError) as caught:
        stage.log.read(1, bytes_max=ONE, at_least_one=True)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert stage.log.read(3, bytes_max=ONE, at_least_one=True) is not None


def test_timestamps_are_looked_up_over_all_segments() -> None:
    stage = LogStage(segment_bytes=2 * ONE)
    for number, timestamp_ms in enumerate((5, 9, 3, 4, 20, 11)):
        stage.append(batch(b"v", timestamp_ms=timestamp_ms), epoch=number // 2)
    expected = {0: (5, 0, 0), 5: (5, 0, 0), 6: (9, 1, 0), 9: (9, 1, 0), 10: (20, 4, 2), 20: (20, 4, 2)}
    for _ in range(2):
        for timestamp_ms, found in expected.items():
            assert stage.log.find_timestamp(timestamp_ms) == TimestampOffset(*found)
        assert stage.log.find_timestamp(21) is None
        assert stage.log.find_max_timestamp() == TimestampOffset(20, 4, 2)
        stage.stop()
    stage.log.raise_start(1)
    assert stage.log.find_timestamp(0) == TimestampOffset(9, 1, 0)


def test_a_late_record_does_not_hide_a_segments_largest_timestamp() -> None:
    """Over a restart the largest timestamp is that of the whole segment, not of what was written since."""
    stage = LogStage(segment_bytes=3 * ONE)
    stage.append(batch(b"v", timestamp_ms=1000))
    stage.stop()
    stage.append(batch(b"v", timestamp_ms=500))
    assert stage.log.segments[0].max_timestamp == 1000
    stage.fill(3, timestamp_ms=100)
    assert stage.log.find_timestamp(900) == TimestampOffset(1000, 0, 0)


def test_an_empty_log_has_no_timestamps() -> None:
    log = LogStage().log
    assert log.find_timestamp(0) is None
    assert log.find_max_timestamp() is None


# Flushing and showing.


def test_without_being_asked_to_wait_everything_is_visible_at_once() -> None:
    stage = LogStage()
    stage.fill(2)
    assert (stage.log.high_watermark, stage.log.flushed_offset, stage.log.unflushed_messages) == (2, 0, 2)


def test_what_is_not_flushed_is_not_shown_where_that_is_asked() -> None:
    stage = LogStage(flush_before_expose=True, segment_bytes=2 * ONE)
    moved = []
    stage.log.on_watermark = lambda: moved.append(stage.log.high_watermark)
    stage.fill(1)
    assert stage.log.high_watermark == 0
    assert stage.log.read(0, bytes_max=1000, at_least_one=True) is None
    assert stage.log.find_timestamp(0) is None
    outcomes: list[StorageError | None] = []
    stage.log.flush_then(1, outcomes.append)
    stage.fill(2)  # While the flush is under way, and over the end of the segment.
    stage.world.run_until_true(lambda: bool(outcomes))
    assert stage.log.high_watermark == 1
    span = stage.log.read(0, bytes_max=1000, at_least_one=True)
    assert span is not None
    assert span[2] == ONE
    assert stage.log.read(1, bytes_max=1000, at_least_one=True) is None
    to_end = stage.log.read(1, bytes_max=1000, at_least_one=True, to_end=True)
    assert to_end is not None
    stage.settle()
    assert stage.flush() is None
    assert moved == sorted(moved)
    assert moved[-1] == stage.log.high_watermark == 3
    assert len(stage.batches()) == 3


def test_what_was_hidden_is_shown_once_that_is_no_longer_asked() -> None:
    stage = LogStage(flush_before_expose=True)
    stage.fill(3)
    moved = []
    stage.log.on_watermark = lambda: moved.append(stage.log.high_watermark)
    stage.configure(flush_before_expose=False)
    assert moved == [3]
    assert len(stage.batches()) == 3


def test_after_a_kill_what_is_not_known_to_be_on_disk_is_hidden_until_it_is() -> None:
    stage = LogStage(flush_before_expose=True)
    stage.fill(2)
    stage.flush()
    stage.fill(2)
    stage.kill(recovery_point=2)
    assert (stage.log.high_watermark, stage.log.end_offset) == (2, 4)
    assert len(stage.batches()) == 2
    assert stage.flush() is None
    assert len(stage.batches()) == 4


def test_those_who_ask_while_a_flush_runs_share_the_next() -> None:
    stage = LogStage()
    stage.fill(1)
    flushed: list[int] = []
    stage.log.flush_then(1, lambda error: flushed.append(stage.log.flushed_offset))
    stage.fill(2)
    for end_offset in (2, 3, 3):
        stage.log.flush_then(end_offset, lambda error: flushed.append(stage.log.flushed_offset))
    before = stage.disk.counts[Operation.SYNC]
    stage.settle()
    assert flushed == [1, 3, 3, 3]
    assert stage.disk.counts[Operation.SYNC] - before <= 2


def test_what_is_appended_during_a_sync_is_not_on_disk_by_it() -> None:
    stage = LogStage()
    stage.fill(1)
    done: list[StorageError | None] = []
    stage.log.flush_then(1, done.append)
    stage.fill(1)
    stage.world.run_until_true(lambda: bool(done))
    assert stage.log.flushed_offset == 1


@pytest.mark.parametrize("operation", [Operation.SYNC, Operation.SYNC_DIR])
def test_after_a_failed_sync_nobody_is_told_yes_ever_again(operation: Operation) -> None:
    stage = LogStage(flush_before_expose=True)
    stage.fill(1)
    stage.disk.fail(operation)
    error = stage.flush()
    assert isinstance(error, StorageError)
    assert stage.log.offline is error
    # The next sync would succeed, and that would mean nothing.
    assert stage.flush() is error
    assert (stage.log.flushed_offset, stage.log.recovery_point, stage.log.high_watermark) == (0, 0, 0)
    with pytest.raises(ApiError) as caught:
        stage.fill(1)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_a_failed_sync_lost_does_not_take_with_it_what_a_successor_flushes() -> None:
    """The kernel shows lost pages as if they were there, and a later sync of others says nothing about them."""
    for seed in range(20):
        stage = LogStage()
        stage.fill(1)
        assert stage.flush() is None
        stage.world.random.seed(seed)
        stage.disk.fail(Operation.SYNC)
        stage.append(batch(b"x" * 20_000))
        assert stage.flush() is not None
        stage.kill(recovery_point=1)
        written = stage.append(batch(b"y"), epoch=1)
        assert stage.flush() is None
        stage.crash(recovery_point=1)
        assert stage.log.end_offset == written.last_offset + 1
        assert stage.values()[-1] == b"y"


def test_those_behind_a_failed_sync_are_told_no() -> None:
    stage = LogStage()
    stage.fill(1)
    stage.disk.fail(Operation.SYNC)
    outcomes: list[StorageError | None] = []
    stage.log.flush_then(1, outcomes.append)
    stage.fill(1)
    stage.log.flush_then(2, outcomes.append)
    stage.settle()
    assert len(outcomes) == 2
    assert all(isinstance(outcome, StorageError) for outcome in outcomes)


def test_a_sealed_segment_is_trusted_once_its_indexes_are_on_disk() -> None:
    """With everything flushed before the roll nothing of the log is left to sync, but the indexes are."""
    stage = LogStage(segment_bytes=3 * ONE, index_interval_bytes=0)
    stage.fill(3)
    stage.flush()
    assert stage.log.recovery_point == 3
    stage.fill(1)
    assert stage.log.flushed_offset == 3
    assert stage.log.recovery_point == 0
    stage.settle()
    assert stage.log.recovery_point == stage.log.flushed_offset >= 3
    recovery_point = stage.log.recovery_point
    sealed = stage.content(0, ".index"), stage.content(0, ".timeindex")
    assert all(sealed)
    stage.crash(recovery_point=recovery_point)
    assert (stage.content(0, ".index"), stage.content(0, ".timeindex")) == sealed
    assert stage.recovery.segments_scanned == 1


def test_a_roll_makes_the_new_file_durable_with_the_next_flush() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(3)
    assert stage.flush() is None
    stage.fill(1)
    assert stage.flush() is None
    stage.crash(recovery_point=0)
    assert stage.log.end_offset == 4


def test_a_crash_does_not_take_the_first_file_and_leave_the_second() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(7)
    for seed in range(60):
        disk = stage.disk.copy()
        disk.world.random.seed(seed)
        found = LogStage(disk.crash(), clean=False)
        assert found.log.start_offset == 0
        assert [header.base_offset for header in found.batches()] == list(range(found.log.end_offset))


# Trouble with the disk.


def full(stage: LogStage) -> None:
    stage.disk.capacity_bytes = 0


def room(stage: LogStage) -> None:
    stage.disk.capacity_bytes = None


def test_a_full_disk_refuses_an_append_and_takes_it_later() -> None:
    stage = LogStage()
    sent = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0)
    full(stage)
    for _ in range(3):
        with pytest.raises(DiskFull):
            stage.append(sent)
    assert stage.log.offline is None
    assert stage.log.end_offset == 0
    room(stage)
    assert stage.append(sent) == Appended(0, 0, -1)
    assert stage.append(sent) == Duplicate(0, 0, -1)


def test_what_follows_a_batch_that_found_no_room_waits_for_it() -> None:
    """Of a producer that nobody remembers any batch might be the first, and the smaller one would fit."""
    stage = LogStage()
    first = batch(b"x" * 500, producer_id=1, producer_epoch=0, base_sequence=0)
    second = batch(b"v", producer_id=1, producer_epoch=0, base_sequence=1)
    stage.disk.capacity_bytes = 200
    with pytest.raises(DiskFull):
        stage.append(first)
    with pytest.raises(ApiError) as caught:
        stage.append(second)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stage.append(batch(b"v", producer_id=2, producer_epoch=0, base_sequence=7)).base_offset == 0
    room(stage)
    assert stage.append(first).base_offset == 1
    assert stage.append(second).base_offset == 2
    assert stage.append(first) == Duplicate(1, 1, -1)


def test_half_a_batch_that_found_no_room_does_not_come_back_and_take_what_was_flushed_behind_it() -> None:
    """It stands at the end of a segment of which everything else is on disk, and which is sealed then."""
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(2)
    stage.flush()
    stage.disk.fail(Operation.APPEND, error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        stage.append(batch(b"y"))
    stage.append(batch(b"x" * 200))
    assert bases(stage) == [0, 2]
    assert stage.flush() is None
    for seed in range(40):
        disk = stage.disk.copy()
        disk.world.random.seed(seed)
        assert LogStage(disk.crash(), clean=False).log.end_offset == 3


def test_a_roll_that_finds_no_room_leaves_nothing_behind() -> None:
    """A segment file left by a failed roll would hide what a smaller batch then adds to the old segment."""
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(2)
    for operation in (Operation.CREATE, Operation.APPEND, Operation.RENAME):
        stage.disk.fail(operation, error=errno.ENOSPC)
        with pytest.raises(DiskFull):
            stage.append(batch(b"x" * 200))
        assert [name for name in stage.disk.list(DIRECTORY) if name.endswith(".log")] == ["00000000000000000000.log"]
    stage.fill(1)
    stage.kill()
    assert (stage.log.end_offset, bases(stage)) == (3, [0])
    assert len(stage.batches()) == 3


def test_a_full_disk_does_not_keep_readers_from_looking_up_times() -> None:
    stage = LogStage(index_interval_bytes=0)
    stage.fill(5)
    full(stage)
    assert stage.log.find_timestamp(NOW_MS) == TimestampOffset(NOW_MS, 0, 0)


def test_indexes_that_find_no_room_wait_for_it_and_their_segment_is_not_trusted() -> None:
    stage = LogStage(segment_bytes=3 * ONE, index_interval_bytes=0)
    stage.fill(3)
    stage.disk.fail(Operation.APPEND, error=errno.ENOSPC, path_end=".index")
    stage.fill(1)  # Rolls, and flushes what it sealed.
    stage.settle()
    assert stage.log.offline is None
    assert (stage.log.flushed_offset, stage.log.recovery_point) == (3, 0)
    assert stage.flush() is None
    assert (stage.log.flushed_offset, stage.log.recovery_point) == (4, 4)


def test_a_log_that_found_no_room_for_its_epochs_goes_on() -> None:
    stage = LogStage()
    stage.append(epoch=4)
    full(stage)
    assert stage.flush() is None
    room(stage)
    stage.append(epoch=4)
    assert stage.flush() is None
    assert stage.disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n4 0\n"


def test_a_failed_write_takes_the_log_offline() -> None:
    stage = LogStage()
    stage.fill(2)
    stage.disk.fail(Operation.APPEND)
    with pytest.raises(StorageError):
        stage.fill(1)
    assert stage.log.offline is not None
    with pytest.raises(ApiError, match="offline") as caught:
        stage.fill(1)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    stage.kill()
    assert stage.log.end_offset == 2


def test_a_log_that_cannot_write_for_its_flush_goes_offline() -> None:
    stage = LogStage()
    stage.append(epoch=1)
    stage.disk.fail(Operation.RENAME)
    assert isinstance(stage.flush(), StorageError)
    assert stage.log.offline is not None


# Forgetting.


def test_retention_by_size_keeps_at_least_what_was_asked() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_bytes=3 * ONE)
    stage.fill(8)
    dropped = stage.log.drop_expired(now_ms=NOW_MS)
    assert [segment.base_offset for segment in dropped] == [0, 2]
    assert bases(stage) == [4, 6]
    assert stage.log.start_offset == 4
    assert [header.base_offset for header in stage.batches()] == [4, 5, 6, 7]
    assert stage.log.drop_expired(now_ms=NOW_MS) == []


def test_retention_by_time_takes_the_active_segment_too() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_ms=1000)
    stage.fill(5, timestamp_ms=NOW_MS)
    assert stage.log.drop_expired(now_ms=NOW_MS + 1000) == []
    stage.log.drop_expired(now_ms=NOW_MS + 1001)
    assert bases(stage) == [5]
    assert (stage.log.start_offset, stage.log.high_watermark, stage.log.end_offset) == (5, 5, 5)
    stage.fill(1)
    assert [header.base_offset for header in stage.batches()] == [5]


def test_a_full_disk_does_not_keep_retention_from_making_room() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_ms=1000)
    stage.fill(5)
    full(stage)
    dropped = stage.log.drop_expired(now_ms=NOW_MS + 5000)
    assert [segment.base_offset for segment in dropped] == [0, 2]
    assert bases(stage) == [4]
    assert stage.log.offline is None


def test_what_is_hidden_is_not_expired() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_bytes=0, flush_before_expose=True)
    stage.fill(5)
    assert stage.log.drop_expired(now_ms=NOW_MS) == []


def test_a_log_that_does_not_delete_forgets_only_what_is_below_its_start() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_bytes=0, retention_ms=0, deletes=False)
    stage.fill(6)
    stage.log.raise_start(3)
    stage.log.drop_expired(now_ms=NOW_MS + 10**9)
    assert bases(stage) == [2, 4]
    assert stage.log.start_offset == 3


def test_an_expired_segment_is_still_there_for_those_who_read_it() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_bytes=0)
    stage.fill(4)
    span = stage.log.read(0, bytes_max=1000, at_least_one=True)
    assert span is not None
    doomed = [file for segment in stage.log.drop_expired(now_ms=NOW_MS) for file in segment.doomed_files()]
    assert {file.path.split(".")[-1] for file in doomed} == {"deleted"}
    assert len(decode_records(read(span)[:ONE])) == 1
    for file in doomed:
        file.delete()
    assert [name for name in stage.disk.list(DIRECTORY) if name.endswith(".deleted")] == []


def test_a_sync_under_way_survives_the_expiry_of_its_segment() -> None:
    stage = LogStage(segment_bytes=2 * ONE, retention_bytes=0, index_interval_bytes=0)
    stage.fill(5)  # Rolls twice, and so begins to sync.
    for segment in stage.log.drop_expired(now_ms=NOW_MS):
        for file in segment.doomed_files():
            file.delete()
    stage.settle()
    assert stage.log.offline is None
    assert stage.flush() is None


def test_raising_the_start_hides_records_and_moves_epochs() -> None:
    stage = LogStage()
    for epoch in (0, 0, 3, 5):
        stage.append(epoch=epoch)
    stage.log.raise_start(3)
    stage.log.raise_start(1)  # Never back.
    assert stage.log.start_offset == 3
    assert [header.base_offset for header in stage.batches()] == [3]
    assert stage.log.epochs.encode() == b"0\n1\n5 3\n"


# Closing.


def test_a_closed_log_is_opened_without_reading_it() -> None:
    stage = LogStage(segment_bytes=3 * ONE, index_interval_bytes=0)
    stage.fill(8, producer_id=-1)
    before = stage.batches()
    stage.stop()
    assert stage.recovery.bytes_scanned == 0
    assert stage.batches() == before
    assert stage.log.flushed_offset == 8


def test_closing_makes_everything_durable() -> None:
    stage = LogStage(segment_bytes=3 * ONE, index_interval_bytes=0)
    stage.fill(8, timestamp_ms=NOW_MS)
    stage.log.close()
    names = set(stage.disk.list(DIRECTORY))
    stage.disk = stage.disk.crash()
    stage.open(clean=True, recovery_point=8)
    assert set(stage.disk.list(DIRECTORY)) >= {name for name in names if "checkpoint" not in name}
    assert (stage.recovery.bytes_scanned, stage.log.end_offset) == (0, 8)


def test_a_log_left_alone_is_closed_without_writing() -> None:
    stage = LogStage()
    stage.fill(3)
    stage.stop()
    stage.log.read(0, bytes_max=100, at_least_one=True)
    before = stage.disk.changes
    stage.log.close()
    assert stage.disk.changes == before


def test_an_offline_log_is_not_closed_as_if_nothing_were() -> None:
    stage = LogStage()
    stage.fill(1)
    stage.log.fail(StorageError("gone"))
    before = stage.disk.changes
    stage.log.close()
    assert stage.disk.changes == before


def test_statistics_are_a_snapshot() -> None:
    stage = LogStage(segment_bytes=2 * ONE)
    stage.fill(3, producer_id=-1)
    stage.append(batch(b"v", producer_id=9, producer_epoch=0, base_sequence=0), epoch=4)
    told = stage.log.statistics()
    assert (told.start_offset, told.high_watermark, told.end_offset, told.flushed_offset) == (0, 4, 4, 0)
    assert (told.segments, told.producers, told.leader_epoch, told.offline) == (2, 1, 4, None)
    assert told.size_bytes == 4 * ONE
    stage.log.fail(StorageError("gone"))
    assert stage.log.statistics().offline == "gone"


# Appending several together.


def together(stage: LogStage, *values: bytes) -> None:
    views = [memoryview(bytearray(batch(value))) for value in values]
    stage.log.append_all([(view, parse_header(view)) for view in views], now_ms=NOW_MS, leader_epoch=0)


def test_several_batches_are_one_write() -> None:
    stage = LogStage()
    stage.append()
    before = stage.disk.counts[Operation.APPEND]
    together(stage, b"a", b"b", b"c")
    assert stage.disk.counts[Operation.APPEND] == before + 1
    assert stage.values() == [b"value", b"a", b"b", b"c"]


def test_of_several_batches_that_the_disk_has_no_room_for_none_is_written() -> None:
    stage = LogStage()
    stage.append()
    stage.disk.fail(Operation.APPEND, error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        together(stage, b"a", b"b", b"c")
    assert stage.values() == [b"value"]
    together(stage, b"d", b"e")
    assert stage.values() == [b"value", b"d", b"e"]


def test_several_batches_that_the_disk_fails_take_the_log_offline() -> None:
    stage = LogStage()
    stage.append()
    stage.disk.fail(Operation.APPEND)
    with pytest.raises(StorageError):
        together(stage, b"a", b"b")
    with pytest.raises(ApiError):
        together(stage, b"a", b"b")
    assert stage.values() == [b"value"]
