"""A compacted topic through every disaster: seeds, and bugs planted into the real code that they must find.

python -m headrace.sim.compacted 4711    runs a seed and says what happened
"""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import CorruptBatch
from headrace.sim.compacted import CompactedRun, run_seed
from headrace.storage import compaction, loading
from headrace.storage.key_map import KeyMap
from headrace.storage.segment import Segment
from headrace.storage.swapping import Swap

SEEDS = range(40)
SEEDS_MAX = 60

Plant = Callable[[Any, str, Any], None]
BUGS: dict[str, Callable[[Plant], None]] = {}


def bug(plant: Callable[[Plant], None]) -> None:
    BUGS[plant.__name__] = plant


def test_nothing_is_lost_nor_brought_back() -> None:
    outcomes = [run_seed(seed) for seed in SEEDS]
    assert [str(outcome) for outcome in outcomes if outcome.anomalies] == []
    assert sum(outcome.cleanings for outcome in outcomes) > 5 * len(outcomes)
    assert all(outcome.records_left < outcome.batches for outcome in outcomes if outcome.starts < 3)


def test_a_seed_is_a_history() -> None:
    assert run_seed(7) == run_seed(7)
    assert run_seed(7).trace_hash != run_seed(8).trace_hash


def test_without_faults_it_is_compacted_to_little() -> None:
    outcome = CompactedRun(3, faults=0).run()
    assert outcome.anomalies == ()
    assert outcome.starts <= 2
    assert outcome.records_left < 60


@bug
def forget_to_finish_a_swap(plant: Plant) -> None:
    def throw_away(disk: Any, directory: str) -> None:
        for name in disk.list(directory):
            if name.endswith(".swap"):
                disk.open(f"{directory}/{name}").delete()

    plant(loading, "finish_swaps", throw_away)


@bug
def swap_before_the_segment_is_on_disk(plant: Plant) -> None:
    def finish(self: Any) -> int:
        size: int = self._flush()
        self._target.seal()
        self._target.write_indexes()
        return size

    plant(compaction._Writer, "finish", finish)


@bug
def rename_without_syncing_the_directory(plant: Plant) -> None:
    def step(self: Swap, rename: Callable[[], object], then: Callable[[], None]) -> None:
        rename()
        then()

    plant(Swap, "_step", step)


@bug
def keep_the_first_record_of_a_key(plant: Plant) -> None:
    put = KeyMap.put

    def put_once(self: KeyMap, *batch: Any) -> bool:
        known = dict(self._last)
        had_room = put(self, *batch)
        self._last.update(known)
        return had_room

    plant(KeyMap, "put", put_once)


@bug
def drop_tombstones_at_once(plant: Plant) -> None:
    plant(compaction._Tombstones, "may_go", lambda self, header: True)


@bug
def leave_the_old_index_to_the_new_segment(plant: Plant) -> None:
    rename = Segment.rename

    def rename_log_alone(self: Segment, suffix: str, **how: Any) -> Any:
        if suffix == ".deleted":
            self.log.rename(self.log.path + suffix)
            return [self.log]
        if suffix == "":
            self.log.rename(self.log.path.removesuffix(".swap"))
            self._suffix = suffix
            return [self.log]
        return rename(self, suffix, **how)

    plant(Segment, "rename", rename_log_alone)


@bug
def leave_nothing_of_a_batch_that_ends_a_segment(plant: Plant) -> None:
    plant(compaction, "_emptied", lambda header: (None, b""))


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](lambda owner, attribute, value: monkeypatch.setattr(owner, attribute, value))
    for seed in range(SEEDS_MAX):
        try:
            if run_seed(seed).anomalies:
                return
        except (AssertionError, CorruptBatch):  # With which the node itself gives up.
            return
    pytest.fail(f"{name} was not found in {SEEDS_MAX} seeds")
