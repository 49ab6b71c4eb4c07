"""What waits between a cluster and the streams: order, ownership, bounds, and what counts as finished."""

import pytest

from headrace.client.lanes import Feed, Lanes, Limits
from headrace.client.message import Claim, Partition
from tests.unit.client.fakes import FakeMessage

A, B = Partition("t", 0), Partition("t", 1)
WIDE = Limits(1_000, 1_000_000)


def lanes_of(streams: int = 1, limits: Limits = WIDE) -> tuple[Lanes, list[Feed]]:
    lanes = Lanes({"t": streams}, limits)
    return lanes, lanes.feeds["t"]


def put(lanes: Lanes, partition: Partition, *offsets: int, size: int = 1) -> None:
    for offset in offsets:
        assert lanes.put(FakeMessage((*partition, offset), b"x" * size))


def take(lanes: Lanes, feed: Feed) -> tuple[int, int] | None:
    taken = lanes.take(feed)
    return None if taken is None else (taken[0].partition() or 0, taken[0].offset() or 0)


def take_all(lanes: Lanes, feed: Feed) -> list[tuple[int, int]]:
    taken = []
    while (one := take(lanes, feed)) is not None:
        taken.append(one)
    return taken


def test_partitions_take_turns_and_each_keeps_its_order() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A, B])
    put(lanes, A, 5, 6, 7)
    put(lanes, B, 1, 2)
    taken = take_all(lanes, feed)
    assert [offset for partition, offset in taken if partition == 0] == [5, 6, 7]
    assert [offset for partition, offset in taken if partition == 1] == [1, 2]
    assert taken[:4] == [(0, 5), (1, 1), (0, 6), (1, 2)]


def test_each_partition_feeds_one_stream() -> None:
    lanes, [one, other] = lanes_of(2)
    lanes.gain([A, B])
    put(lanes, A, 0, 1)
    put(lanes, B, 0, 1)
    assert take_all(lanes, one) == [(0, 0), (0, 1)]
    assert take_all(lanes, other) == [(1, 0), (1, 1)]


def test_a_message_is_finished_when_the_next_one_is_asked_for() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 7, 8)
    assert take(lanes, feed) == (0, 7)
    assert lanes.finished() == {}
    assert take(lanes, feed) == (0, 8)
    assert lanes.finished() == {A: 8}
    assert take(lanes, feed) is None
    assert lanes.finished() == {A: 9}


def test_what_was_taken_for_a_commit_is_not_taken_again_until_more_is_finished() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 0, 1)
    take_all(lanes, feed)
    lanes.note_commit(lanes.finished())
    assert lanes.finished() == {}
    lanes.forget_commit([A])
    assert lanes.finished() == {A: 2}
    lanes.note_commit({A: 0})  # A given offset, which no periodic commit may take back.
    assert lanes.finished() == {}
    put(lanes, A, 2)
    take_all(lanes, feed)
    assert lanes.finished() == {A: 3}


def test_a_message_that_was_committed_in_hand_is_finished() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 4)
    taken = lanes.take(feed)
    assert taken is not None
    lanes.note_finished(A, 4, taken[1])
    assert lanes.finished() == {A: 5}


def test_a_partition_that_moves_to_another_stream_waits_for_the_message_in_hand() -> None:
    lanes, [one, other] = lanes_of(2)
    lanes.gain([A, B, Partition("t", 2)])  # A and 2 to the first stream, B to the other.
    moved = Partition("t", 2)
    put(lanes, moved, 0, 1)
    assert take(lanes, one) == (2, 0)
    woken = []
    other.wake = lambda: woken.append("other")
    lanes.lose([B])
    assert lanes.stream_of(moved) == 1
    assert take(lanes, other) is None
    lanes.finish(one)
    assert woken == ["other"]
    assert take(lanes, other) == (2, 1)


def test_what_waits_moves_with_its_partition() -> None:
    lanes, [one, other] = lanes_of(2)
    moved = Partition("t", 2)
    lanes.gain([A, B, moved])
    put(lanes, moved, 0, 1, 2)
    lanes.lose([B])
    assert take_all(lanes, one) == []
    assert take_all(lanes, other) == [(2, 0), (2, 1), (2, 2)]


def test_a_lost_partition_gives_nothing_more_and_counts_for_nothing() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 0, 1)
    assert take(lanes, feed) == (0, 0)
    lanes.lose([A])
    assert not lanes.put(FakeMessage((*A, 2)))
    assert take(lanes, feed) is None
    assert lanes.finished() == {}
    assert lanes.queued_messages == 0


def test_a_claim_does_not_outlive_the_ownership_it_came_with() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 0)
    taken = lanes.take(feed)
    assert taken is not None
    assert lanes.is_claim_good(A, taken[1])
    lanes.lose([A])
    assert not lanes.is_claim_good(A, taken[1])
    lanes.gain([A])
    assert lanes.is_claim_good(A, None)
    assert not lanes.is_claim_good(A, taken[1])
    lanes.finish(feed)
    lanes.note_finished(A, 0, taken[1])
    assert lanes.finished() == {}


def test_drained_partitions_are_owned_still() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 0, 1, 2)
    assert take(lanes, feed) == (0, 0)
    lanes.drain([A])
    assert take(lanes, feed) is None
    assert lanes.finished() == {A: 1}
    assert lanes.is_claim_good(A, None)


def test_what_was_in_hand_before_a_rewind_is_no_progress_after_it() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    put(lanes, A, 90, 91)
    taken = lanes.take(feed)
    assert taken is not None
    lanes.rewind(A)
    lanes.finish(feed)
    assert lanes.finished() == {}
    assert lanes.is_claim_good(A, taken[1])  # It can be committed by hand: the partition was never anybody else's.
    put(lanes, A, 10)
    assert take_all(lanes, feed) == [(0, 10)]
    assert lanes.finished() == {A: 11}


@pytest.mark.parametrize(("limits", "size"), [(Limits(4, 1_000_000), 1), (Limits(1_000, 400), 100)])
def test_a_full_lane_is_held_back_until_half_of_it_is_gone(limits: Limits, size: int) -> None:
    lanes, [feed] = lanes_of(limits=limits)
    lanes.gain([A, B])
    put(lanes, A, 0, 1, 2, size=size)
    put(lanes, B, 0, size=size)
    assert lanes.take_changes() == (set(), set())
    put(lanes, A, 3, 4, size=size)
    assert lanes.take_changes() == ({A}, set())
    assert lanes.held_back == {A}
    for _ in range(3):  # Two of A and one of B.
        take(lanes, feed)
    assert lanes.take_changes() == (set(), set())
    take(lanes, feed)
    assert lanes.take_changes() == (set(), {A})
    assert lanes.held_back == frozenset()


def test_a_lane_that_drains_before_anybody_acted_is_not_held_back() -> None:
    lanes, [feed] = lanes_of(limits=Limits(2, 1_000))
    lanes.gain([A])
    put(lanes, A, 0, 1)
    take_all(lanes, feed)
    hold_back, _ = lanes.take_changes()
    assert hold_back == set()
    assert lanes.held_back == frozenset()


def test_a_rewind_or_a_loss_ends_holding_back() -> None:
    lanes, _ = lanes_of(limits=Limits(2, 1_000))
    lanes.gain([A, B])
    for partition in (A, B):
        put(lanes, partition, 0, 1)
    assert lanes.take_changes() == ({A, B}, set())
    lanes.rewind(A)
    lanes.lose([B])
    assert lanes.take_changes() == (set(), {A})


def test_streams_are_woken_when_something_can_be_taken() -> None:
    lanes, [feed] = lanes_of()
    woken: list[int] = []
    feed.wake = lambda: woken.append(1)
    lanes.gain([A])
    put(lanes, A, 0)
    assert len(woken) == 1
    put(lanes, A, 1)
    assert len(woken) == 1  # It is awake.


def test_a_claim_names_the_rewind_too() -> None:
    lanes, [feed] = lanes_of()
    lanes.gain([A])
    lanes.rewind(A)
    put(lanes, A, 0)
    taken = lanes.take(feed)
    assert taken is not None
    assert taken[1] == Claim(1, 1)
