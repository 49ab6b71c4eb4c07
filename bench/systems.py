"""The two brokers of the race, started alike: a new directory, free loopback ports, the defaults of each.

`start` returns the seconds from exec to the first usable answer. A broker is discarded with its data after
each block; nothing of one block is left for the next. How a node is started is known to the classes wrapped
here, not repeated.
"""

import importlib.metadata
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from bench import probe
from headrace.lab.readings import process_tree
from headrace.testing.node_process import NodeProcess
from headrace.testing.ports import lasting_ports
from tests.oracle.kafka import BROKER_JVM_OPTIONS, KAFKA_VERSION, ApacheKafka

HEADRACE: Final = "headrace"
KAFKA: Final = "kafka"

# kafka-run-class gives this one to every class it runs, beside those that the oracle already knows.
_JVM_OPTIONS: Final = (*BROKER_JVM_OPTIONS, "-XX:MaxInlineLevel=15")


class Broker(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def metrics_url(self) -> str | None:
        """Where it tells its metrics over HTTP, if it does."""
        ...

    def start(self, *, answer_from: str | None = None) -> float:
        """Seconds from exec to the first answer; with a topic, to the first of its records."""
        ...

    def stop(self) -> None:
        """A clean stop, as an operator asks for it."""
        ...

    def discard(self) -> None:
        """Leave no process and no file, whatever state it is in."""
        ...


class HeadraceBroker:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._http = f"127.0.0.1:{lasting_ports(1)[0]}"
        # With everything switched on.
        self._node = NodeProcess(directory / "data", settings={"http.listen": self._http})

    @property
    def pid(self) -> int:
        return self._node.pid

    @property
    def bootstrap(self) -> str:
        return self._node.bootstrap

    @property
    def metrics_url(self) -> str | None:
        return f"http://{self._http}/metrics"

    def start(self, *, answer_from: str | None = None) -> float:
        self._node.start()
        return _seconds_to_answer(self, answer_from)

    def stop(self) -> None:
        self._node.stop()

    def discard(self) -> None:
        self._node.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class KafkaBroker:
    def __init__(self, directory: Path) -> None:
        self._kafka = ApacheKafka(directory, jvm_options=_JVM_OPTIONS)

    @property
    def pid(self) -> int:
        return self._kafka.pid

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    @property
    def metrics_url(self) -> str | None:
        return None

    def start(self, *, answer_from: str | None = None) -> float:
        self._kafka.start()
        return _seconds_to_answer(self, answer_from)

    def stop(self) -> None:
        self._kafka.stop()

    def discard(self) -> None:
        self._kafka.discard()


def _seconds_to_answer(broker: Broker, topic: str | None) -> float:
    """Counted from the birth of the process: what Kafka does before it, formatting, is no part of a start."""
    probe.wait_answer(broker.bootstrap, topic=topic)
    return process_tree.age_s(broker.pid)


def headrace_version() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    commit = f" ({described.stdout.strip()})" if described.returncode == 0 else ""
    return importlib.metadata.version("headrace") + commit


SYSTEMS: Final[Mapping[str, Callable[[Path], Broker]]] = {HEADRACE: HeadraceBroker, KAFKA: KafkaBroker}
VERSIONS: Final[Mapping[str, Callable[[], str]]] = {HEADRACE: headrace_version, KAFKA: lambda: KAFKA_VERSION}


@contextmanager
def fresh_broker(system: str, *, under: Path) -> Iterator[Broker]:
    """A broker that was never started before, and is gone with all its data afterwards."""
    directory = Path(tempfile.mkdtemp(prefix=f"bench-{system}-", dir=under))
    broker = SYSTEMS[system](directory)
    try:
        yield broker
    finally:
        broker.discard()
