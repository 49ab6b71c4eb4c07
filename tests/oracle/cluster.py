"""Several nodes of Apache Kafka as one cluster, each a broker and a controller, behind proxies that can cut it off.

Small heaps and short timeouts: a test waits seconds for an election, not half a minute.
"""

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.testing.ports import lasting_ports
from tests.oracle.kafka import ApacheKafka
from tests.oracle.proxy import Proxy

SIZE: Final = 3
JVM_OPTIONS: Final = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROPERTIES: Final = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "default.replication.factor": str(SIZE),
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}


class ApacheCluster:
    """Clients find the brokers by the addresses of the proxies."""

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.nodes = [
            ApacheKafka(directory / f"node-{number}", properties=properties, jvm_options=JVM_OPTIONS)
            for number in range(1, SIZE + 1)
        ]
        self.proxies = [Proxy((node.host, node.port)) for node in self.nodes]
        voters = ",".join(f"{number}@{node.host}:{node.controller_port}" for number, node in enumerate(self.nodes, 1))
        for number, (node, proxy) in enumerate(zip(self.nodes, self.proxies, strict=True), 1):
            among_brokers = f"BROKERS://{node.host}:{lasting_ports(1)[0]}"
            controller = f"CONTROLLER://{node.host}:{node.controller_port}"
            node.cluster_id = self.nodes[0].cluster_id
            node.properties |= {
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "listeners": f"CLIENTS://{node.bootstrap},{among_brokers},{controller}",
                "advertised.listeners": f"CLIENTS://{proxy.address},{among_brokers}",
                **_PROPERTIES,
            }

    @property
    def bootstrap(self) -> str:
        return ",".join(proxy.address for proxy in self.proxies)

    def node(self, node_id: int) -> ApacheKafka:
        return self.nodes[node_id - 1]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(SIZE) as pool:
                list(pool.map(ApacheKafka.launch, self.nodes))
            self.wait_ready()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def wait_ready(self) -> None:
        """Until every node knows of all the others."""
        for node in self.nodes:
            node.wait_ready(brokers=SIZE)

    def discard(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        for node in self.nodes:
            node.discard()
        shutil.rmtree(self.directory, ignore_errors=True)
