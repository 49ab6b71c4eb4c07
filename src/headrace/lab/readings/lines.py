"""Readings as lines of JSON: one that says what follows, one a second, and what the whole came to."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.lab.readings.minute_rates import MinuteRates
from headrace.lab.readings.node_counts import NodeReading
from headrace.lab.readings.reading import Reading
from headrace.lab.sent import utc_text

UNITS: Final = {
    "*_share": "of the time; cpu_share of one core; the machine's busy_share and steal_share of all its cores",
    "*_bytes": "bytes",
    "*_ms": "milliseconds, in the mean; *_ms_p99_at_most: 99% took no longer",
    "per_s": "a second; *_one_minute_ewma as in Kafka's meters, moved every 5 s by 1 - e^(-5/60); *_60s_window is true",
    "utc": "the end of the second",
}


class Lines:
    """What to write of each reading. It remembers the last minute, for its rates."""

    def __init__(self) -> None:
        self._rates: dict[str, MinuteRates] = {}

    def head(self, *, roles: Mapping[str, list[int]], metrics: list[str], cores: int) -> dict[str, Any]:
        return {"type": "readings", "units": UNITS, "cores": cores, "processes": dict(roles), "metrics": metrics}

    def of(self, reading: Reading) -> dict[str, Any]:
        found = reading.seen
        return {
            "type": "reading",
            "utc": utc_text(reading.utc_ns),
            "seconds": round(reading.seconds, 4),
            "machine": reading.machine.to_json(),
            "processes": [one.to_json() for one in reading.processes],
            "sockets": {
                "client_unsent_bytes": round(found.client_unsent_bytes),
                "broker_unread_bytes": round(found.broker_unread_bytes),
                "underway_share": round(found.underway_share, 4),
                "unread_share": round(found.unread_share, 4),
            },
            "nodes": {url: self._node(url, node) for url, node in reading.nodes.items()},
        }

    def _node(self, url: str, node: NodeReading) -> dict[str, Any]:
        rates = self._rates.setdefault(url, MinuteRates())
        requests = {str(kind): count for kind, count in node.requests.items()}
        told = rates.add({**requests, **node.traffic}, seconds=node.seconds)
        for kind, stages in node.stages.items():
            for name, buckets in stages.items():
                if (mean := buckets.mean) is not None:
                    told[str(kind)][name] = round(mean, 4)
                    told[str(kind)][f"{name}_p99_at_most"] = buckets.at_most(0.99)
        return {
            "seconds": round(node.seconds, 4),
            "requests": {name: told[name] for name in requests},
            "traffic": {name: told[name] for name in node.traffic},
            "cpu_share": _short(node.cpu_share),
            "syncs": node.syncs,
            "sync_share": _short(node.sync_share),
            "loop_lag_s_max": node.loop_lag_s,
        }


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
