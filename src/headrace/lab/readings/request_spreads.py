"""How requests of each class were spread over a run: sizes, times between arrivals, times of each stage.

A node's `/requests` has counts since it began, in buckets that are 6% wide; those at the end less those at the
beginning are the run's. To whoever fits service times they are samples, each with how often it occurred: the middle of
its bucket is less than 3.2% off. Means are exact.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urljoin

from headrace.lab.errors import LabError
from headrace.lab.readings.metrics_page import fetch
from headrace.lab.readings.node_counts import RequestClass

SPREADS: Final = (
    "queue_us", "local_us", "parked_us", "send_us", "interarrival_us", "request_bytes", "response_bytes",
)  # fmt: skip


class Spread(NamedTuple):
    total: float
    buckets: Mapping[tuple[int, int], int]  # Smallest and largest value, and how many.

    @property
    def recorded(self) -> int:
        return sum(self.buckets.values())

    @property
    def mean(self) -> float | None:
        return self.total / self.recorded if self.recorded else None

    @property
    def variation_squared(self) -> float | None:
        """Variance by the square of the mean: 1 for an exponential one, 0 where all are the same."""
        mean = self.mean
        if not mean:
            return None
        middles = [((low + high) / 2, count) for (low, high), count in self.buckets.items()]
        middle = math.fsum(value * count for value, count in middles) / self.recorded
        return math.fsum(count * (value - middle) ** 2 for value, count in middles) / self.recorded / mean**2

    def since(self, earlier: Self) -> "Spread":
        left = {bucket: count - earlier.buckets.get(bucket, 0) for bucket, count in self.buckets.items()}
        return Spread(self.total - earlier.total, {bucket: count for bucket, count in left.items() if count})

    def to_json(self) -> dict[str, Any]:
        mean, variation = self.mean, self.variation_squared
        return {
            "count": self.recorded,
            "mean": None if mean is None else round(mean, 3),
            "variation_squared": None if variation is None else round(variation, 4),
            "buckets": [[low, high, count] for (low, high), count in self.buckets.items()],
        }


_NOTHING: Final = Spread(0, {})
Spreads = Mapping[RequestClass, Mapping[str, Spread]]


def parse_spreads(text: str) -> Spreads:
    try:
        return {
            RequestClass(one["api"], one["source"]): {
                name: Spread(one[name]["total"], {(low, high): count for low, high, count in one[name]["buckets"]})
                for name in SPREADS
            }
            for one in json.loads(text)["classes"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"not a page of requests: {text[:80]!r}") from error


def since(earlier: Spreads, later: Spreads) -> Spreads:
    """What came in between, of the classes of which something came."""
    empty: Mapping[str, Spread] = {}
    found = {
        kind: {name: spread.since(earlier.get(kind, empty).get(name, _NOTHING)) for name, spread in spreads.items()}
        for kind, spreads in later.items()
    }
    return {kind: spreads for kind, spreads in found.items() if spreads["request_bytes"].recorded > 0}


def spreads_json(url: str, spreads: Spreads) -> dict[str, Any]:
    classes = [
        {**kind._asdict(), **{name: spread.to_json() for name, spread in each.items()}}
        for kind, each in spreads.items()
    ]
    return {"type": "requests", "metrics": url, "classes": classes}


def fetch_spreads(metrics_url: str) -> Spreads | None:
    """Beside the page of metrics; None where there is no such page, as with other brokers, or no answer."""
    try:
        return parse_spreads(fetch(urljoin(metrics_url, "requests")))
    except LabError:
        return None
