"""A node compacts its logs: which, when, and whatever happens to them meanwhile."""

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.node.node import Node
from headrace.protocol.batch import whole_batches
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.sim.cleaner import SimCleaner
from headrace.sim.disk import Operation, Survival
from headrace.storage.log import PartitionLog
from tests.unit.node.driven_node import DrivenNode

SECOND_US = 1_000_000
SEGMENT: dict[str, Any] = {"internal_segment_bytes": "500", "min_cleanable_dirty_ratio": "0.01"}


class CompactingNode(DrivenNode):
    def __init__(self, **settings: str) -> None:
        given = {"log.cleaner.backoff.ms": "1000"} | {key.replace("_", "."): text for key, text in settings.items()}
        super().__init__(settings=given)

    def make_node(self, **ports: Any) -> Node:
        return super().make_node(**ports, cleaner=SimCleaner(self.disk))

    def update(self, topic: str, count: int, *, keys: int = 3, partition: int = 0) -> None:
        for number in range(count):
            self.put(topic, b"%d" % (number % keys), b"%d" % number, partition=partition)

    def put(self, topic: str, key: bytes, value: bytes | None, *, partition: int = 0) -> None:
        batch = encode_batch([Record(key, value, timestamp_ms=self.clock.wall_ms())])
        partitions = [{"index": partition, "records": batch}]
        body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": topic, "partition_data": partitions}]}
        (written,) = self.ask("Produce", 9, **body)["responses"][0]["partition_responses"]
        assert written["error_code"] == 0, written

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        return self.node.topics.partition(topic, partition).log

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        log, found = self.log(topic, partition), []
        offset = log.start_offset
        while (span := log.read(offset, bytes_max=1 << 20, at_least_one=True)) is not None:
            data = span[0].read(*span[1:])
            for position, header in whole_batches(data):
                found += decode_records(data[position : position + header.size_bytes])
                offset = header.last_offset + 1
        return found

    def wait(self, seconds: float = 3.0) -> None:
        self.world.run_until(self.world.mono_us() + int(seconds * SECOND_US))

    def told_of(self, event: str) -> list[Mapping[str, object]]:
        return [fields for name, fields in self.told.events if name == event]


def latest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def test_a_compacted_topic_is_compacted_and_another_is_not() -> None:
    driven = CompactingNode()
    driven.create("kept", **SEGMENT)
    driven.create("compacted", cleanup_policy="compact", **SEGMENT)
    for topic in ("kept", "compacted"):
        driven.update(topic, 60)
    driven.wait()
    assert len(driven.records("kept")) == 60
    assert len(driven.records("compacted")) < 20
    assert latest(driven.records("compacted")) == {b"0": b"57", b"1": b"58", b"2": b"59"}
    assert driven.node.compaction is not None
    statistics = driven.node.compaction.statistics()
    assert statistics.cleanings >= 1
    assert statistics.bytes_written < statistics.bytes_read
    assert statistics.running is None


def test_it_is_written_down_how_far_and_not_done_twice() -> None:
    driven = CompactingNode()
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    driven.wait()
    done = len(driven.told_of("log cleaned"))
    active_base = driven.log("t").segments[-1].base_offset
    assert driven.disk.read_file("cleaner-offset-checkpoint") == b"0\n1\nt 0 %d\n" % active_base
    driven.wait(30)
    driven.restart()
    driven.wait(30)
    assert len(driven.told_of("log cleaned")) == done
    assert latest(driven.records("t")) == {b"0": b"57", b"1": b"58", b"2": b"59"}


def test_the_filthiest_comes_first() -> None:
    driven = CompactingNode()
    for topic in ("cleaner", "filthy"):
        driven.create(topic, cleanup_policy="compact", **SEGMENT)
    driven.update("cleaner", 60)
    driven.wait()
    driven.told.events.clear()
    driven.update("cleaner", 12)
    driven.update("filthy", 60)
    driven.wait()
    assert str(driven.told_of("log cleaned")[0]["partition"]) == "filthy-0"


def test_a_log_that_is_hardly_dirty_waits() -> None:
    driven = CompactingNode()
    driven.create("t", cleanup_policy="compact", internal_segment_bytes="500", min_cleanable_dirty_ratio="0.9")
    driven.update("t", 200, keys=200)
    driven.wait()
    driven.update("t", 20)
    driven.wait()
    assert len(driven.told_of("log cleaned")) == 1


def test_records_stay_as_long_as_they_are_young() -> None:
    driven = CompactingNode()
    driven.create("t", cleanup_policy="compact", min_compaction_lag_ms="60000", **SEGMENT)
    driven.update("t", 60)
    driven.wait(30)
    driven.restart()
    driven.wait(25)
    assert len(driven.records("t")) == 60
    driven.wait(10)
    assert len(driven.records("t")) < 20
    assert latest(driven.records("t")) == {b"0": b"57", b"1": b"58", b"2": b"59"}


def test_a_log_that_is_hardly_dirty_does_not_wait_for_ever() -> None:
    driven = CompactingNode()
    settings = {"min_cleanable_dirty_ratio": "0.9", "max_compaction_lag_ms": "60000"}
    driven.create("t", cleanup_policy="compact", internal_segment_bytes="500", **settings)
    driven.update("t", 200, keys=200)
    driven.wait()
    driven.update("t", 20)
    before = driven.records("t")
    driven.wait(55)
    assert driven.records("t") == before
    driven.wait(10)
    assert len(driven.told_of("log cleaned")) == 2
    assert len(driven.records("t")) < len(before)
    assert latest(driven.records("t")) == latest(before)


def test_it_can_be_switched_off() -> None:
    driven = CompactingNode(log_cleaner_enable="false")
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    driven.wait()
    assert len(driven.records("t")) == 60


def test_both_policies_at_once() -> None:
    driven = CompactingNode(log_retention_check_interval_ms="1000")
    driven.create("t", cleanup_policy="compact,delete", retention_ms=str(10**12), **SEGMENT)
    driven.update("t", 60)
    driven.wait()
    assert len(driven.records("t")) < 20
    driven.clock.move_wall_ms(2 * 10**12)
    driven.wait(5)
    assert driven.records("t") == []
    assert driven.log("t").start_offset == 60


def test_a_topic_may_be_deleted_meanwhile_and_made_again() -> None:
    driven = CompactingNode()
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    assert driven.node.compaction is not None
    driven.world.run_until_true(lambda: driven.node.compaction.statistics().running is not None)  # type: ignore[union-attr]
    driven.ask("DeleteTopics", 6, topics=[{"name": "t", "topic_id": bytes(16)}], timeout_ms=1000)
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    driven.wait()
    assert latest(driven.records("t")) == {b"0": b"57", b"1": b"58", b"2": b"59"}
    assert len(driven.records("t")) < 20
    assert driven.node.compaction.statistics().running is None


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_records_may_be_deleted_meanwhile(steps: int) -> None:
    driven = CompactingNode(log_segment_delete_delay_ms="0")
    driven.create("t", cleanup_policy="compact,delete", retention_ms="-1", **SEGMENT)
    driven.update("t", 60)
    compaction = driven.node.compaction
    assert compaction is not None
    driven.world.run_until_true(lambda: compaction.statistics().running is not None)
    for _ in range(steps):
        driven.world.step()
    partition = {"partition_index": 0, "offset": 30}
    driven.ask("DeleteRecords", 2, topics=[{"name": "t", "partitions": [partition]}], timeout_ms=1000)
    driven.wait()
    assert driven.log("t").start_offset == 30
    assert latest(driven.records("t")) == {b"0": b"57", b"1": b"58", b"2": b"59"}
    driven.crash()
    assert driven.log("t").start_offset == 30
    driven.wait()
    assert {b"0", b"1", b"2"} >= set(latest(driven.records("t")))


def test_a_full_disk_is_no_reason_to_give_up() -> None:
    driven = CompactingNode()
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    driven.disk.capacity_bytes = 1 << 30
    driven.disk.capacity_bytes -= driven.disk.free_bytes()
    driven.wait()
    assert driven.told_of("log not cleaned")
    assert len(driven.records("t")) == 60
    assert not [name for name in driven.disk.list("t-0") if name.endswith(".cleaned")]
    driven.disk.capacity_bytes = None
    driven.wait()
    assert len(driven.records("t")) < 20


def test_a_log_that_cannot_be_read_is_left_alone_and_the_others_are_not() -> None:
    driven = CompactingNode()
    for topic in ("bad", "good"):
        driven.create(topic, cleanup_policy="compact", **SEGMENT)
        driven.update(topic, 60)
    path = driven.log("bad").segments[0].log.path
    content = driven.disk.read_file(path)
    assert content is not None
    log = driven.disk.tree.find(path)
    log._live[100] ^= 0xFF  # type: ignore[union-attr]
    driven.wait(10)
    assert len(driven.told_of("log uncleanable")) == 1
    assert len(driven.records("good")) < 20
    assert driven.node.compaction is not None
    assert driven.node.compaction.statistics().uncleanable == 1


def test_a_failing_swap_takes_one_log_offline_and_the_others_are_compacted() -> None:
    driven = CompactingNode()
    for topic in ("bad", "good"):
        driven.create(topic, cleanup_policy="compact", **SEGMENT)
        driven.update(topic, 60)
    driven.disk.fail(Operation.SYNC_DIR, path_end="bad-0")
    driven.wait()
    assert driven.log("bad").offline is not None
    assert len(driven.records("good")) < 20
    driven.crash(Survival.EVERYTHING)
    driven.wait()
    assert latest(driven.records("bad")) == {b"0": b"57", b"1": b"58", b"2": b"59"}


def test_what_a_crash_left_to_be_read_again_is_compacted_without_another_write() -> None:
    driven = CompactingNode(log_flush_offset_checkpoint_interval_ms="100000000")
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    driven.crash(Survival.EVERYTHING)
    driven.wait(5)
    assert len(driven.records("t")) < 20


def test_readers_of_what_is_replaced_finish() -> None:
    driven = CompactingNode(log_segment_delete_delay_ms="60000")
    driven.create("t", cleanup_policy="compact", **SEGMENT)
    driven.update("t", 60)
    span = driven.log("t").read(0, bytes_max=1 << 20, at_least_one=True)
    assert span is not None
    before = span[0].read(*span[1:])
    driven.wait()
    assert span[0].read(*span[1:]) == before
    assert [name for name in driven.disk.list("t-0") if name.endswith(".deleted")]
    driven.wait(120)
    assert not [name for name in driven.disk.list("t-0") if name.endswith(".deleted")]
