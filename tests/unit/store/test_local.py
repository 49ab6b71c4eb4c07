import pytest

from headrace.errors import DiskFull, HeadraceError, StorageError
from headrace.sim.disk import Operation, SimDisk, Survival
from headrace.sim.world import World
from headrace.store.local import ABSENT, JOURNAL, Check, Delete, LocalStore, Put, StoreConflict, Versioned
from headrace.store.local import Operation as StoreOperation


class Stage:
    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk(World(1))
        self.store = LocalStore(self.disk)

    def multi(self, *operations: StoreOperation) -> HeadraceError | None:
        done: list[HeadraceError | None] = []
        self.store.multi_then(operations, done.append)
        self.disk.world.run_until_true(lambda: bool(done))
        return done[0]

    def content(self) -> dict[str, str]:
        return dict(self.store.children(""))


def test_what_is_put_is_read_and_counted() -> None:
    stage = Stage()
    assert stage.store.read("a") is None
    assert stage.multi(Put("a", "1")) is None
    assert stage.store.read("a") == Versioned("1", 0)
    assert stage.multi(Put("a", "2")) is None
    assert stage.store.read("a") == Versioned("2", 1)
    assert stage.multi(Delete("a"), Delete("never")) is None
    assert stage.store.read("a") is None
    assert stage.multi(Put("a", "3")) is None
    assert stage.store.read("a") == Versioned("3", 0)


def test_children_are_those_below_a_prefix() -> None:
    stage = Stage()
    stage.multi(Put("topics/a", "1"), Put("topics/b", "2"), Put("topic", "3"))
    assert list(stage.store.children("topics/")) == [("a", "1"), ("b", "2")]


def test_a_multi_happens_whole_or_not_at_all() -> None:
    stage = Stage()
    stage.multi(Put("a", "1"))
    error = stage.multi(Put("b", "2"), Check("a", 5), Delete("a"))
    assert isinstance(error, StoreConflict)
    assert stage.content() == {"a": "1"}
    assert isinstance(stage.multi(Check("a", ABSENT), Put("a", "2")), StoreConflict)
    assert isinstance(stage.multi(Check("b", 0), Put("a", "2")), StoreConflict)
    assert stage.multi(Check("b", ABSENT), Check("a", 0), Put("a", "2")) is None


def test_a_multi_is_checked_against_those_before_it_that_are_not_durable_yet() -> None:
    stage = Stage()
    outcomes: list[HeadraceError | None] = []
    for value in ("first", "second"):
        stage.store.multi_then([Check("a", ABSENT), Put("a", value)], outcomes.append)
    stage.disk.world.run_until_idle()
    assert isinstance(outcomes[0], StoreConflict)
    assert outcomes[1] is None
    assert stage.content() == {"a": "first"}


def test_what_was_told_durable_survives_and_nothing_is_half_there() -> None:
    for seed in range(30):
        stage = Stage(SimDisk(World(seed)))
        told: list[HeadraceError | None] = []
        for number in range(20):
            stage.store.multi_then([Put("a", str(number)), Put("b", str(number))], told.append)
            if number % 3 == 0:
                stage.disk.world.step()
        found = Stage(stage.disk.crash()).content()
        assert found.get("a") == found.get("b")
        # They are told in order.
        assert int(found.get("a", "-1")) >= len(told) - 1


LINES: list[list[Put | Delete]] = [
    [Put("a", "1")],
    [Put("b", "ü\n"), Put("c", "")],
    [Delete("a")],
    [Put("b", "2"), Delete("c")],
]


def written() -> tuple[Stage, list[dict[str, str]], list[int]]:
    """A journal, and what the store held after each of its lines."""
    stage = Stage()
    states: list[dict[str, str]] = [{}]
    sizes = [stage.disk.open(JOURNAL).size]
    for operations in LINES:
        stage.multi(*operations)
        states.append(stage.content())
        sizes.append(stage.disk.open(JOURNAL).size)
    return stage, states, sizes


def test_a_journal_cut_at_any_byte_is_the_state_after_its_last_whole_line() -> None:
    stage, states, sizes = written()
    for size in range(sizes[-1] + 1):
        disk = stage.disk.copy()
        disk.cut(JOURNAL, size)
        found = Stage(disk)
        expected = states[max((number for number, end in enumerate(sizes) if end <= size), default=0)]
        assert found.content() == expected
        # And it goes on from there.
        assert found.multi(Put("later", "x")) is None
        assert Stage(found.disk.crash(Survival.NOTHING)).content() == {**expected, "later": "x"}


@pytest.mark.parametrize("tail", [b"\0", bytes(500), b"garbage\n", b"00000000 []\n", b"\xff\xfe\n\n"])
def test_whatever_stands_behind_the_last_line_is_cut(tail: bytes) -> None:
    stage, states, sizes = written()
    stage.disk.open(JOURNAL).append((tail,))
    found = Stage(stage.disk)
    assert found.content() == states[-1]
    assert found.disk.open(JOURNAL).size == sizes[-1]
    assert found.multi(Put("later", "x")) is None
    assert Stage(found.disk.kill()).content() == {**states[-1], "later": "x"}


def test_a_flipped_bit_costs_its_line_alone() -> None:
    stage, _, sizes = written()
    content = stage.disk.read_file(JOURNAL) or b""
    for byte in range(len(content)):
        disk = stage.disk.copy()
        disk.overwrite(JOURNAL, byte, bytes([content[byte] ^ 0x04]))
        hit = next(number for number, end in enumerate(sizes) if byte < end)
        # The end of a line is also the beginning of the next, which goes with it.
        gone = {hit, hit + 1} if byte == sizes[hit] - 1 else {hit}
        expected: dict[str, str] = {}
        for number, operations in enumerate(LINES, 1):
            if number not in gone:
                for operation in operations:
                    if isinstance(operation, Put):
                        expected[operation.path] = operation.value
                    else:
                        expected.pop(operation.path, None)
        found = Stage(disk)
        assert found.content() == expected
        assert found.store.bad_bytes > 0
        again = Stage(found.disk.kill())
        assert (again.content(), again.store.bad_bytes) == (expected, 0)


def test_a_journal_much_longer_than_its_content_is_written_anew() -> None:
    stage = Stage()
    for number in range(1500):
        stage.store.multi_then([Put("a", str(number) * 20)], lambda error: None)
    stage.multi(Put("b", "1"))
    before = stage.content()
    long = stage.disk.open(JOURNAL).size
    found = Stage(stage.disk.kill())
    assert found.content() == before
    assert found.disk.open(JOURNAL).size < long / 4
    assert Stage(found.disk.crash(Survival.NOTHING)).content() == before


def test_a_long_journal_is_opened_on_a_full_disk() -> None:
    stage = Stage()
    for number in range(1500):
        stage.store.multi_then([Put("a", str(number) * 20)], lambda error: None)
    stage.multi(Put("b", "1"))
    size = stage.disk.open(JOURNAL).size
    stage.disk.capacity_bytes = 0
    found = Stage(stage.disk.kill())
    assert found.content() == stage.content()
    assert found.disk.open(JOURNAL).size == size


def test_a_full_disk_refuses_and_takes_it_later() -> None:
    stage = Stage()
    stage.multi(Put("a", "1"))
    stage.disk.capacity_bytes = 0
    assert isinstance(stage.multi(Put("a", "2")), DiskFull)
    assert stage.content() == {"a": "1"}
    stage.disk.capacity_bytes = None
    assert stage.multi(Put("a", "3")) is None
    assert Stage(stage.disk.crash(Survival.NOTHING)).content() == {"a": "3"}


def test_what_a_failed_sync_lost_does_not_take_with_it_what_a_successor_writes() -> None:
    for seed in range(20):
        stage = Stage(SimDisk(World(seed)))
        assert stage.multi(Put("a", "1")) is None
        stage.disk.fail(Operation.SYNC)
        assert isinstance(stage.multi(Put("b", "x" * 20_000)), StorageError)
        found = Stage(stage.disk.kill())
        assert found.multi(Put("c", "3")) is None
        assert Stage(found.disk.crash()).content().items() >= {"a": "1", "c": "3"}.items()


def test_after_a_failed_sync_nothing_is_ever_told_durable() -> None:
    stage = Stage()
    stage.disk.fail(Operation.SYNC)
    outcomes: list[HeadraceError | None] = []
    for number in range(3):
        stage.store.multi_then([Put("a", str(number))], outcomes.append)
    stage.disk.world.run_until_idle()
    assert len(outcomes) == 3
    assert all(isinstance(outcome, StorageError) for outcome in outcomes)
    assert isinstance(stage.multi(Put("b", "1")), StorageError)
