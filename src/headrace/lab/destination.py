"""Where a sender sends to: a cluster that is there, a node or a null sink that is started for it and ended after it.

A node's topic keeps a gigabyte, whatever is sent: a fast sender fills a disk in minutes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from headrace.lab.errors import LabError
from headrace.lab.null_sink import NullSink
from headrace.lab.targets.leash import leashed_directory
from headrace.lab.topics import create_topic
from headrace.testing.node_process import NodeProcess
from headrace.testing.ports import lasting_ports

DESTINATIONS: Final = ("cluster", "node", "null")
_KEPT_BYTES: Final = 1 << 30
_NODE: Final = {"log.retention.check.interval.ms": "5000"}
_TOPIC: Final = {"retention.bytes": str(_KEPT_BYTES), "segment.bytes": str(_KEPT_BYTES // 4)}
_BOOTSTRAP: Final = "bootstrap.servers"
LOOPBACK: Final = "127.0.0.1"


@dataclass(slots=True)
class Destination:
    name: str
    settings: Mapping[str, str] = field(repr=False)  # librdkafka's; there may be a password in them.
    pids: tuple[int, ...] = ()  # Of what was started.
    metrics: tuple[str, ...] = ()  # Where it tells what it counts, for Prometheus.


@contextmanager
def destination(
    to: str,
    settings: Mapping[str, str],
    *,
    topic: str,
    partitions: int,
    with_metrics: bool = False,
    host: str = LOOPBACK,
) -> Iterator[Destination]:
    """Ready to be sent to. What is started here listens on `host`, and gets the topic with so many partitions; a
    cluster has its own."""
    match to:
        case "cluster":
            yield Destination(settings[_BOOTSTRAP], settings)
        case "null":
            with NullSink(partitions=partitions, host=host) as sink:
                yield Destination("null sink", {**settings, _BOOTSTRAP: sink.bootstrap}, (sink.pid,))
        case "node":
            port, http_port = lasting_ports(2)
            http = f"{LOOPBACK}:{http_port}" if with_metrics else None
            with_http = _NODE if http is None else {**_NODE, "http.listen": http}
            with leashed_directory() as data, NodeProcess(data, listen=f"{host}:{port}", settings=with_http) as node:
                there = {**settings, _BOOTSTRAP: node.bootstrap}
                create_topic(there, topic, partitions=partitions, config=_TOPIC)
                yield Destination("node", there, (node.pid,), () if http is None else (f"http://{http}/metrics",))
                node.stop()
        case _:
            raise LabError(f"there is no destination {to!r}; there are {', '.join(DESTINATIONS)}")
