"""Recovery: a log cut at every byte, with every bit flipped, and with files that are older or newer than each other."""

from typing import Any

import pytest

from headrace.protocol.batch import BatchHeader, parse_header, whole_batches
from headrace.sim.disk import SimDisk, Survival
from headrace.storage.epochs import LeaderEpochs
from headrace.storage.repair import QUARANTINE
from tests.unit.storage.logs import DIRECTORY, NOW_MS, LogStage, batch, read_records

LOG = ".log"
ONE = len(batch(b"0"))


def written(**settings: Any) -> LogStage:
    """Nine batches of different sizes from two producers and two epochs, every one indexed."""
    stage = LogStage(index_interval_bytes=0, **settings)
    for number in range(9):
        producer: dict[str, Any] = {}
        if number % 2:
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number // 2}
        values = [b"%d" % number * (1 + number % 3)] * (1 if number % 2 else 1 + number % 3)
        stage.append(batch(*values, timestamp_ms=NOW_MS + number, **producer), epoch=number // 5)
    return stage


def on(disk: SimDisk, *, clean: bool = False, recovery_point: int = 0) -> LogStage:
    """The same log as found on a disk."""
    return LogStage(disk, clean=clean, recovery_point=recovery_point, index_interval_bytes=0)


def check_sound(stage: LogStage, expected: list[BatchHeader]) -> None:
    """What a log must be whatever it went through: these batches, good indexes, and ready to go on."""
    log = stage.log
    assert stage.batches() == expected
    end_offset = expected[-1].last_offset + 1 if expected else log.start_offset
    assert log.end_offset == log.high_watermark == end_offset
    for header in expected:
        for offset in range(header.base_offset, header.last_offset + 1):
            span = log.read(offset, bytes_max=1, at_least_one=True)
            assert span is not None
            assert parse_header(span[0].read(span[1], span[2])) == header
    for record in read_records(log):
        found = log.find_timestamp(record.timestamp_ms)
        assert found is not None
        assert (found.timestamp, found.offset <= record.offset) == (record.timestamp_ms, True)
    epochs = LeaderEpochs()
    for header in expected:
        epochs.assign(header.leader_epoch, header.base_offset)
    assert log.epochs.encode() == epochs.encode()
    last = {h.producer_id: (h.producer_epoch, h.last_sequence, h.last_offset) for h in expected if h.producer_id >= 0}
    assert log.producers.statistics() == last
    stage.append(batch(b"after"), epoch=9)
    assert stage.batches()[-1].base_offset == end_offset
    assert stage.flush() is None


def whole(data: bytes) -> list[BatchHeader]:
    return [header for _, header in whole_batches(data)]


def test_a_log_cut_at_any_byte_keeps_every_whole_batch_before_it() -> None:
    """The indexes are those of the uncut log, so they are longer than it."""
    stage = written()
    stage.log.close()
    data = stage.content(0)
    for size in range(len(data) + 1):
        disk = stage.disk.copy()
        disk.cut(stage.path(0, LOG), size)
        cut = on(disk)
        check_sound(cut, whole(data[:size]))
        kept = sum(header.size_bytes for header in whole(data[:size]))
        assert cut.recovery.bytes_cut == size - kept
        assert cut.recovery.quarantined == ()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_cut_at_any_byte_is_made_anew(suffix: str) -> None:
    stage = written()
    stage.log.close()
    expected = stage.batches()
    full = stage.content(0, suffix)
    for size in range(len(full) + 1):
        disk = stage.disk.copy()
        disk.cut(stage.path(0, suffix), size)
        cut = on(disk)
        cut.log.close()
        assert cut.content(0, suffix) == full
        check_sound(cut, expected)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("missing", [(".index",), (".timeindex",), (".index", ".timeindex")])
def test_a_missing_index_is_made_anew(missing: tuple[str, ...], clean: bool) -> None:
    for number in (0, 1):
        stage = written(segment_bytes=5 * ONE)
        stage.log.close()
        base_offset = stage.log.segments[-number].base_offset
        expected = stage.batches()
        kept = {suffix: stage.content(base_offset, suffix) for suffix in missing}
        for suffix in missing:
            stage.disk.open(stage.path(base_offset, suffix)).delete()
        found = on(stage.disk, clean=clean, recovery_point=stage.log.end_offset)
        found.log.close()
        assert {suffix: found.content(base_offset, suffix) for suffix in missing} == kept
        check_sound(found, expected)


@pytest.mark.parametrize("index", [bytes(80), b"\xff" * 80, bytes(range(80))], ids=["zeros", "ones", "numbers"])
def test_an_index_that_a_crash_filled_with_anything_is_not_trusted(index: bytes) -> None:
    stage = written()
    stage.log.close()
    expected = stage.batches()
    for suffix in (".index", ".timeindex"):
        stage.disk.open(stage.path(0, suffix)).delete()
        stage.disk.open(stage.path(0, suffix), create=True).append((index,))
    check_sound(on(stage.disk), expected)


@pytest.mark.parametrize(
    "tail",
    [bytes(1), bytes(60), bytes(61), bytes(5000), b"\xff" * 200, b"garbage" * 40, batch(b"v")[:-1]],
    ids=["zero", "zeros", "header of zeros", "many zeros", "ones", "garbage", "batch without its end"],
)
def test_whatever_stands_behind_the_last_batch_is_cut(tail: bytes) -> None:
    stage = written()
    expected = stage.batches()
    stage.disk.open(stage.path(0, LOG)).append((tail,))
    found = on(stage.disk)
    assert found.recovery.bytes_cut == len(tail)
    check_sound(found, expected)


def test_a_zero_filled_page_in_the_tail_costs_what_follows_it() -> None:
    stage = written()
    data = stage.content(0)
    third = sum(header.size_bytes for header in whole(data)[:3])
    stage.disk.overwrite(stage.path(0, LOG), third, bytes(ONE))
    check_sound(on(stage.disk), whole(data)[:3])


def flipped(disk: SimDisk, path: str, content: bytes, byte: int, bit: int) -> SimDisk:
    damaged = disk.copy()
    damaged.overwrite(path, byte, bytes([content[byte] ^ (1 << bit)]))
    return damaged


def batch_at(data: bytes, byte: int) -> int:
    """The number of the batch that holds this byte."""
    return next(number for number, (position, h) in enumerate(whole_batches(data)) if byte < position + h.size_bytes)


def test_any_flipped_bit_in_what_was_on_disk_costs_that_batch_alone() -> None:
    """It is before the recovery point, so it is no torn tail."""
    stage = written()
    stage.log.close()
    everything = stage.batches()
    data = stage.content(0)
    for byte in range(len(data)):
        for bit in (0, 4, 7):
            disk = flipped(stage.disk, stage.path(0, LOG), data, byte, bit)
            found = on(disk, recovery_point=stage.log.end_offset)
            hit = batch_at(data, byte)
            expected = everything[:hit] + everything[hit + 1 :]
            got = found.batches()
            assert found.recovery.bytes_cut == 0
            if got == expected:
                (gone,) = found.recovery.quarantined
                assert gone.kept_in is not None
                assert gone.kept_in.startswith(f"{QUARANTINE}/{DIRECTORY}/")
                assert len(found.disk.read_file(gone.kept_in) or b"") == everything[hit].size_bytes
            else:
                # The place of a batch is outside its CRC. A wrong one that contradicts no neighbour goes unnoticed, and
                # where a new epoch begins either of two may be the wrong one.
                assert byte - sum(h.size_bytes for h in everything[:hit]) < 16
                assert len(got) >= len(everything) - 1
            assert found.batches() == on(found.disk, recovery_point=found.log.end_offset).batches()


def test_any_flipped_bit_in_the_tail_costs_no_batch_before_it() -> None:
    stage = written()
    stage.log.close()
    data = stage.content(0)
    everything = whole(data)
    for byte in range(len(data)):
        found = on(flipped(stage.disk, stage.path(0, LOG), data, byte, byte % 8))
        hit = batch_at(data, byte)
        if byte - sum(h.size_bytes for h in everything[:hit]) >= 16:
            check_sound(found, everything[:hit])
        else:
            # The place of a batch is outside its CRC. Where a new epoch begins, either of two may be the wrong one.
            kept = max(hit - 1, 0)
            assert found.batches()[:kept] == everything[:kept]


def test_what_rots_before_the_recovery_point_costs_that_batch_alone() -> None:
    """Everything before it was on disk once, so it is no torn tail."""
    stage = written()
    stage.log.close()
    data = stage.content(0)
    everything = whole(data)
    position = sum(header.size_bytes for header in everything[:4])
    stage.disk.overwrite(stage.path(0, LOG), position + 62, b"\xee")
    stage.disk.open(stage.path(0, LOG)).append((b"torn",))
    found = on(stage.disk, recovery_point=everything[6].base_offset)
    assert len(found.recovery.quarantined) == 2
    check_sound(found, everything[:4] + everything[5:])


@pytest.mark.parametrize("clean", [True, False])
def test_rot_that_loading_runs_into_makes_it_read_everything(clean: bool) -> None:
    """The last batch of the log is looked at whatever the stop was."""
    stage = written(segment_bytes=5 * ONE)
    stage.log.close()
    everything = stage.batches()
    base_offset = stage.log.segments[-1].base_offset
    stage.disk.overwrite(stage.path(base_offset, LOG), 0, bytes(30))
    found = on(stage.disk, clean=clean, recovery_point=everything[-1].last_offset + 1)
    kept = [header for header in everything if header.base_offset != base_offset]
    assert found.batches() == kept
    assert len(found.recovery.quarantined) == 1


def test_what_was_cut_does_not_come_back_behind_what_is_written_next() -> None:
    """The third batch was whole, and would follow a batch of the second's size as if it belonged there."""
    stage = LogStage()
    stage.fill(3)
    stage.flush()
    stage.disk.overwrite(stage.path(0, LOG), ONE + 30, b"\xee")
    stage = on(stage.disk)
    assert stage.log.end_offset == 1
    stage.append(batch(b"n"), epoch=1)
    for seed in range(40):
        disk = stage.disk.copy()
        disk.world.random.seed(seed)
        found = on(disk.crash())
        assert found.values() in ([b"0"], [b"0", b"n"])


def test_a_log_ends_where_a_segment_reaches_into_the_next() -> None:
    stage = LogStage()
    stage.fill(4)
    expected = stage.batches()
    later = bytearray(batch(b"later"))
    later[:8] = (2).to_bytes(8, "big")
    stage.disk.open(stage.path(2, LOG), create=True).append((bytes(later),))
    check_sound(on(stage.disk), expected[:2])


def segments_of(stage: LogStage) -> list[str]:
    return [name for name in stage.disk.list(DIRECTORY) if name.endswith(LOG)]


def test_nothing_stays_behind_a_gap_that_a_crash_left() -> None:
    """What is missing may be sent again by a producer, and its batches must not come behind later ones."""
    stage = written(segment_bytes=5 * ONE)
    everything = stage.batches()
    bases = [segment.base_offset for segment in stage.log.segments]
    assert len(bases) >= 3
    for cut in ("missing", "shorter", "damaged"):
        disk = stage.disk.copy()
        if cut == "missing":
            disk.open(stage.path(bases[1], LOG)).delete()
        elif cut == "shorter":
            disk.cut(stage.path(bases[1], LOG), 0)
        else:
            disk.overwrite(stage.path(bases[1], LOG), 30, b"\xee")
        found = on(disk)
        kept = [header for header in everything if header.base_offset < bases[1]]
        assert found.recovery.bytes_cut > 0
        assert found.recovery.quarantined == ()
        assert not found.disk.exists(stage.path(bases[2], LOG))
        check_sound(found, kept)
        # And it does not come back.
        for seed in range(5):
            again = found.disk.copy()
            again.world.random.seed(seed)
            assert not again.crash().exists(stage.path(bases[2], LOG))


def test_a_gap_that_is_older_than_the_recovery_point_is_none_of_a_crash() -> None:
    stage = written(segment_bytes=5 * ONE)
    everything = stage.batches()
    bases = [segment.base_offset for segment in stage.log.segments]
    last = everything[-1].last_offset + 1
    stage.disk.open(stage.path(bases[0], LOG)).truncate(everything[0].size_bytes)
    found = on(stage.disk, recovery_point=last)
    assert found.batches() == [everything[0], *(h for h in everything if h.base_offset >= bases[1])]


def test_segments_below_the_start_that_a_crash_brought_back_are_removed() -> None:
    stage = LogStage(segment_bytes=2 * ONE)
    stage.fill(8)
    stage.flush()
    stage.start_checkpoint = 5
    for suffix in (LOG, ".index", ".timeindex"):
        stage.disk.open(stage.path(2, suffix), create=True).delete()
    stage.crash(Survival.EVERYTHING)
    assert segments_of(stage) == [f"{base:020d}.log" for base in (4, 6)]
    assert [header.base_offset for header in stage.batches()] == [5, 6, 7]


def test_segments_known_to_be_on_disk_are_not_read_again() -> None:
    stage = written(segment_bytes=3 * ONE)
    stage.flush()
    stage.settle()
    bases = [segment.base_offset for segment in stage.log.segments]
    assert len(bases) > 3
    stage.kill(recovery_point=stage.log.recovery_point)
    assert stage.recovery.segments_scanned == 1
    stage.kill(recovery_point=bases[1])
    assert stage.recovery.segments_scanned == len(bases) - 1
    stage.kill(recovery_point=0)
    assert stage.recovery.segments_scanned == len(bases)


def test_what_a_crash_left_behind_is_removed() -> None:
    stage = written()
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "x.tmp", "y.swap"):
        stage.disk.open(f"{DIRECTORY}/{name}", create=True)
    stage.kill()
    assert not [n for n in stage.disk.list(DIRECTORY) if n.endswith((".deleted", ".cleaned", ".tmp", ".swap"))]


def test_other_peoples_files_are_left_alone() -> None:
    stage = written()
    expected = stage.batches()
    for name in ("notes.log", "x.snapshot", "README"):
        stage.disk.open(f"{DIRECTORY}/{name}", create=True)
    check_sound(on(stage.disk), expected)
    assert {"notes.log", "x.snapshot", "README"} <= set(stage.disk.list(DIRECTORY))


# The start.


def test_a_log_whose_directory_was_lost_starts_where_it_was_promised_to() -> None:
    stage = LogStage()
    stage.fill(5)
    stage.start_checkpoint = 4
    stage.crash()
    assert (stage.log.start_offset, stage.log.end_offset) == (4, 4)
    assert stage.log.segments[0].base_offset == 4


def test_a_start_beyond_what_survived_is_kept_and_the_rest_goes() -> None:
    """Offsets below a start that was promised are never given out again, so no later crash can hide their records."""
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(5)
    stage.flush()
    stage.fill(5)
    stage.log.raise_start(9)
    stage.start_checkpoint = 9
    stage.crash(recovery_point=stage.log.recovery_point)
    assert (stage.log.start_offset, stage.log.high_watermark, stage.log.end_offset) == (9, 9, 9)
    assert stage.batches() == []
    assert [name for name in stage.disk.list(DIRECTORY) if name.endswith(LOG)] == [f"{9:020d}.log"]
    stage.fill(2)
    stage.kill()
    assert [header.base_offset for header in stage.batches()] == [9, 10]


def test_a_start_inside_a_segment_is_kept() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(7)
    stage.start_checkpoint = 4
    stage.kill()
    assert stage.log.start_offset == 4
    assert [header.base_offset for header in stage.batches()] == [4, 5, 6]


def test_segments_say_where_a_log_starts_that_has_no_checkpoint() -> None:
    stage = LogStage(segment_bytes=3 * ONE)
    stage.fill(7)
    stage.disk.open(stage.path(0, LOG)).delete()
    stage.kill()
    assert stage.log.start_offset == 3


# Epochs.


def epochs_of(stage: LogStage) -> bytes:
    return stage.log.epochs.encode()


def with_epochs() -> LogStage:
    stage = LogStage(segment_bytes=2 * len(batch(b"value")))
    for epoch in (0, 0, 1, 1, 1, 1, 4, 4, 4):
        stage.append(epoch=epoch)
    stage.log.close()
    return stage


@pytest.mark.parametrize(
    "old",
    [b"", b"0\n1\n0 0\n", b"0\n2\n0 0\n1 2\n", b"0\n3\n0 0\n1 2\n4 ", b"0\n3\n0 0\n1 2\n4 66", bytes(20), None],
    ids=["empty", "one", "two", "torn", "torn in a number", "zeros", "missing"],
)
@pytest.mark.parametrize("recovery_point", [0, 4, 9, None], ids=lambda point: f"from-{point}")
def test_leader_epochs_are_completed_from_the_batches(old: bytes | None, recovery_point: int | None) -> None:
    """The file is never synced; the recovery point, or a clean stop, may vouch for more than it holds."""
    stage = with_epochs()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    assert stage.disk.read_file(path) == b"0\n3\n0 0\n1 2\n4 6\n"
    stage.disk.open(path).delete()
    if old is not None:
        stage.disk.replace_file(path, old)
    stage.open(clean=recovery_point is None, recovery_point=recovery_point or 0)
    assert epochs_of(stage) == b"0\n3\n0 0\n1 2\n4 6\n"


def test_epochs_of_what_was_cut_are_forgotten() -> None:
    stage = with_epochs()
    stage.disk.open(stage.path(6, LOG)).delete()
    stage.disk.open(stage.path(8, LOG)).delete()
    stage.open(clean=False)
    assert epochs_of(stage) == b"0\n2\n0 0\n1 2\n"


# Producers.


def with_producer(**settings: Any) -> LogStage:
    stage = LogStage(**settings)
    for sequence in range(7):
        stage.append(batch(b"v", producer_id=3, producer_epoch=0, base_sequence=sequence))
    return stage


def snapshots(stage: LogStage) -> list[int]:
    names = stage.disk.list(DIRECTORY)
    return [int(name.split(".")[0]) for name in names if name.endswith(".snapshot")]


@pytest.mark.parametrize("damage", ["", "torn", "zeros", "missing"])
def test_producers_are_remembered_whatever_became_of_the_snapshots(damage: str) -> None:
    stage = with_producer(segment_bytes=2 * len(batch(b"v")))
    stage.settle()
    newest = f"{DIRECTORY}/{snapshots(stage)[-1]:020d}.snapshot"
    if damage == "torn":
        stage.disk.cut(newest, 30)
    elif damage == "zeros":
        stage.disk.overwrite(newest, 0, bytes(40))
    elif damage == "missing":
        stage.disk.open(newest).delete()
    stage.kill(recovery_point=stage.log.recovery_point)
    for sequence in range(2, 7):
        retried = stage.append(batch(b"v", producer_id=3, producer_epoch=0, base_sequence=sequence))
        assert retried.base_offset == sequence
    assert stage.log.end_offset == 7


def test_a_snapshot_of_what_a_crash_took_is_not_believed() -> None:
    stage = with_producer()
    stage.log.close()
    stage.disk.cut(stage.path(0, LOG), 3 * len(batch(b"v")))
    stage.open(clean=False)
    assert stage.log.producers.statistics() == {3: (0, 2, 2)}
    assert snapshots(stage) == []


def test_snapshots_do_not_pile_up() -> None:
    stage = LogStage(segment_bytes=4 * ONE)
    for _ in range(6):
        stage.fill(3)
        stage.stop()
    bases = {segment.base_offset for segment in stage.log.segments}
    assert set(snapshots(stage)) <= bases | {18}
