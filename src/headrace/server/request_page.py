"""`/requests`: how requests of each class were spread, in full, as JSON.

What Prometheus gets is a bucket for every factor of four: enough for a graph, too coarse to fit anything to. Here is
all that the node has counted since it began: sizes, times between arrivals, and the times of each stage, with sixteen
buckets to every power of two. Nothing is counted for it that is not counted anyway.

Whoever looks twice has what came in between. `/requests?begin` is for the first look: from a request before it to one
after it is no time between two arrivals of theirs, and it is not counted.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.node.meters import Distribution, bucket_floor
from headrace.node.statistics import NodeSnapshot, RequestClassStatistics
from headrace.server.metrics import class_labels

_SPREADS: Final = (
    "queue_us", "local_us", "parked_us", "send_us", "interarrival_us", "request_bytes", "response_bytes",
)  # fmt: skip


def render_each(snapshot: NodeSnapshot, api_names: Mapping[int, str]) -> Iterator[str]:
    """One class's text at a time, for those who have other things to do in between."""
    yield f'{{"taken_us": {snapshot.taken_us}, "classes": ['
    for number, one in enumerate(snapshot.requests):
        yield ("," if number else "") + json.dumps(_class_json(one, api_names))
    yield "]}\n"


def _class_json(one: RequestClassStatistics, api_names: Mapping[int, str]) -> dict[str, Any]:
    spreads = {name: _spread_json(getattr(one, name)) for name in _SPREADS}
    return {**class_labels(one, api_names), "requests": one.requests, **spreads}


def _spread_json(spread: Distribution) -> dict[str, Any]:
    """Buckets as the smallest and the largest value, and how many."""
    buckets = [
        (bucket_floor(index), bucket_floor(index + 1) - 1, count) for index, count in enumerate(spread.counts) if count
    ]
    return {"total": spread.total, "buckets": buckets}
