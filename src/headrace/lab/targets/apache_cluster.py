"""Several nodes of Apache Kafka as one cluster, each a broker and a controller; behind proxies where it is to be cut.

A proxy costs much of the CPU that is being measured, so there is none unless it is asked for.
"""

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.lab.targets.apache_kafka import BROKER_JVM_OPTIONS, ApacheKafka
from headrace.lab.targets.proxy import Proxy
from headrace.testing.ports import lasting_ports

_REPLICAS_MAX: Final = 3


def _shared_properties(brokers: int) -> dict[str, str]:
    replicas = str(min(brokers, _REPLICAS_MAX))
    in_sync = "2" if brokers > 1 else "1"
    return {
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


class ApacheCluster:
    """Clients find the brokers by `bootstrap`. A node's number is its id, from 1 on."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int,
        properties: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = BROKER_JVM_OPTIONS,
        is_proxied: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        self.directory = directory
        self.nodes = [
            ApacheKafka(directory / f"node-{number}", properties=properties, jvm_options=jvm_options, host=host)
            for number in range(1, brokers + 1)
        ]
        self.proxies = [Proxy((node.host, node.port)) for node in self.nodes] if is_proxied else []
        voters = ",".join(f"{number}@{node.host}:{node.controller_port}" for number, node in enumerate(self.nodes, 1))
        for number, (node, address) in enumerate(zip(self.nodes, self.addresses, strict=True), 1):
            among_brokers = f"BROKERS://{node.host}:{lasting_ports(1)[0]}"
            controller = f"CONTROLLER://{node.host}:{node.controller_port}"
            node.cluster_id = self.nodes[0].cluster_id
            node.properties = {
                **_shared_properties(brokers),
                **node.properties,
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "listeners": f"CLIENTS://{node.bootstrap},{among_brokers},{controller}",
                "advertised.listeners": f"CLIENTS://{address},{among_brokers}",
            }

    @property
    def addresses(self) -> list[str]:
        """Of each broker, for clients."""
        return [proxy.address for proxy in self.proxies] or [node.bootstrap for node in self.nodes]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def node(self, node_id: int) -> ApacheKafka:
        return self.nodes[node_id - 1]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(len(self.nodes)) as pool:
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
            node.wait_ready(brokers=len(self.nodes))

    def discard(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        for node in self.nodes:
            node.discard()
        shutil.rmtree(self.directory, ignore_errors=True)
