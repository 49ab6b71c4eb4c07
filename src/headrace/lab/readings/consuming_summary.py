"""Consumers and the readings meanwhile, in the few numbers that a verdict on what held them up asks for."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import NamedTuple

from headrace.lab.consuming_bottleneck import ConsumingSummary
from headrace.lab.readings.reading import Reading
from headrace.lab.readings.summary import broker_side, busiest_link, cores_of, side_of


class Consuming(NamedTuple):
    """How it went, over all groups; each of them gets every message."""

    written: Sequence[int]  # By second of sending, times the groups; nothing of a backlog.
    consumed: Sequence[int]  # In the same seconds, or of a backlog in those in which it was consumed.
    elapsed_s: float
    is_backlog: bool
    throttled_s: float = 0.0  # For so long brokers held answers back, to the consumer that was held back most.


def consuming_summary(
    consuming: Consuming, readings: Sequence[Reading], *, links_bits_per_s: Mapping[str, int]
) -> ConsumingSummary:
    """Of readings of the time of consuming."""
    elapsed_s = max(consuming.elapsed_s, 1e-9)
    link, link_share = busiest_link(readings, links_bits_per_s)
    return ConsumingSummary(
        is_backlog=consuming.is_backlog,
        written_per_s=sum(consuming.written) / elapsed_s,
        consumed_per_s=sum(consuming.consumed) / elapsed_s,
        behind_s=0.0 if consuming.is_backlog else behind_s(consuming.written, consuming.consumed),
        throttled_share=min(1.0, consuming.throttled_s / elapsed_s),
        consumer=side_of(readings, "consumer"),
        broker=broker_side(readings),
        link=link,
        link_share=link_share,
        cores=cores_of(readings),
    )


def behind_s(written: Sequence[int], consumed: Sequence[int]) -> float:
    """What was written and not consumed: at the ends of the seconds of the last half, in the mean, and by what was
    written a second."""
    if not sum(written):
        return 0.0
    left = [one - other for one, other in zip(accumulate(written), accumulate(consumed), strict=True)]
    return max(0.0, fmean(left[len(left) // 2 :]) / (sum(written) / len(written)))
