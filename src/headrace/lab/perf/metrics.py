"""What `--print-metrics` shows: of the Java clients' metrics those that librdkafka counts too, under the Java names.

Only sums and states: Java's rates, means and maxima are over a window of its own, and librdkafka's over another.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from headrace.errors import HeadraceError

Statistics = Mapping[str, Any]  # librdkafka's, parsed from JSON.
_Reading = Callable[[Statistics], int]
_POLL_S: Final = 0.1
_POLLS_MAX: Final = 100


def _field(name: str) -> _Reading:
    return lambda statistics: int(statistics[name])


def _over_partitions(name: str) -> _Reading:
    """Of one topic. Partition -1 is where librdkafka keeps what has no partition yet."""
    return lambda topic: sum(int(one[name]) for number, one in topic["partitions"].items() if number != "-1")


_CLIENT: Final[dict[str, _Reading]] = {
    "incoming-byte-total": _field("rx_bytes"),
    "outgoing-byte-total": _field("tx_bytes"),
    "request-total": _field("tx"),
    "response-total": _field("rx"),
}
_NODE: Final[dict[str, _Reading]] = {
    "incoming-byte-total": _field("rxbytes"),
    "outgoing-byte-total": _field("txbytes"),
    "request-total": _field("tx"),
    "response-total": _field("rx"),
}


def producer_metrics(statistics: Statistics) -> dict[str, int]:
    return dict(
        _entries(
            statistics,
            kind="producer",
            client={"record-send-total": _field("txmsgs"), **_CLIENT},
            topic_group="producer-topic-metrics",
            topic={"byte-total": _over_partitions("txbytes"), "record-send-total": _over_partitions("txmsgs")},
        )
    )


def consumer_metrics(statistics: Statistics) -> dict[str, int]:
    found = dict(
        _entries(
            statistics,
            kind="consumer",
            client=_CLIENT,
            topic_group="consumer-fetch-manager-metrics",
            topic={
                "bytes-consumed-total": _over_partitions("rxbytes"),
                "records-consumed-total": _over_partitions("rxmsgs"),
            },
        )
    )
    tags = _tags(statistics)
    found[f"consumer-fetch-manager-metrics:bytes-consumed-total:{tags}"] = int(statistics["rxmsg_bytes"])
    found[f"consumer-fetch-manager-metrics:records-consumed-total:{tags}"] = int(statistics["rxmsgs"])
    if (group := statistics.get("cgrp")) is not None:
        found[f"consumer-coordinator-metrics:assigned-partitions:{tags}"] = int(group["assignment_size"])
        found[f"consumer-coordinator-metrics:rebalance-total:{tags}"] = int(group["rebalance_cnt"])
    return found


def metric_lines(metrics: Mapping[str, int]) -> list[str]:
    """Kafka's table: an empty line, a heading, names in order, values as Java writes doubles that count."""
    width = max(map(len, metrics))
    heading = f"{'Metric Name':<{width}}   Value"
    return ["", heading, *(f"{name:<{width}} : {metrics[name]:.3f}" for name in sorted(metrics))]


def _entries(
    statistics: Statistics,
    *,
    kind: str,
    client: Mapping[str, _Reading],
    topic_group: str,
    topic: Mapping[str, _Reading],
) -> Iterator[tuple[str, int]]:
    for name, read in client.items():
        yield f"{kind}-metrics:{name}:{_tags(statistics)}", read(statistics)
    for broker in statistics["brokers"].values():
        if broker["nodeid"] >= 0:  # Others are the addresses to begin with.
            for name, read in _NODE.items():
                tags = _tags(statistics, **{"node-id": f"node-{broker['nodeid']}"})
                yield f"{kind}-node-metrics:{name}:{tags}", read(broker)
    for one in statistics["topics"].values():
        for name, read in topic.items():
            yield f"{topic_group}:{name}:{_tags(statistics, topic=one['topic'])}", read(one)


def _tags(statistics: Statistics, **more: str) -> str:
    """As Java writes a map."""
    tags = {"client-id": statistics["client_id"], **more}
    return f"{{{', '.join(f'{name}={value}' for name, value in tags.items())}}}"


class LatestStatistics:
    """librdkafka's, as it tells them now and then: a client's `stats_cb`."""

    SETTINGS: Final = {"statistics.interval.ms": 500}

    def __init__(self) -> None:
        self._told: deque[str] = deque(maxlen=2)

    def __call__(self, text: str) -> None:
        self._told.append(text)

    def wait(self, poll: Callable[[float], object]) -> Statistics:
        """Those of a moment after this call, told while `poll` lets them be.

        The next ones may have been counted before, and waited in librdkafka's queue; those behind them were not.
        """
        self._told.clear()
        for _ in range(_POLLS_MAX):
            poll(_POLL_S)
            if len(self._told) > 1:
                found: Statistics = json.loads(self._told[-1])
                return found
        raise HeadraceError(f"librdkafka told no statistics within {_POLLS_MAX * _POLL_S:g} s")
