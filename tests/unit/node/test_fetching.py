"""Fetch without a session: what is given, what is waited for, and who must not wait."""

from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.sim.disk import Operation
from tests.unit.node.driven_node import DrivenNode
from tests.unit.node.readers import (
    BYTES_MAX,
    batch_of,
    fetch,
    produced_rows,
    records_in,
    send_produce,
    values_in,
    write,
)

KEY = ("t", 0)


@pytest.fixture
def driven() -> DrivenNode:
    node = DrivenNode()
    node.create("t", partitions=3)
    return node


def mono_ms(driven: DrivenNode) -> int:
    return driven.world.mono_us() // 1000


class TestLimits:
    def test_everything_from_the_offset_on_is_given(self, driven: DrivenNode) -> None:
        for number in range(3):
            write(driven, "t", b"%d" % number)
        row = fetch(driven, ("t", 0, 1)).rows()[KEY]
        assert records_in(row) == [(1, b"1"), (2, b"2")]
        assert (row["high_watermark"], row["last_stable_offset"], row["log_start_offset"]) == (3, 3, 0)

    def test_an_offset_inside_a_batch_gives_the_whole_batch(self, driven: DrivenNode) -> None:
        write(driven, "t", b"a", b"b", b"c")
        assert records_in(fetch(driven, ("t", 0, 1)).rows()[KEY]) == [(0, b"a"), (1, b"b"), (2, b"c")]

    @pytest.mark.parametrize("limits", [{"bytes_max": 1}, {"partition_bytes_max": 1}, {"bytes_max": 0}])
    def test_the_first_batch_is_given_whole_though_it_exceeds_every_limit(
        self, driven: DrivenNode, limits: dict[str, Any]
    ) -> None:
        write(driven, "t", b"x" * 500)
        write(driven, "t", b"y" * 500)
        assert fetch(driven, ("t", 0, 0), **limits).values() == [b"x" * 500]

    def test_only_the_first_partition_may_exceed_the_limit(self, driven: DrivenNode) -> None:
        for index in range(3):
            write(driven, "t", b"x" * 500, partition=index)
        rows = fetch(driven, ("t", 0, 0), ("t", 1, 0), ("t", 2, 0), bytes_max=1).rows()
        assert [len(values_in(row)) for row in rows.values()] == [1, 0, 0]
        # What was not given is there all the same.
        assert [row["high_watermark"] for row in rows.values()] == [1, 1, 1]

    @pytest.mark.parametrize("left", [1, 60, 61, 500, 569])
    def test_a_cut_batch_is_never_all_that_a_partition_gets(self, driven: DrivenNode, left: int) -> None:
        """Java's consumer fails on bytes without one whole batch in them."""
        write(driven, "t", b"x" * 500, partition=0)
        write(driven, "t", b"y" * 500, partition=1)
        first_bytes = len(fetch(driven, ("t", 0, 0)).rows()[KEY]["records"])
        assert left < first_bytes == 570
        rows = fetch(driven, ("t", 0, 0), ("t", 1, 0), bytes_max=first_bytes + left).rows()
        assert not rows["t", 1]["records"]

    def test_the_limit_holds_over_all_partitions(self, driven: DrivenNode) -> None:
        for index in range(3):
            for _ in range(10):
                write(driven, "t", b"x" * 900, partition=index)
        rows = fetch(driven, ("t", 0, 0), ("t", 1, 0), ("t", 2, 0), bytes_max=15_000).rows()
        assert sum(len(row["records"] or b"") for row in rows.values()) <= 15_000

    def test_the_nodes_own_limit_counts_too(self) -> None:
        driven = DrivenNode(settings={"fetch.max.bytes": "1024"})
        driven.create("t", partitions=2)
        for index in range(2):
            write(driven, "t", b"x" * 800, partition=index)
            write(driven, "t", b"x" * 800, partition=index)
        assert len(fetch(driven, ("t", 0, 0), ("t", 1, 0)).values()) == 1

    def test_a_partition_twice_is_answered_once_by_what_was_said_last(self, driven: DrivenNode) -> None:
        for number in range(3):
            write(driven, "t", b"%d" % number)
        answer = fetch(driven, ("t", 0, 0), ("t", 0, 2)).wait()
        (row,) = [row for topic in answer["responses"] for row in topic["partitions"]]
        assert values_in(row) == [b"2"]


class TestWaiting:
    def test_an_empty_fetch_waits_its_time_and_no_longer(self, driven: DrivenNode) -> None:
        began_ms = mono_ms(driven)
        fetched = fetch(driven, ("t", 0, 0), wait_ms=300)
        assert not fetched.is_answered()
        assert fetched.values() == []
        assert mono_ms(driven) - began_ms == 300

    @pytest.mark.parametrize("wait_ms", [0, -1, -(2**31)])
    def test_who_has_no_time_does_not_wait(self, driven: DrivenNode, wait_ms: int) -> None:
        assert fetch(driven, ("t", 0, 0), wait_ms=wait_ms).is_answered()

    def test_the_longest_wait_ends_with_data(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("t", 0, 0), wait_ms=2**31 - 1)
        assert not fetched.is_answered()
        write(driven, "t", b"here")
        assert fetched.is_answered()
        assert fetched.values() == [b"here"]

    @pytest.mark.parametrize("bytes_min", [0, -1])
    def test_who_asks_for_nothing_does_not_wait(self, driven: DrivenNode, bytes_min: int) -> None:
        assert fetch(driven, ("t", 0, 0), bytes_min=bytes_min).is_answered()

    def test_data_in_any_of_its_partitions_ends_the_wait(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("t", 0, 0), ("t", 2, 0))
        write(driven, "t", b"not asked for", partition=1)
        assert not fetched.is_answered()
        write(driven, "t", b"asked for", partition=2)
        assert fetched.is_answered()
        assert fetched.values() == [b"asked for"]

    def test_too_little_is_no_reason_to_answer(self, driven: DrivenNode) -> None:
        write(driven, "t", b"x" * 100)
        fetched = fetch(driven, ("t", 0, 0), bytes_min=2000)
        for _ in range(4):
            write(driven, "t", b"x" * 200)
            assert not fetched.is_answered()
        write(driven, "t", b"x" * 2000)
        assert fetched.is_answered()
        assert len(fetched.values()) == 6

    def test_bytes_of_several_partitions_add_up(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("t", 0, 0), ("t", 1, 0), bytes_min=1500)
        write(driven, "t", b"x" * 1000, partition=0)
        assert not fetched.is_answered()
        write(driven, "t", b"x" * 1000, partition=1)
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_too_little_is_given_when_the_time_is_up(self, driven: DrivenNode) -> None:
        write(driven, "t", b"little")
        assert fetch(driven, ("t", 0, 0), bytes_min=BYTES_MAX, wait_ms=100).values() == [b"little"]

    def test_nobody_waits_for_more_than_may_be_given(self, driven: DrivenNode) -> None:
        write(driven, "t", b"x" * 500)
        write(driven, "t", b"x" * 500)
        assert fetch(driven, ("t", 0, 0), bytes_min=BYTES_MAX, bytes_max=1000).is_answered()

    @pytest.mark.parametrize("limit", ["bytes_max", "partition_bytes_max"])
    def test_nor_is_it_waited_for_because_batches_are_whole(self, driven: DrivenNode, limit: str) -> None:
        """Of a limit of 1,500 bytes two batches use 1,140: that is all that it can ever hold."""
        for _ in range(5):
            write(driven, "t", b"x" * 500)
        limits: dict[str, Any] = {limit: 1500}
        fetched = fetch(driven, ("t", 0, 0), bytes_min=1500, wait_ms=60_000, **limits)
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_nor_beside_what_had_no_room(self, driven: DrivenNode) -> None:
        write(driven, "t", b"x" * 500, partition=0)
        write(driven, "t", b"x" * 500, partition=1)
        fetched = fetch(driven, ("t", 0, 0), ("t", 1, 0), bytes_min=1000, bytes_max=1000, wait_ms=60_000)
        assert fetched.is_answered()
        assert len(fetched.values()) == 1

    def test_a_reader_behind_in_an_older_segment_does_not_wait_for_it_to_grow(self) -> None:
        driven = DrivenNode()
        driven.create("t", segment_bytes="1048576")
        for _ in range(5):
            write(driven, "t", b"x" * 400_000)
        assert len(driven.node.topics.partition("t", 0).log.segments) == 3
        fetched = fetch(
            driven, ("t", 0, 0), bytes_min=1 << 24, bytes_max=1 << 25, partition_bytes_max=1 << 25, wait_ms=60_000
        )
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_but_what_may_still_grow_is_waited_for(self, driven: DrivenNode) -> None:
        write(driven, "t", b"x" * 500)
        fetched = fetch(driven, ("t", 0, 0), ("t", 1, 0), bytes_min=1500, bytes_max=1500, wait_ms=60_000)
        assert not fetched.is_answered()
        write(driven, "t", b"x" * 500)
        assert not fetched.is_answered()
        write(driven, "t", b"x" * 500)
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_one_turn_answers_once_with_all_it_brought(self, driven: DrivenNode) -> None:
        """Two batches in one turn: the first one alone is not answered before the second is there."""
        fetched = fetch(driven, ("t", 0, 0))
        driven.produce("t")
        assert not fetched.is_answered()
        driven.produce("t")
        driven.node.finish_turn()
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_many_readers_are_woken_by_one_write(self, driven: DrivenNode) -> None:
        fetches = [fetch(driven, ("t", 0, 0)) for _ in range(10)]
        write(driven, "t", b"for all")
        assert all(fetched.is_answered() for fetched in fetches)
        assert {value for fetched in fetches for value in fetched.values()} == {b"for all"}


class TestErrors:
    @pytest.mark.parametrize("offset", [1, -1, 2**62, 2**63 - 1, -(2**63)])
    def test_an_offset_out_of_range_is_told_at_once(self, driven: DrivenNode, offset: int) -> None:
        fetched = fetch(driven, ("t", 1, 0), ("t", 0, offset))
        assert fetched.is_answered()
        assert fetched.rows()[KEY]["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_what_does_not_exist_is_no_reason_to_hurry_beside_what_does(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("nowhere", 0, 0), ("t", 9, 0), ("t", 0, 0), wait_ms=200)
        assert not fetched.is_answered()
        rows = fetched.rows()
        assert {key: row["error_code"] for key, row in rows.items()} == {
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            KEY: ErrorCode.NONE,
        }

    def test_what_does_not_exist_comes_last_in_the_answer(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("nowhere", 0, 0), ("t", 0, 0), ("t", 9, 0), ("t", 1, 0), wait_ms=0)
        assert list(fetched.rows()) == [("t", 0), ("t", 1), ("nowhere", 0), ("t", 9)]

    def test_nothing_that_exists_is_nothing_to_wait_for(self, driven: DrivenNode) -> None:
        assert fetch(driven, ("nowhere", 0, 0), ("t", 9, 0)).is_answered()
        assert fetch(driven).is_answered()

    def test_a_topics_name_is_not_an_id_nor_an_id_a_name(self, driven: DrivenNode) -> None:
        """Both are bytes in a frame, and a name may have sixteen letters."""
        sixteen = "abcdefghijklmnop"
        driven.create(sixteen)
        by_id = fetch(driven, (sixteen.encode(), 0, 0), version=13)
        assert by_id.rows()[sixteen.encode(), 0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID
        assert fetch(driven, (sixteen, 0, 0), wait_ms=0).rows()[sixteen, 0]["error_code"] == ErrorCode.NONE

    def test_a_failed_read_fails_its_partition_alone(self, driven: DrivenNode) -> None:
        for index in range(2):
            write(driven, "t", b"value", partition=index)
            write(driven, "t", b"x" * 50, b"y" * 50, partition=index)
        driven.disk.fail(Operation.READ, path_end="t-0/00000000000000000000.log")
        # Inside a batch, so that it must be looked for in the file.
        rows = fetch(driven, ("t", 0, 2), ("t", 1, 2)).rows()
        assert rows[KEY]["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_in(rows["t", 1], from_offset=2) == [b"y" * 50]

    @pytest.mark.parametrize("kind", [Operation.APPEND, Operation.SYNC])
    def test_readers_that_wait_hear_of_a_log_that_went_offline(self, kind: Operation) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="1")
        write(driven, "t", b"a")
        fetched = fetch(driven, ("t", 0, 1), bytes_min=10_000, wait_ms=60_000)
        driven.disk.fail(kind, path_end=".log")
        (row,) = produced_rows(driven, send_produce(driven, ("t", 0, batch_of(b"b"))))
        assert row["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetched.is_answered()
        assert fetched.rows()[KEY]["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert [fields["partition"] for event, fields in driven.told.events if event == "log offline"] == ["t-0"]


class TestDeletedTopics:
    def test_readers_that_wait_hear_that_it_is_gone(self, driven: DrivenNode) -> None:
        driven.create("other")
        fetched = fetch(driven, ("t", 0, 0), ("other", 0, 0), wait_ms=60_000)
        driven.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
        assert fetched.is_answered()
        rows = fetched.rows()
        assert rows[KEY]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert rows["other", 0]["error_code"] == ErrorCode.NONE

    def test_by_id_too(self, driven: DrivenNode) -> None:
        topic_id = driven.create("named")
        fetched = fetch(driven, (topic_id, 0, 0), version=16, wait_ms=60_000)
        driven.ask("DeleteTopics", 5, topic_names=["named"], timeout_ms=1000)
        assert fetched.rows()[topic_id, 0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID

    def test_a_deletion_is_no_failure_of_a_log(self, driven: DrivenNode) -> None:
        write(driven, "t", b"value")
        driven.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
        driven.world.run_until(driven.world.mono_us() + 120_000_000)
        assert "log offline" not in [event for event, _ in driven.told.events]


class TestFlushBeforeExpose:
    def test_nobody_reads_what_is_not_on_disk(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_before_expose="true")
        fetched = fetch(driven, ("t", 0, 0))
        assert write(driven, "t", b"value") == 0
        assert not fetched.is_answered()
        assert fetch(driven, ("t", 0, 0), wait_ms=0).rows()[KEY]["high_watermark"] == 0
        assert fetched.values() == [b"value"]
        assert driven.node.topics.partition("t", 0).log.flushed_offset == 1

    def test_a_flush_that_brings_too_little_does_not_end_the_wait(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_before_expose="true")
        fetched = fetch(driven, ("t", 0, 0), bytes_min=1000, wait_ms=60_000)
        write(driven, "t", b"little")
        driven.world.run_until(driven.world.mono_us() + 1_000_000)
        assert not fetched.is_answered()
        write(driven, "t", b"x" * 1000)
        driven.world.run_until(driven.world.mono_us() + 1_000_000)
        assert fetched.is_answered()
        assert len(fetched.values()) == 2

    def test_a_reader_ahead_of_what_is_visible_waits_for_its_own(self) -> None:
        """Between the watermark and the end there is something to wait for, and no error."""
        driven = DrivenNode()
        driven.create("t", flush_before_expose="true", flush_ms="5000")
        write(driven, "t", b"a")
        fetched = fetch(driven, ("t", 0, 1), wait_ms=60_000)
        driven.world.run_until(driven.world.mono_us() + 6_000_000)
        assert not fetched.is_answered()  # `a` is visible now, which is not what it waits for.
        write(driven, "t", b"b")
        driven.world.run_until(driven.world.mono_us() + 6_000_000)
        assert values_in(fetched.rows()[KEY], from_offset=1) == [b"b"]

    def test_one_flush_serves_who_waits_and_who_reads(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_before_expose="true", flush_messages="1")
        write(driven, "t", b"first")  # With its directories.
        driven.world.run_until(driven.world.mono_us() + 1_000_000)
        before = driven.disk.counts[Operation.SYNC]
        write(driven, "t", b"value")
        driven.world.run_until(driven.world.mono_us() + 1_000_000)
        assert driven.disk.counts[Operation.SYNC] - before == 1


class TestGivingUp:
    """What a fetch holds is given back however it ends."""

    def watchers(self, driven: DrivenNode) -> int:
        return sum(len(partition.watchers) for topic in driven.node.topics for partition in topic.partitions)

    def test_nobody_watches_after_an_answer(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("t", 0, 0), ("t", 1, 0))
        assert self.watchers(driven) == 2
        write(driven, "t", b"value")
        assert fetched.is_answered()
        assert self.watchers(driven) == 0

    def test_a_reader_that_cannot_wait_is_answered_at_once(self, driven: DrivenNode) -> None:
        write(driven, "t", b"little")
        fetched = fetch(driven, ("t", 0, 0), ("t", 1, 0), bytes_min=10_000, wait_ms=3_600_000)
        assert fetched.later is not None
        assert fetched.later.hurry is not None
        assert fetched.later.held_bytes > 0
        fetched.later.hurry()
        assert fetched.values() == [b"little"]
        assert self.watchers(driven) == 0
        # Neither its timer nor what becomes visible later finds anything to do.
        write(driven, "t", b"more")
        driven.world.run_until(driven.world.mono_us() + 4_000_000_000)

    def test_being_woken_and_out_of_time_in_one_turn_answers_once(self, driven: DrivenNode) -> None:
        fetched = fetch(driven, ("t", 0, 0), wait_ms=100)
        driven.produce("t")  # Woken, but the turn is not over.
        assert fetched.later is not None
        assert fetched.later.hurry is not None
        fetched.later.hurry()
        driven.node.finish_turn()
        assert len(fetched.values()) == 1
