"""What a node counts while it works: requests by class, and traffic by topic.

Always on, so recording is written for speed: one call when a request was handled, one if it was parked, one when
its answer left, none of which allocates or reads a clock. Times come from the caller, in whole microseconds of one
monotonic clock. Everything that is shown goes through `statistics()`, an immutable snapshot.

Knows API keys but not their names, and nothing of sockets; what the figures mean to an operator is for the
exporters to say.
"""

from typing import Final, NamedTuple

from headrace.node.meters import SMALL, SMALL_MAX, TICK_US, Distribution, Histogram, Meter, Rates, large_index

# A class of its own among the API keys, which are all smaller: fetches by other nodes.
FOLLOWER_FETCH: Final = 255
_CLASSES: Final = 256


class RequestClassStatistics(NamedTuple):
    """Requests of one kind. Times in microseconds: a request is queued, handled, perhaps parked, then sent."""

    api_key: int  # Or FOLLOWER_FETCH.
    requests: int
    queue_us: Distribution  # From readable to handled.
    local_us: Distribution  # In the handler.
    parked_us: Distribution  # Waiting for data, a flush or followers; only of those that did.
    send_us: Distribution  # From answered to the last byte taken by the kernel.
    interarrival_us: Distribution  # Between the beginnings of one request and the next.
    request_bytes: Distribution
    response_bytes: Distribution


class TopicStatistics(NamedTuple):
    topic: str
    messages_in: Rates
    bytes_in: Rates
    bytes_out: Rates


class NodeSnapshot(NamedTuple):
    taken_us: int
    requests: tuple[RequestClassStatistics, ...]
    topics: tuple[TopicStatistics, ...]


class _RequestClass:
    __slots__ = (
        "interarrival", "last_us", "local", "parked", "queue", "request_bytes", "requests", "response_bytes", "send",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests = 0
        self.last_us: int | None = None
        self.queue = Histogram()
        self.local = Histogram()
        self.parked = Histogram()
        self.send = Histogram()
        self.interarrival = Histogram()
        self.request_bytes = Histogram()
        self.response_bytes = Histogram()

    def snapshot(self, api_key: int) -> RequestClassStatistics:
        return RequestClassStatistics(
            api_key=api_key,
            requests=self.requests,
            queue_us=self.queue.snapshot(),
            local_us=self.local.snapshot(),
            parked_us=self.parked.snapshot(),
            send_us=self.send.snapshot(),
            interarrival_us=self.interarrival.snapshot(),
            request_bytes=self.request_bytes.snapshot(),
            response_bytes=self.response_bytes.snapshot(),
        )


class TopicTraffic:
    """One topic's meters. Handlers keep it beside the topic, so that counting needs no lookup."""

    __slots__ = ("_bytes_in", "_bytes_out", "_messages_in")

    def __init__(self, *, now_us: int) -> None:
        self._messages_in = Meter(now_us=now_us)
        self._bytes_in = Meter(now_us=now_us)
        self._bytes_out = Meter(now_us=now_us)

    def messages_in(self, messages: int, size: int) -> None:
        self._messages_in.count += messages
        self._bytes_in.count += size

    def bytes_out(self, size: int) -> None:
        self._bytes_out.count += size

    def settle(self, tick: int, *, since: int) -> None:
        self._messages_in.settle(tick, since=since)
        self._bytes_in.settle(tick, since=since)
        self._bytes_out.settle(tick, since=since)

    def settle_if_counted(self, tick: int, *, since: int) -> None:
        if not (self._bytes_in.is_settled and self._bytes_out.is_settled):
            self.settle(tick, since=since)

    def rates(self, topic: str, *, now_us: int) -> TopicStatistics:
        return TopicStatistics(
            topic,
            self._messages_in.rates(now_us=now_us),
            self._bytes_in.rates(now_us=now_us),
            self._bytes_out.rates(now_us=now_us),
        )


class NodeStatistics:
    """The one collector of a node. `settle` is due once a tick (`meters.TICK_US`); all else is just called."""

    __slots__ = ("_classes", "_settled_us", "_topics")

    def __init__(self, *, now_us: int) -> None:
        self._classes: list[_RequestClass | None] = [None] * _CLASSES
        self._topics: dict[str, TopicTraffic] = {}
        self._settled_us = now_us

    # --- Requests --------------------------------------------------------------------------------------------

    def handled(self, api_key: int, began_us: int, queue_us: int, local_us: int, request_bytes: int) -> None:
        """A request that began to be handled at `began_us` came out of its handler, answered or parked."""
        one = self._classes[api_key] or self._begin(api_key)
        one.requests += 1
        # `Histogram.record` four times, without its calls: they would double the price.
        histogram = one.queue
        histogram.counts[SMALL[queue_us] if queue_us < SMALL_MAX else large_index(queue_us)] += 1
        histogram.total += queue_us
        histogram = one.local
        histogram.counts[SMALL[local_us] if local_us < SMALL_MAX else large_index(local_us)] += 1
        histogram.total += local_us
        histogram = one.request_bytes
        histogram.counts[SMALL[request_bytes] if request_bytes < SMALL_MAX else large_index(request_bytes)] += 1
        histogram.total += request_bytes
        if one.last_us is not None:
            gap_us = began_us - one.last_us
            histogram = one.interarrival
            histogram.counts[SMALL[gap_us] if gap_us < SMALL_MAX else large_index(gap_us)] += 1
            histogram.total += gap_us
        one.last_us = began_us

    def parked(self, api_key: int, parked_us: int) -> None:
        """A request that waited has its answer."""
        (self._classes[api_key] or self._begin(api_key)).parked.record(parked_us)

    def sent(self, api_key: int, send_us: int, response_bytes: int) -> None:
        """The kernel has taken the last byte of an answer."""
        one = self._classes[api_key] or self._begin(api_key)
        histogram = one.send
        histogram.counts[SMALL[send_us] if send_us < SMALL_MAX else large_index(send_us)] += 1
        histogram.total += send_us
        histogram = one.response_bytes
        histogram.counts[SMALL[response_bytes] if response_bytes < SMALL_MAX else large_index(response_bytes)] += 1
        histogram.total += response_bytes

    def forget_arrivals(self) -> None:
        """The next request of each class has none before it: the pause since is nothing that a run which begins now has
        to do with."""
        for one in self._classes:
            if one is not None:
                one.last_us = None

    def _begin(self, api_key: int) -> _RequestClass:
        one = self._classes[api_key] = _RequestClass()
        return one

    # --- Topics ----------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicTraffic:
        """The traffic of a topic, begun with the present tick when first asked for."""
        traffic = self._topics.get(name)
        if traffic is None:
            traffic = self._topics[name] = TopicTraffic(now_us=self._settled_us)
        return traffic

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)

    # --- Time and reading ------------------------------------------------------------------------------------

    def settle(self, *, now_us: int) -> None:
        """Move the rates on. Topics at rest are left alone; they catch up when they are next looked at."""
        tick, since = now_us // TICK_US, self._settled_us // TICK_US
        if tick > since:
            for traffic in self._topics.values():
                traffic.settle_if_counted(tick, since=since)
        self._settled_us = now_us

    def statistics(self, *, now_us: int) -> NodeSnapshot:
        self.settle(now_us=now_us)
        tick = now_us // TICK_US
        for traffic in self._topics.values():
            traffic.settle(tick, since=tick)
        return NodeSnapshot(
            taken_us=now_us,
            requests=tuple(one.snapshot(key) for key, one in enumerate(self._classes) if one is not None),
            topics=tuple(traffic.rates(name, now_us=now_us) for name, traffic in self._topics.items()),
        )
