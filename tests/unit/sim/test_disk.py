"""SimDisk: the contract, and its unkindness."""

import errno
from collections.abc import Callable

import pytest

from headrace.errors import DiskFull, StorageError
from headrace.sim.disk import Operation, PowerLost, SimDisk, SimFile, Survival
from headrace.sim.world import World
from tests.unit.disk_contract import DiskContract, Stage, whole

SEEDS = range(200)


class TestContract(DiskContract):
    @pytest.fixture
    def stage(self) -> Stage:
        world = World(42)
        return Stage(SimDisk(world), world.run_until_true)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(World(42))


def write(disk: SimDisk, path: str, content: bytes) -> SimFile:
    file = disk.open(path, create=True)
    file.append((content,))
    return file


def durable(disk: SimDisk, path: str, content: bytes) -> SimFile:
    file = write(disk, path, content)
    file.sync()
    disk.sync_dir(path.rpartition("/")[0])
    return file


def contents(disk: SimDisk) -> dict[str, bytes]:
    """Every file at the root."""
    return {name: disk.read_file(name) or b"" for name in disk.list("")}


def crashes(prepare: Callable[[SimDisk], object]) -> list[dict[str, bytes]]:
    """What is left after each of many crashes by chance."""
    left = []
    for seed in SEEDS:
        disk = SimDisk(World(seed))
        prepare(disk)
        left.append(contents(disk.crash()))
    return left


# Names.


def test_a_synced_file_vanishes_when_its_directory_was_not_synced() -> None:
    def prepare(disk: SimDisk) -> None:
        write(disk, "log", b"abc").sync()

    left = crashes(prepare)
    assert {} in left
    assert {"log": b"abc"} in left
    assert all(after in ({}, {"log": b"abc"}) for after in left)


def test_a_synced_name_with_unsynced_content_may_be_empty() -> None:
    def prepare(disk: SimDisk) -> None:
        write(disk, "log", b"abc")
        disk.sync_dir("")

    left = crashes(prepare)
    assert all("log" in after for after in left)
    assert {len(after["log"]) for after in left} == {0, 1, 2, 3}


def test_an_unsynced_rename_happens_or_not_but_never_loses_the_file() -> None:
    left = crashes(lambda disk: durable(disk, "log.swap", b"abc").rename("log"))
    assert {"log": b"abc"} in left
    assert {"log.swap": b"abc"} in left
    assert all(after in ({"log": b"abc"}, {"log.swap": b"abc"}) for after in left)


def test_a_rename_over_a_file_leaves_one_or_the_other() -> None:
    def prepare(disk: SimDisk) -> None:
        durable(disk, "log", b"old")
        durable(disk, "log.swap", b"new").rename("log")

    left = crashes(prepare)
    assert {"log": b"new"} in left
    assert {"log": b"old", "log.swap": b"new"} in left
    assert all(after["log"] in (b"old", b"new") for after in left)


def test_an_unsynced_delete_may_be_undone() -> None:
    left = crashes(lambda disk: durable(disk, "log", b"abc").delete())
    assert {} in left
    assert {"log": b"abc"} in left

    def delete_and_sync(disk: SimDisk) -> None:
        durable(disk, "log", b"abc").delete()
        disk.sync_dir("")

    assert all(after == {} for after in crashes(delete_and_sync))


def test_names_are_lost_independently_of_each_other() -> None:
    def prepare(disk: SimDisk) -> None:
        for name in ("a", "b", "c"):
            write(disk, name, b"x").sync()

    assert len({tuple(after) for after in crashes(prepare)}) == 8


@pytest.mark.parametrize(("synced", "found"), [(False, {(), ("t-0",)}), (True, {("t-0",)})])
def test_a_synced_file_vanishes_with_its_unsynced_directory(synced: bool, found: set[tuple[str]]) -> None:
    seen = set()
    for seed in SEEDS:
        disk = SimDisk(World(seed))
        disk.make_dir("t-0")
        durable(disk, "t-0/log", b"abc")
        if synced:
            disk.sync_dir("")
        after = disk.crash()
        seen.add(tuple(after.list("")))
        if after.exists("t-0"):
            assert after.read_file("t-0/log") == b"abc"
    assert seen == found


def test_a_renamed_directory_comes_back_under_one_of_its_names() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(World(seed))
        disk.make_dir("t-0")
        disk.sync_dir("")
        durable(disk, "t-0/log", b"abc")
        disk.rename_dir("t-0", "t-0.gone")
        after = disk.crash()
        (name,) = after.list("")
        assert after.read_file(f"{name}/log") == b"abc"
        found.add(name)
    assert found == {"t-0", "t-0.gone"}


def test_a_removed_tree_may_come_back_in_part() -> None:
    found = set()
    for seed in SEEDS:
        disk = SimDisk(World(seed))
        disk.make_dir("t-0")
        disk.sync_dir("")
        durable(disk, "t-0/a", b"a")
        durable(disk, "t-0/b", b"b")
        disk.remove_tree("t-0")
        found.add(tuple(disk.crash().list("t-0")))
    assert found == {(), ("a",), ("b",), ("a", "b")}


def test_a_move_between_directories_is_durable_where_it_was_synced(disk: SimDisk) -> None:
    for name in ("a", "b"):
        disk.make_dir(name)
    disk.sync_dir("")
    durable(disk, "a/log", b"abc").rename("b/log")
    disk.sync_dir("b")
    after = disk.crash(Survival.NOTHING)
    assert (after.list("a"), after.list("b")) == (["log"], ["log"])


def test_a_directory_sync_off_the_loop_covers_what_came_before_it(disk: SimDisk) -> None:
    write(disk, "before", b"x").sync()
    outcomes: list[OSError | None] = []
    disk.sync_dir_then("", outcomes.append)
    write(disk, "after", b"x").sync()
    disk.world.run_until_idle()
    assert outcomes == [None]
    assert disk.crash(Survival.NOTHING).list("") == ["before"]


def test_a_replaced_file_is_the_old_or_the_new_at_every_point_of_failure() -> None:
    def prepare(seed: int) -> SimDisk:
        disk = SimDisk(World(seed))
        disk.replace_file("small", b"old")
        return disk

    counting = prepare(1)
    before = counting.changes
    counting.replace_file("small", b"the new content")
    assert counting.changes - before == 6
    found: list[set[bytes | None]] = []
    for change in range(before, counting.changes):
        found.append(set())
        for seed in SEEDS:
            disk = prepare(seed)
            disk.lose_power_at(change)
            with pytest.raises(PowerLost):
                disk.replace_file("small", b"the new content")
            found[-1].add(disk.crash().read_file("small"))
    # Only the last step left, the sync of the directory, is there anything to choose from.
    assert found == [{b"old"}] * 5 + [{b"old", b"the new content"}]
    assert contents(counting.crash(Survival.NOTHING)) == {"small": b"the new content"}


def test_a_file_replaced_without_sync_may_be_anything(disk: SimDisk) -> None:
    def prepare(disk: SimDisk) -> None:
        disk.replace_file("small", b"old")
        disk.replace_file("small", b"the new content", sync=False)

    left = [after["small"] for after in crashes(prepare)]
    assert {b"old", b"the new content", b""} <= set(left)


# Crashes and kills.


def test_the_modes_of_a_crash() -> None:
    def prepare() -> SimDisk:
        disk = SimDisk(World(1))
        durable(disk, "log", b"synced").append((b" and not",))
        write(disk, "new", b"x")
        return disk

    assert contents(prepare().crash(Survival.NOTHING)) == {"log": b"synced"}
    assert contents(prepare().crash(Survival.EVERYTHING)) == {"log": b"synced and not", "new": b"x"}


def test_a_crash_leaves_nothing_unsynced_behind(disk: SimDisk) -> None:
    write(disk, "log", b"abc")
    after = disk.crash(Survival.EVERYTHING).crash(Survival.NOTHING)
    assert contents(after) == {"log": b"abc"}


def test_a_killed_process_loses_nothing_and_has_made_nothing_durable(disk: SimDisk) -> None:
    old = write(disk, "log", b"abc")
    after = disk.kill()
    assert contents(after) == {"log": b"abc"}
    with pytest.raises(PowerLost):
        old.append((b"x",))
    assert contents(after.crash(Survival.NOTHING)) == {}


def test_a_crash_ends_handles_and_callbacks(disk: SimDisk) -> None:
    file = durable(disk, "log", b"abc")
    calls: list[object] = []
    file.sync_then(calls.append)
    file.warm_then(0, 3, lambda: calls.append("warm"))
    disk.sync_dir_then("", calls.append)
    disk.crash()
    disk.world.run_until_idle()
    assert calls == []
    for use in (
        lambda: file.read(0, 1),
        lambda: file.append((b"x",)),
        lambda: file.truncate(0),
        lambda: file.is_warm(0, 1),
        file.sync,
        file.delete,
        file.close,
        lambda: file.rename("other"),
        lambda: file.sync_then(calls.append),
        lambda: file.warm_then(0, 1, lambda: None),
        lambda: disk.open("log"),
        lambda: disk.list(""),
        lambda: disk.exists("log"),
        lambda: disk.replace_file("small", b""),
        lambda: disk.read_file("log"),
        lambda: disk.make_dir("d"),
        lambda: disk.rename_dir("a", "b"),
        lambda: disk.remove_tree("a"),
        lambda: disk.sync_dir(""),
        lambda: disk.sync_dir_then("", calls.append),
        disk.free_bytes,
        disk.total_bytes,
    ):
        with pytest.raises(PowerLost):
            use()


def test_a_crash_in_the_middle_of_callbacks_ends_the_others(disk: SimDisk) -> None:
    file = durable(disk, "log", b"abc")
    file.sync_then(lambda error: None)
    calls: list[object] = []
    file.sync_then(lambda error: calls.append(disk.crash()))
    file.sync_then(calls.append)
    disk.world.run_until_idle()
    assert len(calls) == 1


def test_everything_is_cold_after_a_crash_and_warmed_by_reading(disk: SimDisk) -> None:
    durable(disk, "log", bytes(10_000))
    file = disk.crash().open("log")
    assert not file.is_warm(0, 10_000)
    file.read(5000, 10)
    assert file.is_warm(5000, 100)
    assert not file.is_warm(0, 5000)


def test_pages_leave_the_cache_when_told(disk: SimDisk) -> None:
    file = durable(disk, "log", bytes(10_000))
    assert file.is_warm(0, 10_000)
    disk.evict()
    assert not file.is_warm(0, 1)
    assert whole(file) == bytes(10_000)


def test_power_can_fail_at_every_change() -> None:
    def work(disk: SimDisk) -> None:
        disk.make_dir("d")
        file = disk.open("d/log", create=True)
        file.append((b"abc",))
        file.truncate(2)
        file.sync()
        file.rename("d/renamed")
        disk.sync_dir("d")
        disk.sync_dir("")
        file.delete()

    counting = SimDisk(World(1))
    work(counting)
    assert counting.changes == 9
    for change in range(counting.changes):
        disk = SimDisk(World(1))
        disk.lose_power_at(change)
        with pytest.raises(PowerLost):
            work(disk)
        assert disk.changes == change
        after = disk.crash(Survival.NOTHING)
        assert after.exists("d/renamed") == (change == 8)


def test_the_same_seed_crashes_the_same_way() -> None:
    def history(seed: int) -> tuple[str, dict[str, bytes]]:
        world = World(seed)
        disk = SimDisk(world)
        for turn in range(5):
            for number in range(10):
                file = disk.open(f"log{number}", create=True)
                file.append((bytes([65 + turn]) * world.random.randrange(20_000),))
                file.sync_then(lambda error: None)
            world.run_until(world.mono_us() + 1000)
            disk = disk.crash()
        return world.trace_hash(), contents(disk)

    assert [history(seed) for seed in range(5)] == [history(seed) for seed in range(5)]
    assert len({history(seed)[0] for seed in range(5)}) == 5


# Faults.


def test_an_acknowledged_sync_is_durable_and_an_appended_tail_is_not(disk: SimDisk) -> None:
    file = disk.open("log", create=True)
    disk.sync_dir("")
    file.append((b"before ",))
    synced: list[OSError | None] = []
    file.sync_then(synced.append)
    file.append((b"after",))
    disk.world.run_until_true(lambda: bool(synced))
    assert disk.crash(Survival.NOTHING).read_file("log") == b"before "


def test_a_failed_sync_fails_everyone_behind_it_for_good(disk: SimDisk) -> None:
    file = durable(disk, "log", b"abc")
    other = durable(disk, "other", b"abc")
    disk.fail(Operation.SYNC, nth=2)
    outcomes: list[OSError | None] = []
    for use in (file, other, other, file):
        use.append((b"x",))
        use.sync_then(outcomes.append)
    disk.world.run_until_idle()
    assert [outcome and outcome.errno for outcome in outcomes].count(None) == 2
    assert [outcome.errno for outcome in outcomes if outcome] == [errno.EIO, errno.EIO]
    other.append((b"y",))
    with pytest.raises(StorageError, match="other: Input/output error"):
        other.sync()
    other.sync_then(outcomes.append)
    disk.world.run_until_idle()
    assert isinstance(outcomes[-1], OSError)
    file.sync()


def test_what_a_failed_sync_lost_stays_lost_though_the_cache_shows_it() -> None:
    left = set()
    for seed in SEEDS:
        disk = SimDisk(World(seed))
        file = durable(disk, "log", b"abc")
        file.append((b"defgh",))
        disk.fail(Operation.SYNC)
        with pytest.raises(StorageError):
            file.sync()
        assert whole(file) == b"abcdefgh"
        again = disk.open("log")  # As a process would that was killed and came back without recovering.
        again.sync()
        left.add(disk.crash(Survival.EVERYTHING).read_file("log"))
    assert b"abcdefgh" in left
    assert b"abc\0\0\0\0\0" in left


def test_faults_are_counted_by_kind_and_path(disk: SimDisk) -> None:
    disk.fail(Operation.APPEND, nth=2, path_end=".index", error=errno.ENOSPC)
    disk.fail(Operation.READ, error=errno.EIO)
    log, index = disk.open("a.log", create=True), disk.open("a.index", create=True)
    index.append((b"1",))
    log.append((b"1",))
    log.append((b"2",))
    with pytest.raises(DiskFull, match=r"a\.index"):
        index.append((b"2",))
    with pytest.raises(StorageError, match=r"a\.log"):
        whole(log)
    index.append((b"2",))
    assert (whole(log), whole(index)) == (b"12", b"12")
    assert disk.counts[Operation.APPEND] == 5
    for operation, use in (
        (Operation.SYNC_DIR, lambda: disk.sync_dir("")),
        (Operation.CREATE, lambda: disk.open("new", create=True)),
        (Operation.CREATE, lambda: disk.make_dir("new")),
        (Operation.TRUNCATE, lambda: log.truncate(0)),
        (Operation.RENAME, lambda: log.rename("b.log")),
        (Operation.DELETE, log.delete),
    ):
        disk.fail(operation)
        with pytest.raises(StorageError):
            use()
    assert contents(disk) == {"a.log": b"12", "a.index": b"12"}


def test_each_fault_counts_for_itself(disk: SimDisk) -> None:
    for nth in (2, 3):
        disk.fail(Operation.APPEND, nth=nth)
    file = disk.open("log", create=True)
    outcomes = []
    for _ in range(5):
        try:
            file.append((b"x",))
            outcomes.append("kept")
        except StorageError:
            outcomes.append("failed")
    assert outcomes == ["kept", "failed", "failed", "kept", "kept"]


def test_a_failed_directory_sync_leaves_its_names_to_chance(disk: SimDisk) -> None:
    write(disk, "log", b"abc").sync()
    disk.fail(Operation.SYNC_DIR)
    outcomes: list[OSError | None] = []
    disk.sync_dir_then("", outcomes.append)
    disk.world.run_until_idle()
    assert [outcome and outcome.errno for outcome in outcomes] == [errno.EIO]
    assert contents(disk.crash(Survival.NOTHING)) == {}


def test_a_full_disk_keeps_nothing_of_an_append_and_recovers() -> None:
    disk = SimDisk(World(1), capacity_bytes=1000)
    first, second = write(disk, "first", bytes(400)), write(disk, "second", bytes(400))
    assert (disk.free_bytes(), disk.total_bytes()) == (200, 1000)
    with pytest.raises(DiskFull, match="second: No space left on device"):
        second.append((bytes(100), bytes(101)))
    assert (second.size, disk.free_bytes()) == (400, 200)
    disk.replace_file("small", b"old")
    with pytest.raises(DiskFull, match="small"):
        disk.replace_file("small", bytes(500))
    assert contents(disk) == {"first": bytes(400), "second": bytes(400), "small": b"old"}
    first.delete()
    second.append((bytes(201),))
    assert second.size == 601
    assert disk.crash().capacity_bytes == 1000


def test_two_writers_of_one_file_are_a_bug(disk: SimDisk) -> None:
    one, other = disk.open("log", create=True), disk.open("log", create=True)
    one.append((b"x",))
    with pytest.raises(AssertionError, match="two writers"):
        other.append((b"y",))


# For exhaustive tests.


def test_a_copy_is_a_disk_of_its_own(disk: SimDisk) -> None:
    file = durable(disk, "log", b"synced")
    file.append((b" and not",))
    copied = disk.copy()
    copied.open("log").append((b" copied",))
    assert whole(file) == b"synced and not"
    assert contents(copied) == {"log": b"synced and not copied"}
    assert contents(copied.crash(Survival.NOTHING)) == {"log": b"synced"}
    file.append((b" and on",))


def test_a_file_is_cut_at_every_byte(disk: SimDisk) -> None:
    write(disk, "log", b"0123456789")
    base = disk.crash(Survival.EVERYTHING)
    for size in range(11):
        torn = base.copy()
        torn.cut("log", size)
        assert contents(torn) == {"log": b"0123456789"[:size]}
        assert contents(torn.crash(Survival.NOTHING)) == {"log": b"0123456789"[:size]}


def test_a_file_rots_in_the_middle(disk: SimDisk) -> None:
    durable(disk, "log", b"0123456789")
    disk.overwrite("log", 3, b"xyz")
    assert contents(disk) == {"log": b"012xyz6789"}
    assert contents(disk.crash(Survival.NOTHING)) == {"log": b"012xyz6789"}
