"""What a node counts, out of its page of metrics, and what it did between two of them.

Everything on the page is a count since the node began. The names are Headrace's; of another broker's page those that
every exporter has (`process_cpu_seconds_total`) are read, and the rest is not there.

Pure: pages in, readings out.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from headrace.lab.readings.metrics_page import Page, value

# Stages of a request and its sizes: metric, and by what its unit is multiplied to become the reading's.
STAGES: Final = {
    "queue_ms": ("headrace_request_queue_seconds", 1e3),
    "local_ms": ("headrace_request_local_seconds", 1e3),
    "parked_ms": ("headrace_request_parked_seconds", 1e3),
    "send_ms": ("headrace_request_send_seconds", 1e3),
    "interarrival_ms": ("headrace_request_interarrival_seconds", 1e3),
    "request_bytes": ("headrace_request_size_bytes", 1.0),
    "response_bytes": ("headrace_response_size_bytes", 1.0),
}
# Those that a client waits for: all of them a request meets, though not every one is parked.
IN_BROKER: Final = ("queue_ms", "local_ms", "parked_ms", "send_ms")


class RequestClass(NamedTuple):
    api: str
    source: str  # A client, or a follower.

    def __str__(self) -> str:
        return self.api if self.source == "client" else f"{self.api} of a {self.source}"


class Buckets(NamedTuple):
    """A histogram: upper bounds, each with how many values lie at or below it."""

    below: Mapping[float, float]
    total: float
    recorded: float

    def since(self, earlier: Self) -> "Buckets":
        return Buckets(
            {bound: count - earlier.below.get(bound, 0.0) for bound, count in self.below.items()},
            self.total - earlier.total,
            self.recorded - earlier.recorded,
        )

    @property
    def mean(self) -> float | None:
        return self.total / self.recorded if self.recorded > 0 else None

    def at_most(self, share: float) -> float | None:
        """The bound that so many do not exceed; None where nothing was recorded, or it lies beyond the last."""
        if self.recorded <= 0:
            return None
        bounds = [bound for bound, count in sorted(self.below.items()) if count >= share * self.recorded]
        return bounds[0] if bounds and math.isfinite(bounds[0]) else None


_NOTHING: Final = Buckets({}, 0.0, 0.0)


class NodeCounts(NamedTuple):
    mono_ns: int  # When it was read.
    requests: Mapping[RequestClass, float]
    stages: Mapping[RequestClass, Mapping[str, Buckets]]
    traffic: Mapping[str, float]  # Messages and bytes, over all topics.
    cpu_s: float | None
    syncs: float | None
    sync_s: float | None  # Of all flushes to the device, also of those that were under way at the same time.
    loop_lag_s: float | None  # The latest that its loop was since somebody last looked.

    @classmethod
    def of_page(cls, page: Page, *, mono_ns: int) -> Self:
        requests = {_class(one.labels): one.value for one in page.get("headrace_requests_total", [])}
        return cls(
            mono_ns=mono_ns,
            requests=requests,
            stages={kind: {name: _buckets(page, kind, *of) for name, of in STAGES.items()} for kind in requests},
            traffic={
                word: counted
                for word in ("messages_in", "bytes_in", "bytes_out")
                if (counted := value(page, f"headrace_topic_{word}_total")) is not None
            },
            cpu_s=value(page, "process_cpu_seconds_total"),
            syncs=value(page, "headrace_syncs_total"),
            sync_s=value(page, "headrace_sync_seconds_total"),
            loop_lag_s=value(page, "headrace_loop_lag_seconds_max"),
        )


def _class(labels: Mapping[str, str]) -> RequestClass:
    return RequestClass(labels.get("api", ""), labels.get("source", "client"))


def _buckets(page: Page, kind: RequestClass, name: str, scale: float) -> Buckets:
    def ours(suffix: str) -> list[tuple[Mapping[str, str], float]]:
        return [(one.labels, one.value) for one in page.get(name + suffix, []) if _class(one.labels) == kind]

    return Buckets(
        {float(labels["le"]) * scale: count for labels, count in ours("_bucket")},
        sum(total for _, total in ours("_sum")) * scale,
        sum(count for _, count in ours("_count")),
    )


class NodeReading(NamedTuple):
    """Between two pages."""

    seconds: float
    requests: Mapping[RequestClass, float]  # How many.
    stages: Mapping[RequestClass, Mapping[str, Buckets]]
    traffic: Mapping[str, float]
    cpu_share: float | None  # Of one core.
    syncs: float | None
    sync_share: float | None  # In which a flush was under way, taken one by one; more than 1 where several are at once.
    loop_lag_s: float | None

    def in_broker_ms(self, kind: RequestClass) -> float | None:
        """How long a request was there, in the mean: from readable to the last byte of its answer."""
        count = self.requests.get(kind, 0.0)
        if count <= 0:
            return None
        return sum(self.stages[kind][stage].total for stage in IN_BROKER) / count


def between(before: NodeCounts, after: NodeCounts) -> NodeReading | None:
    """None where the node was started anew in between, or nothing was read since."""
    seconds = (after.mono_ns - before.mono_ns) / 1e9
    requests = {kind: count - before.requests.get(kind, 0.0) for kind, count in after.requests.items()}
    if seconds <= 0 or any(count < 0 for count in requests.values()):
        return None
    empty: Mapping[str, Buckets] = {}
    return NodeReading(
        seconds=seconds,
        requests=requests,
        stages={
            kind: {name: one.since(before.stages.get(kind, empty).get(name, _NOTHING)) for name, one in stages.items()}
            for kind, stages in after.stages.items()
        },
        traffic={word: count - before.traffic.get(word, 0.0) for word, count in after.traffic.items()},
        cpu_share=_per(seconds, before.cpu_s, after.cpu_s),
        syncs=_per(1.0, before.syncs, after.syncs),
        sync_share=_per(seconds, before.sync_s, after.sync_s),
        loop_lag_s=after.loop_lag_s,
    )


def _per(seconds: float, before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else (after - before) / seconds
