"""A load on a Spark cluster in earnest: a standalone master and two workers, whose executors are killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from headrace.pipeline.java import find_java_home
from headrace.testing import Broker, BrokerPool
from headrace.testing.ports import lasting_ports
from tests.pipeline.loading import check_ledger, records_of, rows_of, write_clicks

HOME = Path(pyspark.__file__).parent
ROWS = 10_000


@pytest.fixture
def broker(headrace_pool: BrokerPool) -> Iterator[Broker]:
    with headrace_pool.broker() as broker:
        yield broker


@contextmanager
def spark_process(directory: Path, kind: str, *words: str) -> Iterator[int]:
    """Spark's own programs from the wheel; the pid of one, which is gone afterwards with all that it began."""
    environment = os.environ | {
        "JAVA_HOME": str(find_java_home(os.environ)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(directory / "work"),
    }
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words]
    with (directory / f"{kind}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """The master's address, and the workers' pids."""
    (port,) = lasting_ports(1)
    with ExitStack() as running:
        running.enter_context(spark_process(tmp_path, "master.Master", "--port", str(port), "--webui-port", "0"))
        wait_until(lambda: is_open(port), 60)
        worker = ("worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", f"spark://127.0.0.1:{port}")
        yield (
            f"spark://127.0.0.1:{port}",
            [running.enter_context(spark_process(tmp_path, *worker)) for _ in range(2)],
        )


def is_open(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_until(holds: Callable[[], bool], timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def rows_loaded(lake: Path) -> int:
    return DeltaTable(lake).count() if DeltaTable.is_deltatable(str(lake)) else 0


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def test_a_load_on_a_cluster_outlives_its_executors(
    broker: Broker, cluster: tuple[str, list[int]], tmp_path: Path
) -> None:
    master, workers = cluster
    lake = tmp_path / "lake"
    write_clicks(broker, ROWS)
    words = (
        *(sys.executable, "-m", "headrace.cli.main", "load", "clicks", "--bootstrap", broker.bootstrap),
        *("--lake", str(lake), "--once", "--commit-offsets", "1000", "--master", master),
        *("--spark-option", "spark.driver.host=127.0.0.1", "--spark-option", "spark.executor.memory=512m"),
    )
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as driver:
        try:
            for worker, rows in zip(workers, (1, ROWS // 2), strict=True):
                wait_until(lambda least=rows: rows_loaded(lake) >= least, 200)
                executors = children(worker)
                assert executors
                for executor in executors:
                    os.kill(executor, signal.SIGKILL)
            _, told = driver.communicate(timeout=300)
        finally:
            driver.kill()
    assert driver.returncode == 0, told
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)
