"""Bugs planted into the real code, each of which the checker must find, from outside, within so many seeds.

A simulation that finds nothing proves something only if it would find what is there. Most of these were in the code
once, or in somebody else's.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.node import node as node_module
from headrace.node.later import resolved
from headrace.node.node import Node
from headrace.node.topics import DELETING
from headrace.sim.crashes import run_seed
from headrace.sim.disk import SimFile
from headrace.storage import loading
from headrace.storage.data_directory import DataDirectory
from headrace.storage.flushing import Flusher
from headrace.storage.log import PartitionLog
from headrace.storage.producers import Producers
from headrace.store.local import Delete, LocalStore

SEEDS_MAX = 40

Plant = Callable[[Any, str, Any], None]
BUGS: dict[str, tuple[Callable[[Plant], None], int]] = {}


def bug(*, first_seed: int = 0) -> Callable[[Callable[[Plant], None]], None]:
    """`first_seed` is where to begin: some bugs show in few seeds, and it need not take long to get there."""

    def register(plant: Callable[[Plant], None]) -> None:
        BUGS[plant.__name__] = (plant, first_seed)

    return register


def nothing(*arguments: object, **named: object) -> None:
    pass


# Flushing.


@bug()
def acknowledge_before_the_sync_finishes(plant: Plant) -> None:
    flush_then = Flusher.flush_then

    def acknowledge_at_once(self: Flusher, end_offset: int, done: Any) -> None:
        flush_then(self, end_offset, nothing)
        done(None)

    plant(Flusher, "flush_then", acknowledge_at_once)


@bug()
def capture_the_end_after_the_sync(plant: Plant) -> None:
    finish = Flusher._finish
    plant(Flusher, "_finish", lambda self, captured, failure: finish(self, self._log.end_place(), failure))


@bug()
def skip_the_directory_sync_on_roll(plant: Plant) -> None:
    sync_targets = PartitionLog.sync_targets

    def without_directories(self: PartitionLog) -> Any:
        if len(self.segments) > 1:
            self._dirty_directories.clear()
        return sync_targets(self)

    plant(PartitionLog, "sync_targets", without_directories)


@bug(first_seed=10)
def acknowledge_a_failed_sync(plant: Plant) -> None:
    finish = Flusher._finish
    plant(Flusher, "_finish", lambda self, captured, failure: finish(self, captured, None))


@bug()
def take_what_a_crash_left_for_flushed(plant: Plant) -> None:
    initialise = PartitionLog.__init__

    def all_flushed(self: PartitionLog, *arguments: Any, **named: Any) -> None:
        initialise(self, *arguments, **{**named, "flushed_offset": named["end_offset"]})

    plant(PartitionLog, "__init__", all_flushed)


@bug(first_seed=18)
def believe_the_page_cache_after_a_failed_sync(plant: Plant) -> None:
    plant(SimFile, "evict", nothing)


# Recovery.


@bug()
def trust_an_index_that_was_never_synced(plant: Plant) -> None:
    sync_targets = PartitionLog.sync_targets

    def without_indexes(self: PartitionLog) -> Any:
        for segment in self._unsynced:
            segment.write_indexes()
        self._unsynced.clear()
        return sync_targets(self)

    plant(PartitionLog, "sync_targets", without_indexes)


@bug()
def forget_to_cut_the_torn_tail(plant: Plant) -> None:
    plant(loading, "_end_log_at", nothing)


@bug(first_seed=4)
def keep_what_stands_behind_a_gap(plant: Plant) -> None:
    end_log_at = loading._end_log_at

    def cut_only_this_segment(disk: Any, directory: str, segments: Any, index: int, position: int) -> None:
        later = segments[index + 1 :]
        end_log_at(disk, directory, segments[: index + 1], index, position)
        assert segments[index + 1 :] == later

    plant(loading, "_end_log_at", cut_only_this_segment)


@bug()
def forget_to_raise_the_leader_epoch(plant: Plant) -> None:
    open_partitions = Node._open_partitions
    plant(
        Node,
        "_open_partitions",
        lambda self, topic, placed, epoch_bump=0: open_partitions(self, topic, placed, epoch_bump=0),
    )


@bug()
def forget_the_producers_of_the_tail(plant: Plant) -> None:
    plant(loading, "_headers_since", lambda segments, offset: iter(()))


# Serving.


@bug()
def serve_beyond_the_watermark(plant: Plant) -> None:
    read = PartitionLog.read
    plant(PartitionLog, "read", lambda self, offset, **how: read(self, offset, **{**how, "to_end": True}))


@bug()
def show_before_the_flush(plant: Plant) -> None:
    take_config = PartitionLog._take_config

    def without_waiting(self: PartitionLog, config: Any) -> None:
        take_config(self, config)
        self._flush_before_expose = False

    plant(PartitionLog, "_take_config", without_waiting)


@bug()
def skip_the_sequence_check(plant: Plant) -> None:
    plant(Producers, "check", nothing)


# Topics and records.


@bug()
def acknowledge_a_topic_before_it_is_stored(plant: Plant) -> None:
    multi_then = LocalStore.multi_then

    def acknowledge_at_once(self: LocalStore, operations: Any, done: Any) -> None:
        outcomes: list[Any] = []
        multi_then(self, operations, outcomes.append)
        done(outcomes[0] if outcomes else None)

    plant(LocalStore, "multi_then", acknowledge_at_once)


@bug(first_seed=6)
def forget_a_deletion_before_the_folders_are_gone_for_good(plant: Plant) -> None:
    def free_at_once(self: Node, name: str, done: Callable[[], None]) -> None:
        self.store.multi_then([Delete(DELETING + name)], lambda error: done())

    plant(Node, "_free_name", free_at_once)


@bug()
def answer_a_deletion_of_records_before_it_is_written(plant: Plant) -> None:
    plant(DataDirectory, "checkpoint_starts", nothing)


@bug(first_seed=39)
def delete_segments_before_the_start_is_written(plant: Plant) -> None:
    delete_expired = Node.delete_expired

    def without_checkpoint(self: Node, partitions: Any = None) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DataDirectory, "checkpoint", nothing)
            delete_expired(self, partitions)

    plant(Node, "delete_expired", without_checkpoint)


@bug()
def give_out_producer_ids_that_are_not_written_down(plant: Plant) -> None:
    def next_id(self: Node) -> Any:
        self._producer_ids = self._producer_ids or range(node_module.PRODUCER_ID_BLOCK)
        return resolved(self._take_producer_id())

    plant(Node, "next_producer_id", next_id)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first_seed = BUGS[name]
    plant(monkeypatch.setattr)
    for seed in range(first_seed, first_seed + SEEDS_MAX):
        try:
            if run_seed(seed).anomalies:
                return
        except (AssertionError, HeadraceError):  # A node that cannot go on was noticed, too.
            return
    pytest.fail(f"{SEEDS_MAX} seeds saw nothing wrong with a node that does {name.replace('_', ' ')}")
