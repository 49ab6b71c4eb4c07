"""Bugs planted into the real code, each of which the checker must find, from outside, within so many seeds.

A simulation that finds nothing proves something only if it would find what is there. Most of these were in the code
once, or in somebody else's. Each names the anomalies that give it away, all of which must be seen: that something is
wrong is not enough where the promise that it breaks has another name.

So that it does not take long, a bug that needs a rare fault is looked for with a plan that is about little else, and
from a seed on that is known to be near. The long proofs know neither.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from headrace.errors import ApiError, CorruptBatch, ErrorCode, StorageError
from headrace.node import node as node_module
from headrace.node.later import resolved
from headrace.node.node import Node
from headrace.node.topics import DELETING
from headrace.protocol.batch import parse_header
from headrace.sim.checker import Kind
from headrace.sim.crashes import DURABILITIES, EVERYTHING, Plan, run_seed
from headrace.sim.disk import SimFile
from headrace.storage import loading, scan
from headrace.storage.data_directory import DataDirectory
from headrace.storage.flushing import Flusher
from headrace.storage.log import PartitionLog
from headrace.storage.producers import Producers
from headrace.store.local import Delete, LocalStore

SEEDS_MAX = 40

# How a bug shows: as an anomaly, or as an error with which the node itself gives up.
Sign = Kind | type[Exception]
Plant = Callable[[Any, str, Any], None]


class Bug(NamedTuple):
    plant: Callable[[Plant], None]
    signs: frozenset[Sign]
    plan: Plan
    first_seed: int


BUGS: dict[str, Bug] = {}


def bug(*signs: Sign, plan: Plan = EVERYTHING, first_seed: int = 0) -> Callable[[Callable[[Plant], None]], None]:
    def register(plant: Callable[[Plant], None]) -> None:
        BUGS[plant.__name__] = Bug(plant, frozenset(signs), plan, first_seed)

    return register


def only(*faults: str, topics: Sequence[str] = tuple(DURABILITIES)) -> Plan:
    return Plan(dict.fromkeys(faults, 1), topics)


def nothing(*arguments: object, **named: object) -> None:
    pass


# Flushing.


@bug(Kind.LOST_WRITE, first_seed=5)
def acknowledge_before_the_sync_finishes(plant: Plant) -> None:
    flush_then = Flusher.flush_then

    def acknowledge_at_once(self: Flusher, end_offset: int, done: Any) -> None:
        flush_then(self, end_offset, nothing)
        done(None)

    plant(Flusher, "flush_then", acknowledge_at_once)


@bug(Kind.LOST_WRITE, first_seed=2)
def capture_the_end_after_the_sync(plant: Plant) -> None:
    finish = Flusher._finish
    plant(Flusher, "_finish", lambda self, captured, failure: finish(self, self._log.end_place(), failure))


@bug(Kind.LOST_WRITE, first_seed=6)
def skip_the_directory_sync_on_roll(plant: Plant) -> None:
    sync_targets = PartitionLog.sync_targets

    def without_directories(self: PartitionLog) -> Any:
        if len(self.segments) > 1:
            self._dirty_directories.clear()
        return sync_targets(self)

    plant(PartitionLog, "sync_targets", without_directories)


@bug(Kind.LOST_WRITE, plan=only("fail sync", topics=["flushed", "both"]))
def acknowledge_a_failed_sync(plant: Plant) -> None:
    finish = Flusher._finish
    plant(Flusher, "_finish", lambda self, captured, failure: finish(self, captured, None))


@bug(Kind.LOST_WRITE, plan=only("kill", "lose power when told", topics=["flushed", "both"]), first_seed=11)
def take_what_a_crash_left_for_flushed(plant: Plant) -> None:
    initialise = PartitionLog.__init__

    def all_flushed(self: PartitionLog, *arguments: Any, **named: Any) -> None:
        initialise(self, *arguments, **{**named, "flushed_offset": named["end_offset"]})

    plant(PartitionLog, "__init__", all_flushed)


@bug(Kind.LOST_WRITE, plan=only("fail sync", "kill", topics=["flushed", "both"]), first_seed=7)
def believe_the_page_cache_after_a_failed_sync(plant: Plant) -> None:
    plant(SimFile, "evict", nothing)


# Recovery.


@bug(Kind.GAP, plan=only("lose power"), first_seed=11)
def write_the_recovery_point_ahead_of_the_sync(plant: Plant) -> None:
    plant(PartitionLog, "recovery_point", property(lambda self: self.end_offset))


@bug(Kind.DELETED_UNASKED, first_seed=1)
def trust_an_index_that_was_never_synced(plant: Plant) -> None:
    sync_targets = PartitionLog.sync_targets

    def without_indexes(self: PartitionLog) -> Any:
        for segment in self._unsynced:
            segment.write_indexes()
        self._unsynced.clear()
        return sync_targets(self)

    plant(PartitionLog, "sync_targets", without_indexes)


@bug(CorruptBatch)
def forget_to_cut_the_torn_tail(plant: Plant) -> None:
    plant(loading, "_end_log_at", nothing)


@bug(Kind.STUCK)
def refuse_to_start_where_the_tail_is_torn(plant: Plant) -> None:
    def refuse(*what: object) -> None:
        raise StorageError("the log is damaged")

    plant(loading, "_end_log_at", refuse)


@bug(Kind.TORN, plan=only("lose power"), first_seed=6)
def take_a_torn_batch_for_a_whole_one(plant: Plant) -> None:
    plant(scan, "parse_whole_batch", parse_header)


@bug(Kind.GAP, plan=only("lose power inside"), first_seed=11)
def keep_what_stands_behind_a_gap(plant: Plant) -> None:
    end_log_at = loading._end_log_at

    def cut_only_this_segment(disk: Any, directory: str, segments: Any, index: int, position: int) -> None:
        later = segments[index + 1 :]
        end_log_at(disk, directory, segments[: index + 1], index, position)
        assert segments[index + 1 :] == later

    plant(loading, "_end_log_at", cut_only_this_segment)


@bug(Kind.EPOCH_REUSED)
def forget_to_raise_the_leader_epoch(plant: Plant) -> None:
    open_partitions = Node._open_partitions
    plant(
        Node,
        "_open_partitions",
        lambda self, topic, placed, epoch_bump=0: open_partitions(self, topic, placed, epoch_bump=0),
    )


@bug(Kind.DUPLICATE, Kind.FALSE_GAP, first_seed=10)
def believe_a_snapshot_that_is_older_than_the_log(plant: Plant) -> None:
    plant(loading, "_headers_since", lambda segments, offset: iter(()))


# Serving.


@bug(Kind.BEYOND_WATERMARK)
def serve_beyond_the_watermark(plant: Plant) -> None:
    read = PartitionLog.read
    plant(PartitionLog, "read", lambda self, offset, **how: read(self, offset, **{**how, "to_end": True}))


@bug(Kind.READ_CHANGED, plan=only("lose power when told", topics=["shown", "both"]), first_seed=5)
def show_before_the_sync_finishes(plant: Plant) -> None:
    sync_targets = PartitionLog.sync_targets

    def show_at_once(self: PartitionLog) -> Any:
        if self.high_watermark < self.end_offset:
            self._show_to(self.end_place())
        return sync_targets(self)

    plant(PartitionLog, "sync_targets", show_at_once)


@bug(Kind.DUPLICATE, first_seed=4)
def skip_the_sequence_check(plant: Plant) -> None:
    plant(Producers, "check", nothing)


@bug(Kind.REORDERED, plan=only("fill disk"), first_seed=6)
def accept_a_gap_in_a_sequence(plant: Plant) -> None:
    check = Producers.check

    def check_for_retries(self: Producers, **batch: int) -> Any:
        try:
            return check(self, **batch)
        except ApiError:
            return None

    plant(Producers, "check", check_for_retries)


@bug(Kind.REFUSED, first_seed=2)
def refuse_a_retry(plant: Plant) -> None:
    check = Producers.check

    def check_without_memory(self: Producers, **batch: int) -> None:
        if check(self, **batch) is not None:
            raise ApiError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

    plant(Producers, "check", check_without_memory)


# Topics, settings and records.


@bug(Kind.TOPIC_LOST, Kind.TOPIC_IS_BACK, Kind.CONFIG_LOST, first_seed=9)
def acknowledge_topics_and_settings_before_they_are_stored(plant: Plant) -> None:
    multi_then = LocalStore.multi_then

    def acknowledge_at_once(self: LocalStore, operations: Any, done: Any) -> None:
        outcomes: list[Any] = []
        multi_then(self, operations, outcomes.append)
        done(outcomes[0] if outcomes else None)

    plant(LocalStore, "multi_then", acknowledge_at_once)


@bug(Kind.PHANTOM, first_seed=4)
def forget_a_deletion_before_the_folders_are_gone_for_good(plant: Plant) -> None:
    def free_at_once(self: Node, name: str, done: Callable[[], None]) -> None:
        self.store.multi_then([Delete(DELETING + name)], lambda error: done())

    plant(Node, "_free_name", free_at_once)


@bug(Kind.DELETED_IS_BACK)
def answer_a_deletion_of_records_before_it_is_written(plant: Plant) -> None:
    plant(DataDirectory, "checkpoint_starts", nothing)


@bug(Kind.WRONG_PLACE, plan=only("lose power inside", topics=["timed", "lazy", "flushed"]), first_seed=4)
def delete_segments_before_the_start_is_written(plant: Plant) -> None:
    delete_expired = Node.delete_expired

    def without_checkpoint(self: Node, partitions: Any = None) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DataDirectory, "checkpoint", nothing)
            delete_expired(self, partitions)

    plant(Node, "delete_expired", without_checkpoint)


@bug(Kind.PRODUCER_ID_REUSED)
def give_out_producer_ids_that_are_not_written_down(plant: Plant) -> None:
    def next_id(self: Node) -> Any:
        self._producer_ids = self._producer_ids or range(node_module.PRODUCER_ID_BLOCK)
        return resolved(self._take_producer_id())

    plant(Node, "next_producer_id", next_id)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = BUGS[name]
    found.plant(monkeypatch.setattr)
    missing = set(found.signs)
    for seed in range(found.first_seed, found.first_seed + SEEDS_MAX):
        try:
            missing -= {anomaly.kind for anomaly in run_seed(seed, found.plan).anomalies}
        except tuple(sign for sign in found.signs if isinstance(sign, type)) as error:
            missing.discard(type(error))
        if not missing:
            return
    pytest.fail(f"{SEEDS_MAX} seeds of a node that does {name.replace('_', ' ')} did not show {missing}")


def test_there_is_a_bug_for_every_promise() -> None:
    assert {sign for bug in BUGS.values() for sign in bug.signs} >= set(Kind)
