"""What `headrace lab send` sends to: a target as runs have it, or the cluster that the connection's options name.

Brokers that are started for it get the topic and keep a gigabyte of it, whatever is sent: a fast sender fills a disk in
minutes. A cluster that is there has its own topics, and is asked nothing: whoever only sends need not know its brokers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from headrace.lab.readings.brokers import local_brokers
from headrace.lab.targets.member import Member
from headrace.lab.targets.running import Target, running
from headrace.lab.targets.spec import TargetSpec, find_target
from headrace.lab.topics import create_topic

CLUSTER: Final = "cluster"
_KEPT_BYTES: Final = 1 << 30
_BROKER: Final = {"log.retention.check.interval.ms": "5000"}
_TOPIC: Final = {"retention.bytes": str(_KEPT_BYTES), "segment.bytes": str(_KEPT_BYTES // 4)}


def find_send_target(to: str, settings: Mapping[str, str]) -> TargetSpec:
    """`settings` are librdkafka's: of clients wherever they go, with the address of `CLUSTER`."""
    if to == CLUSTER:
        bootstrap = settings["bootstrap.servers"]
        return TargetSpec(name=bootstrap, kind=CLUSTER, bootstrap=bootstrap, client=settings)
    spec = find_target(to)
    properties = {**_BROKER, **spec.properties} if spec.has_own_brokers else spec.properties
    return replace(spec, client={**spec.client, **settings}, properties=properties)


@contextmanager
def ready(
    spec: TargetSpec, *, topic: str, partitions: int, is_remote: bool = False, metrics: Sequence[str] = ()
) -> Iterator[Target]:
    """`partitions` are of a topic that is made here. `metrics` are further pages of its brokers', for Prometheus."""
    with running(spec, partitions=partitions, is_remote=is_remote, asks_brokers=False) as target:
        if spec.has_own_brokers:
            create_topic(target.settings, topic, partitions=partitions, config=_TOPIC)
        members = target.members
        if spec.bootstrap is not None:
            pids = local_brokers(spec.bootstrap, metrics=metrics)
            members = [Member(number, pid=pid) for number, pid in enumerate(pids)]
        yield replace(target, members=members, metrics=[*target.metrics, *metrics])
