"""What librdkafka says of itself, in the few numbers that tell of requests: for brokers that do not tell themselves.

Its statistics are windows of its own, which it gives every `statistics.interval.ms`: how long requests took to each
broker, how long they waited in the client before, how large batches were. As many numbers as it has are left out.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

INTERVAL_SETTING: Final = {"statistics.interval.ms": "1000"}
# Ours, librdkafka's, and by what its unit is divided to become ours.
_TIMES: Final = {
    "round_trip_ms": ("rtt", 1000),  # From the socket and back.
    "queued_ms": ("int_latency", 1000),  # From `produce` until it is in a batch that is to be sent.
    "outgoing_ms": ("outbuf_latency", 1000),  # From there to the socket.
    "throttled_ms": ("throttle", 1),
}
_SIZES: Final = {"batch_bytes": ("batchsize", 1), "batch_messages": ("batchcnt", 1)}
_KEPT: Final = {"mean": "avg", "stddev": "stddev", "p50": "p50", "p95": "p95", "p99": "p99", "max": "max"}
_COUNTS: Final = {"requests": "tx", "sent_bytes": "txbytes", "answers": "rx", "received_bytes": "rxbytes"}


def parse_statistics(text: str) -> dict[str, Any]:
    told = json.loads(text)
    return {
        "utc_s": told["time"],
        "unanswered_messages": told["msg_cnt"],
        "unanswered_bytes": told["msg_size"],
        "brokers": {
            broker["name"]: {
                **{name: broker[theirs] for name, theirs in _COUNTS.items()},
                "requests_by_kind": {kind: count for kind, count in broker.get("req", {}).items() if count},
                **_windows(broker, _TIMES),
            }
            for broker in told["brokers"].values()
            if broker["nodeid"] >= 0  # Those it was given to begin with are the same ones once more.
        },
        "topics": {topic["topic"]: _windows(topic, _SIZES) for topic in told["topics"].values()},
    }


def _windows(told: Mapping[str, Any], wanted: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Without those in which nothing was counted."""
    found = {}
    for name, (theirs, divisor) in wanted.items():
        window = told.get(theirs, {})
        if window.get("cnt"):
            kept = {ours: round(window[key] / divisor, 3) for ours, key in _KEPT.items()}
            found[name] = {**kept, "count": window["cnt"]}
    return found
