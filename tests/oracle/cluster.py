"""Three nodes of Apache Kafka as one cluster behind proxies that can cut it off: the lab's target, in a hurry.

Small heaps and short timeouts: a test waits seconds for an election, not half a minute.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import tests.oracle.toolbox  # noqa: F401  # Says where the cache is.
from headrace.lab.targets import apache_cluster

SIZE: Final = 3
JVM_OPTIONS: Final = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES: Final = {
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    # One node is enough to ask for these, and they are there at once.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class ApacheCluster(apache_cluster.ApacheCluster):
    """Clients find the brokers by the addresses of the proxies."""

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(
            directory,
            brokers=SIZE,
            properties={**_PROPERTIES, **(properties or {})},
            jvm_options=JVM_OPTIONS,
            is_proxied=True,
        )
