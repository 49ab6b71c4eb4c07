"""Partitions are dealt evenly over streams, and moved as little as that allows."""

import random
from collections import Counter

import pytest

from headrace.client.dealing import deal


def loads(dealt: dict[int, int], streams: int) -> list[int]:
    counted = Counter(dealt.values())
    return sorted(counted[stream] for stream in range(streams))


@pytest.mark.parametrize("streams", [1, 2, 3, 5])
@pytest.mark.parametrize("partitions", [0, 1, 4, 12])
def test_every_partition_has_one_stream_and_loads_differ_by_one_at_most(partitions: int, streams: int) -> None:
    dealt = deal({}, range(partitions), streams=streams)
    assert sorted(dealt) == list(range(partitions))
    assert loads(dealt, streams)[-1] - loads(dealt, streams)[0] <= 1


def test_partitions_that_stay_keep_their_stream() -> None:
    before = deal({}, range(6), streams=3)
    after = deal(before, [*range(6), 6, 7, 8], streams=3)
    assert {partition: after[partition] for partition in before} == before
    assert loads(after, 3) == [3, 3, 3]


def test_a_stream_that_lost_everything_gets_some_of_the_others() -> None:
    before = {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1}
    after = deal(before, [0, 1, 2], streams=2)
    assert loads(after, 2) == [1, 2]
    assert sum(before[partition] != after[partition] for partition in after) == 1


def test_new_partitions_mend_what_went_missing_before_anything_moves() -> None:
    assert deal({0: 0, 1: 0}, [0, 1, 2, 3], streams=2) == {0: 0, 1: 0, 2: 1, 3: 1}


def test_through_any_history_of_changes() -> None:
    chance = random.Random(7)
    for _ in range(300):
        streams = chance.randint(1, 6)
        held: dict[int, int] = {}
        for _ in range(10):
            owned = chance.sample(range(20), chance.randint(0, 20))
            dealt = deal(held, owned, streams=streams)
            assert sorted(dealt) == sorted(owned)
            spread = loads(dealt, streams)
            assert spread[-1] - spread[0] <= 1
            # What moved had to: without it, a stream would have more than its share.
            share = -(-len(owned) // streams)
            kept = Counter(held[partition] for partition in owned if partition in held)
            excess = sum(max(0, count - share) for count in kept.values())
            moved = sum(partition in held and held[partition] != stream for partition, stream in dealt.items())
            scarce = sum(max(0, len(owned) // streams - kept[stream]) for stream in range(streams))
            new = sum(partition not in held for partition in owned)
            assert moved <= max(excess, scarce - new)
            held = dealt
