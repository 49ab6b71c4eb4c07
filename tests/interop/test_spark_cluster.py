"""Everything that Spark does for us, on a cluster: a standalone master, and two workers whose executors are killed.

The loads and the audit are commands, with a driver of their own; the rest shares one session. Loads on this machine
alone are here as well where they need a Spark of their own to be killed.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headrace import columnar
from headrace.pipeline import landing, streams
from headrace.pipeline.spark_tasks import SparkTasks
from headrace.testing import Broker, BrokerPool
from tests.clients.audited import BEGAN_MS, WINDOW_MS, send, troubles
from tests.interop.spark_alone import spark_alone
from tests.pipeline.loading import check_ledger, load, records_of, rows_of, write_clicks
from tests.pipeline.spark_processes import EXECUTOR, Session, SparkCluster, wait_until

WORKERS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """With a core of each worker for the session, and one for what a test starts as a process."""
    with SparkCluster(tmp_path_factory.mktemp("spark"), cores=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: SparkCluster) -> Iterator[SparkSession]:
    settings = {"spark.cores.max": str(WORKERS), "spark.sql.shuffle.partitions": "2"}
    with spark_alone(master=cluster.master, settings=cluster.options | settings) as session:
        yield session


@pytest.fixture
def spark(session: SparkSession) -> SparkSession:
    """With an executor of each worker, also after a test that killed them."""
    known = session.sparkContext._jsc.sc()
    # The driver is one of them.
    wait_until(lambda: known.getExecutorMemoryStatus().size() == 1 + WORKERS, 60, what="executors")
    return session


@pytest.fixture
def broker(headrace_pool: BrokerPool) -> Iterator[Broker]:
    with headrace_pool.broker() as broker:
        yield broker


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def at(broker: Broker) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap}


def values_of(broker: Broker, topic: str) -> Counter[bytes]:
    return Counter(columnar.read(broker.bootstrap, topic, columns=["value"]).read_all()["value"].to_pylist())


# --- The source and the sink ------------------------------------------------------------------------------------


def test_frames_are_written_to_a_topic_and_read_back_by_all_executors(spark: SparkSession, broker: Broker) -> None:
    broker.create_topic("clicks", 3)
    frame = spark.range(0, 5_000, 1, 4).selectExpr("CAST(id % 97 AS string) AS key", "CAST(id AS string) AS value")
    frame.write.format("headrace").options(**at(broker), topic="clicks").mode("append").save()
    assert values_of(broker, "clicks") == Counter(b"%d" % number for number in range(5_000))
    read = spark.read.format("headrace").options(**at(broker), subscribe="clicks", minPartitions=8).load()
    told = read.select("partition", "offset", "value").rdd.map(lambda row: (*row, os.getcwd())).collect()
    assert {(partition, offset, bytes(value)) for partition, offset, value, _ in told} == {
        record[1:3] + record[5:] for record in records_of(broker)
    }
    assert len(told) == 5_000
    assert len({directory for *_, directory in told}) == WORKERS  # Each executor has one of its own.


def test_a_stream_goes_from_topic_to_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("copies", 2)
    reader = spark.readStream.format("headrace").options(**at(broker), subscribe="clicks")
    for count in (2_000, 500):  # The second time only what came since.
        write_clicks(broker, count)
        stream = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=900).load()
        writer = stream.select("key", "value").writeStream.format("headrace").options(**at(broker), topic="copies")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    assert values_of(broker, "copies") == values_of(broker, "clicks")


# --- Windows ----------------------------------------------------------------------------------------------------


def test_windowed_counts_outlive_their_executors(
    spark: SparkSession, cluster: SparkCluster, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("clicks", 2)
    table = tmp_path / "pages"
    options = at(broker) | {"subscribe": "clicks", "startingOffsets": "earliest"}
    records = spark.readStream.format("headrace").options(**options).load()
    pages = records.select("timestamp", sf.col("value").cast("string").alias("page"))
    counted = streams.counted(pages, streams.Tumbling("1 minute"), by=["page"], late="10 minutes")
    sent: Counter[tuple[int, str]] = Counter()
    query = landing.to_table(
        counted,
        table,
        name="pages",
        checkpoint=tmp_path / "state",
        keys=["window_start", "page"],
        every="200 milliseconds",
    )
    try:
        for part in range(3):
            sent.update(write_pages(broker, part))
            if part < WORKERS:
                kill_executors(cluster.workers[part])  # In the middle of whatever they do.
            wait_until(lambda: sum(counts(table).values()) == sent.total(), 120, what="windows of all events")
    finally:
        query.stop()
    assert counts(table) == sent
    frame = spark.read.format("headrace").options(**at(broker), subscribe="clicks").load()
    assert counted_at_once(frame) == sent


def write_pages(broker: Broker, part: int) -> Counter[tuple[int, str]]:
    """Records of three minutes, in both partitions; how many of each page and minute."""
    pages = [(part + number % 3, f"/{number % 7}") for number in range(2_000)]
    rows = pa.table(
        {
            "value": [page.encode() for _, page in pages],
            "timestamp": pa.array([BEGAN_MS + minute * 60_000 for minute, _ in pages], pa.timestamp("ms", "UTC")),
        }
    )
    for partition, half in enumerate((rows.slice(0, 1_000), rows.slice(1_000))):
        columnar.write(broker.bootstrap, "clicks", half, partition=partition)
    return Counter(pages)


def counts(table: Path) -> Counter[tuple[int, str]]:
    if not DeltaTable.is_deltatable(str(table)):
        return Counter()
    rows = DeltaTable(table).to_pyarrow_table().to_pylist()
    assert len({(row["window_start"], row["page"]) for row in rows}) == len(rows)
    return Counter({(minute_of(row["window_start"].timestamp()), row["page"]): row["count"] for row in rows})


def counted_at_once(frame: DataFrame) -> Counter[tuple[int, str]]:
    """The same function over a frame that is read once."""
    pages = frame.select("timestamp", sf.col("value").cast("string").alias("page"))
    table = streams.counted(pages, streams.Tumbling("1 minute"), by=["page"]).toArrow().to_pylist()
    return Counter({(minute_of(row["window_start"].timestamp()), row["page"]): row["count"] for row in table})


def minute_of(time_s: float) -> int:
    return round(time_s * 1000 - BEGAN_MS) // 60_000


# --- Loads ------------------------------------------------------------------------------------------------------


def headrace(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "headrace.cli.main", *map(str, words)]


def on(cluster: SparkCluster) -> list[str]:
    options = (word for pair in cluster.options.items() for word in ("--spark-option", "=".join(pair)))
    return ["--master", cluster.master, *options]


def kill_executors(worker: Session) -> None:
    """Those of one worker, with -9. The master has others started in their place."""
    executors = worker.processes(EXECUTOR)
    assert executors
    for executor in executors:
        os.kill(executor, signal.SIGKILL)


def wait_for_rows(lake: Path, count: int) -> None:
    def are_there() -> bool:
        return DeltaTable.is_deltatable(str(lake)) and DeltaTable(lake).count() >= count

    wait_until(are_there, 200, what=f"{count} rows")


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A driver, and whatever it began, which is gone afterwards."""
    with subprocess.Popen(
        words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        try:
            yield driver
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)


def test_a_load_outlives_its_executors(broker: Broker, cluster: SparkCluster, lake: Path) -> None:
    count = 10_000
    write_clicks(broker, count)
    words = ("load", "clicks", "--bootstrap", broker.bootstrap, "--lake", lake, "--once", "--commit-offsets", "1000")
    with started(headrace(*words, *on(cluster))) as driver:
        for worker, rows in zip(cluster.workers, (1, count // 2), strict=True):
            wait_for_rows(lake, rows)
            kill_executors(worker)
        _, told = driver.communicate(timeout=300)
    assert driver.returncode == 0, told
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


@pytest.mark.parametrize("master", ["cluster", "local"])
def test_a_continuous_load_killed_with_its_driver_goes_on_where_it_was_until_it_is_told_to_stop(
    request: pytest.FixtureRequest, master: str, broker: Broker, lake: Path
) -> None:
    where = on(request.getfixturevalue("cluster")) if master == "cluster" else ["--master", "local[2,3]"]
    write_clicks(broker, 6_000)
    words = headrace(
        *("load", "clicks", "--bootstrap", broker.bootstrap, "--lake", lake),
        *("--every", "200ms", "--commit-offsets", "600", *where),
    )
    with started(words) as driver:
        wait_for_rows(lake, 1)
        os.kill(driver.pid, signal.SIGKILL)  # Its JVM notices and ends; tasks may write a little longer.
        driver.wait()
    table = rows_of(lake)
    assert not table - records_of(broker)
    assert sum(table.values()) < 6_000
    with started(words) as driver:
        wait_for_rows(lake, 6_000)
        write_clicks(broker, 1_000)
        wait_for_rows(lake, 7_000)
        os.kill(driver.pid, signal.SIGINT)
        _, told = driver.communicate(timeout=60)
    assert driver.returncode == 128 + signal.SIGINT
    *loads, last = told.splitlines()  # And not a word of Spark's.
    assert last.startswith("stopped: what was committed stays")
    assert all(line.startswith(f"{lake}: ") for line in loads)
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


# --- The audit --------------------------------------------------------------------------------------------------


def test_an_audit_that_the_cluster_counts_names_what_is_missing(
    spark: SparkSession, cluster: SparkCluster, broker: Broker, lake: Path
) -> None:
    broker.create_topic("clicks", 3)
    send(broker, "clicks", each=300)
    load(broker, lake, run=SparkTasks(lambda: spark))
    lose_one(lake, window=1)
    words = ("audit", "clicks", "--bootstrap", broker.bootstrap, "--lake", lake, "--json", *on(cluster))
    ran = subprocess.run(headrace(*words), capture_output=True, text=True, timeout=200, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert troubles(json.loads(ran.stdout)) == {("lake", 1): {"missing": 1}}


def lose_one(lake: Path, *, window: int) -> None:
    rows = DeltaTable(lake).to_pyarrow_table(columns=["partition", "offset", "timestamp"])
    times = rows["timestamp"].cast(pa.int64()).to_pylist()
    first_us = 1000 * (BEGAN_MS + window * WINDOW_MS)
    number = next(number for number, time_us in enumerate(times) if first_us <= time_us < first_us + 1000 * WINDOW_MS)
    row = rows.slice(number, 1).to_pylist()[0]
    deleted = DeltaTable(lake).delete(f'"partition" = {row["partition"]} and "offset" = {row["offset"]}')
    assert deleted["num_deleted_rows"] == 1
