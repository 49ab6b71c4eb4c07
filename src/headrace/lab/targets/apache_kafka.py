"""Apache Kafka: one combined KRaft node, and how to run the tools of its jars.

The jars come from Maven by the pinned `pom.xml` beside this module and stay in the cache. A node listens on free
loopback ports, keeps everything under one directory, and is ready once its own metadata lists it. Knows nothing of
Headrace's broker and needs nothing but Python, Java and Maven.
"""

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.lab.targets.tools import ToolFailed, cached_build, cached_place, require_tool, run_checked
from headrace.testing.ports import lasting_ports

KAFKA_VERSION = "4.1.1"
NODE_ID = 1

_POM = Path(__file__).with_name("pom.xml")
_CACHED = f"kafka-{KAFKA_VERSION}"
_START_TIMEOUT_S = 180
_STOP_TIMEOUT_S = 30

# What Kafka's own start scripts give the broker, so that a race against it is fair.
BROKER_JVM_OPTIONS = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-XX:MaxInlineLevel=15",
)
# A short-lived tool never earns back the second compiler, nor threads for a parallel collector.
TOOL_JVM_OPTIONS = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Both are chatty on standard error below this.
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

_SINGLE_NODE_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def kafka_jars() -> Path:
    """The directory with every jar of the broker, its tools and its client; fetched once."""

    def fetch(into: Path) -> None:
        maven = require_tool("mvn", hint="the Debian package is maven")
        run_checked(
            [maven, "-q", "-B", "-f", _POM, "dependency:copy-dependencies", f"-DoutputDirectory={into}"],
            timeout_s=600,
        )

    return cached_build(_CACHED, [_POM], fetch)


def has_jars() -> bool:
    """Whether they are here already."""
    return cached_place(_CACHED, [_POM]).is_dir()


def java_command(*, jvm_options: Sequence[str] = TOOL_JVM_OPTIONS, class_path: Sequence[Path] = ()) -> list[str]:
    """How to run a main class with Kafka's jars; append the class and its arguments."""
    java = require_tool("java", hint="the Debian package is default-jre-headless")
    path = os.pathsep.join([*map(str, class_path), f"{kafka_jars()}/*"])
    return [java, *jvm_options, _LOGGING, "-cp", path]


def run_tool(main_class: str, *arguments: str | Path, timeout_s: float = 120) -> str:
    """Standard output of one of Kafka's command-line tools."""
    command = [*java_command(), main_class, *map(str, arguments)]
    return run_checked(command, timeout_s=timeout_s).decode()


class ApacheKafka:
    """A broker and its controller in one process. Its ports and cluster id last over restarts."""

    name = "apache"
    node_id = NODE_ID

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = BROKER_JVM_OPTIONS,
        host: str = "127.0.0.1",
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.log_file = directory / "kafka.log"
        self.host = host
        self.port, self.controller_port = lasting_ports(2)
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.properties = dict(properties or {})
        self._jvm_options = tuple(jvm_options)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def temporary(cls, *, properties: Mapping[str, str] | None = None) -> "ApacheKafka":
        """A node in a new directory under the system's temporary one; `discard` removes it."""
        return cls(Path(tempfile.mkdtemp(prefix="apache-kafka-")), properties=properties)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it died since it was launched; `kill` then tidies up after it."""
        assert self._process is not None
        return self._process.poll() is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self.data_dir / f"{topic}-{partition}"

    def start(self) -> None:
        """Format the storage on first use, start, and return once clients are served."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Format and start, and do not wait: a node of several is not ready before the others are there."""
        assert self._process is None, "already running"
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._all_properties().items()))
        if not (self.data_dir / "meta.properties").exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            # One argument with '=', because one id in 64 begins with a dash.
            cluster = f"--cluster-id={self.cluster_id}"
            run_tool("kafka.tools.StorageTool", "format", cluster, "--config", config)
        command = [*java_command(jvm_options=self._jvm_options), "kafka.Kafka", str(config)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                process_group=0,  # Ctrl-C is for whoever started it, who then ends it.
            )

    def stop(self) -> None:
        """A clean stop: logs flushed, recovery points written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """An unclean one."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def discard(self) -> None:
        """Kill the node if it runs, and remove all that it kept."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _all_properties(self) -> dict[str, str]:
        return (
            _SINGLE_NODE_PROPERTIES
            | {
                "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{self.host}:{self.controller_port}",
                "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
                "controller.quorum.voters": f"{NODE_ID}@{self.host}:{self.controller_port}",
                "log.dirs": str(self.data_dir),
            }
            | self.properties
        )

    def wait_ready(self, *, brokers: int = 1) -> None:
        """Until this node knows of so many brokers."""
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while _brokers_listed(self.host, self.port) < brokers:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ToolFailed(f"Apache Kafka did not start:\n{self.log_text()[-4000:]}")
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None, "not running"
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ToolFailed(f"Apache Kafka did not stop:\n{self.log_text()[-4000:]}") from None
        finally:
            self._process = None

    def log_text(self) -> str:
        return self.log_file.read_text(errors="replace")


def _brokers_listed(host: str, port: int) -> int:
    """How many brokers Metadata names: the port is open before the node may lead anything."""
    body = struct.pack(">hhih", 3, 1, 0, -1) + struct.pack(">i", 0)  # Metadata v1, no client id, no topics.
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0]) if len(answer) == 12 else 0
