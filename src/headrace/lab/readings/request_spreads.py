"""How requests of each class were spread over a run: sizes, times between arrivals, times of each stage.

A node's `/requests` has counts since it began, in buckets that are 6% wide; those at the end less those at the
beginning are the run's. Of another broker a proxy before it has such counts, with the time until the answer in place of
those of the stages. To whoever fits service times they are samples, each with how often it occurred: the middle of its
bucket is less than 3.2% off. Means are exact.

`read_spreads` reads them again, whoever has counted.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urljoin

from headrace.lab.errors import LabError
from headrace.lab.readings.metrics_page import fetch
from headrace.lab.readings.node_counts import RequestClass

# Of a node's page.
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
            "total": self.total,
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


def spreads_json(where: Mapping[str, str], spreads: Spreads) -> dict[str, Any]:
    """A line of readings. They were counted at the `metrics` of a node, or by a proxy before a `broker`."""
    classes = [
        {**kind._asdict(), **{name: spread.to_json() for name, spread in each.items()}}
        for kind, each in spreads.items()
    ]
    return {"type": "requests", **where, "classes": classes}


def read_spreads(readings: Path) -> dict[str, Spreads]:
    """Of a run that was read, by broker: by the URL of its metrics, or the name of one that a proxy was before.

    LabError where there is no such file, or it is none."""
    try:
        lines = readings.read_text(encoding="utf-8").splitlines()
        told = [value for line in lines if (value := json.loads(line))["type"] == "requests"]
        return {one.get("metrics") or one["broker"]: dict(_classes(one)) for one in told}
    except OSError as error:
        raise LabError(f"no readings in {readings}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(f"{readings} is no file of readings: {error}") from error


def _classes(line: Mapping[str, Any]) -> Iterator[tuple[RequestClass, dict[str, Spread]]]:
    for one in line["classes"]:
        yield (
            RequestClass(one["api"], one["source"]),
            {
                name: Spread(spread["total"], {(low, high): count for low, high, count in spread["buckets"]})
                for name, spread in one.items()
                if name not in RequestClass._fields
            },
        )


def fetch_spreads(metrics_url: str, *, begins: bool = False) -> Spreads | None:
    """Beside the page of metrics; None where there is no such page, as with other brokers, or no answer.

    Where a run begins, the node counts no time from a request before that to one of the run's."""
    try:
        return parse_spreads(fetch(urljoin(metrics_url, "requests?begin" if begins else "requests")))
    except LabError:
        return None
