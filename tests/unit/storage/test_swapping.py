"""A compacted segment takes the place of others, whatever happens on the way."""

import pytest

from headrace.errors import StorageError
from headrace.protocol.batch import HEADER_BYTES
from headrace.sim.disk import Operation, PowerLost, SimDisk, Survival
from headrace.sim.world import World
from headrace.storage.cleanable import next_group
from headrace.storage.compaction import map_keys
from headrace.storage.key_map import KeyMap
from headrace.storage.segment import SWAP_SUFFIX
from headrace.storage.swapping import Swap
from tests.unit.storage.compacting import keyed, latest, pairs, run, sources, swap, write_cleaned
from tests.unit.storage.logs import DIRECTORY, LogStage, read

KEYS = 5


def dirty_stage(seed: int = 1) -> LogStage:
    """Some sealed segments, all on disk, and an active one that holds no key of theirs."""
    stage = LogStage(SimDisk(World(seed)), compacts=True, segment_bytes=1 << 20, index_interval_bytes=0)
    for number in range(24):
        stage.append(keyed((b"%d" % (number * 3 % KEYS), b"%d" % number)))
        if number % 6 == 5:
            stage.log.roll(now_ms=0)
    stage.append(keyed((b"active", b"")))
    assert stage.flush() is None
    stage.settle()
    return stage


def begin(stage: LogStage) -> tuple[list[int], KeyMap]:
    keys = KeyMap(start_offset=0, bytes_max=1 << 20)
    group = next_group(stage.log.sealed_segments(), stage.log.config, from_offset=0, mapped_offset=24, end_offset=24)
    assert group == [0, 6, 12, 18]
    run(map_keys(sources(stage, group), keys, end_offset=24))
    return group, keys


def swap_all(stage: LogStage) -> None:
    group, keys = begin(stage)
    swap(stage, group, write_cleaned(stage, group, keys)[0])


def test_readers_of_the_old_files_finish() -> None:
    stage = dirty_stage()
    span = stage.log.read(0, bytes_max=1 << 20, at_least_one=True)
    assert span is not None
    before = read(span)
    group, keys = begin(stage)
    replaced: list[object] = []
    Swap(stage.disk, stage.log, group, write_cleaned(stage, group, keys)[0], replaced.append).begin()
    stage.world.run_until_true(lambda: bool(replaced))
    assert read(span) == before
    assert len(pairs(stage)) == KEYS + 1
    assert all(name.endswith(".deleted") for name in stage.disk.list(DIRECTORY) if name.startswith(f"{6:020d}"))


def test_snapshots_of_the_segments_that_are_gone_go_with_them() -> None:
    stage = dirty_stage()
    swap_all(stage)
    names = stage.disk.list(DIRECTORY)
    assert sorted(name for name in names if name.endswith(".log")) == [f"{0:020d}.log", f"{24:020d}.log"]
    assert [name for name in names if name.endswith(".snapshot")] == [f"{24:020d}.snapshot"]


def test_it_is_as_compacted_after_a_restart() -> None:
    stage = dirty_stage()
    swap_all(stage)
    expected = pairs(stage)
    stage.stop()
    assert pairs(stage) == expected
    stage.crash(recovery_point=24)
    assert pairs(stage)[:-1] == expected[:-1]


def test_segments_that_went_meanwhile_are_not_brought_back() -> None:
    stage = dirty_stage()
    group, keys = begin(stage)
    segment = write_cleaned(stage, group, keys)[0]
    stage.log.raise_start(7)
    for doomed in stage.log.drop_expired(now_ms=0):
        doomed.doomed_files()
    assert swap(stage, group, segment) is None
    assert [one.base_offset for one in stage.log.segments] == [6, 12, 18, 24]
    assert not [name for name in stage.disk.list(DIRECTORY) if name.endswith((".swap", ".cleaned"))]
    assert len(pairs(stage)) == 25 - 7


def test_retention_may_take_the_new_segment_before_it_has_its_name() -> None:
    stage = dirty_stage()
    group, keys = begin(stage)
    outcomes: list[object] = []
    Swap(stage.disk, stage.log, group, write_cleaned(stage, group, keys)[0], outcomes.append).begin()
    stage.world.run_until_true(lambda: len(stage.log.segments) == 2)
    assert stage.log.segments[0].log.path.endswith(SWAP_SUFFIX)
    stage.log.raise_start(24)
    for doomed in stage.log.drop_expired(now_ms=0):
        for file in doomed.doomed_files():
            file.delete()
    stage.world.run_until_true(lambda: bool(outcomes))
    stage.stop()
    assert pairs(stage) == [(24, b"active", b"")]


@pytest.mark.parametrize("operation", [Operation.RENAME, Operation.SYNC_DIR])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_failing_disk_takes_the_log_offline_and_loses_nothing(operation: Operation, nth: int) -> None:
    stage = dirty_stage()
    expected = latest(pairs(stage))
    group, keys = begin(stage)
    segment = write_cleaned(stage, group, keys)[0]
    stage.disk.fail(operation, nth=nth, path_end="" if operation is Operation.RENAME else DIRECTORY)
    assert swap(stage, group, segment) is None
    assert isinstance(stage.log.offline, StorageError)
    stage.kill(recovery_point=24)
    assert latest(pairs(stage)) == expected


def changes_of_a_swap() -> int:
    stage = dirty_stage()
    before = stage.disk.changes
    swap_all(stage)
    return stage.disk.changes - before


@pytest.mark.parametrize("survival", Survival)
@pytest.mark.parametrize("recovery_point", [0, 24])
def test_the_power_fails_at_every_change(survival: Survival, recovery_point: int) -> None:
    """Compaction itself included. Whatever is found is the old log or the new one."""
    expected_old, expected_new = 25, KEYS + 1
    seen = set()
    for change in range(changes_of_a_swap()):
        for seed in range(1 if survival is not Survival.BY_CHANCE else 4):
            stage = dirty_stage(seed)
            expected = latest(pairs(stage))
            stage.disk.lose_power_at(stage.disk.changes + change)
            with pytest.raises(PowerLost):
                swap_all(stage)
            stage.crash(survival, recovery_point=recovery_point)
            found = pairs(stage)
            assert latest(found) == expected
            assert len(found) in (expected_old, expected_new)
            seen.add(len(found))
            leftovers = (".swap", ".cleaned", ".deleted")
            assert not [name for name in stage.disk.list(DIRECTORY) if name.endswith(leftovers)]
            stage.append(keyed((b"more", b"")))
            stage.stop()
            assert pairs(stage)[-1] == (25, b"more", b"")
    assert seen == {expected_old, expected_new}


@pytest.mark.parametrize("survival", [Survival.NOTHING, Survival.BY_CHANCE])
def test_it_fails_again_at_every_change_of_the_recovery(survival: Survival) -> None:
    expected = latest(pairs(dirty_stage()))
    for change in range(changes_of_a_swap()):
        again = 0
        while True:
            stage = dirty_stage(change)
            stage.disk.lose_power_at(stage.disk.changes + change)
            with pytest.raises(PowerLost):
                swap_all(stage)
            stage.disk = stage.disk.crash(survival)
            stage.disk.lose_power_at(again)
            try:
                stage.open(clean=False, recovery_point=24)
            except PowerLost:
                stage.crash(survival, recovery_point=24)
                assert latest(pairs(stage)) == expected
                again += 1
            else:
                break


def test_a_swap_that_rotted_is_taken_as_it_is() -> None:
    """It was whole when it got its name: it is not for a start to choose."""
    stage = dirty_stage()
    group, keys = begin(stage)
    segment = write_cleaned(stage, group, keys)[0]
    segment.rename(SWAP_SUFFIX)
    stage.disk.overwrite(stage.path(0, ".log") + SWAP_SUFFIX, HEADER_BYTES // 4, b"\x07")
    stage.kill(recovery_point=24)
    assert stage.log.end_offset == 25
