"""Which of a topic's streams each of its partitions feeds. Plain values in, plain values out.

A partition is the smallest unit of parallelism (the Kafka paper, NetDB'11, section 3.2), between the streams of one
consumer as between the consumers of a group: all messages of a partition go into one stream, in order.
"""

from collections.abc import Iterable, Mapping


def deal(held: Mapping[int, int], owned: Iterable[int], *, streams: int) -> dict[int, int]:
    """The stream of every owned partition: as even as can be, with no more moves than that takes.

    `held` is how the partitions were dealt so far. New ones go where there are fewest; only where that leaves one
    stream with two more than another does a partition move.
    """
    assert streams > 0
    hands: list[list[int]] = [[] for _ in range(streams)]
    new = []
    for partition in sorted(owned):
        if partition in held:
            hands[held[partition]].append(partition)
        else:
            new.append(partition)
    for partition in new:
        min(hands, key=len).append(partition)
    while len(fullest := max(hands, key=len)) - len(emptiest := min(hands, key=len)) > 1:
        emptiest.append(fullest.pop())
    return {partition: stream for stream, hand in enumerate(hands) for partition in hand}
