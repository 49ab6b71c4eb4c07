"""Reading, following and writing while three brokers of Apache Kafka have trouble.

Leaders move, a broker is restarted or killed, connections are cut, partitions are added: a read is still exactly the
rows it was asked for, following misses and repeats nothing, and what was written is there once, in order, and no more
than that was acknowledged.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace import columnar
from headrace.protocol.messages.produce import API as PRODUCE
from tests.clients.columnar_rows import confluent_rows
from tests.interop.clients import CLIENTS
from tests.interop.test_clients import usable
from tests.oracle.cluster import SIZE, ApacheCluster
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import ToolMissing, without_tool

PARTITIONS = 6
ROWS = 24_000  # Of a kilobyte: some megabytes of each partition, and several fetches.
# Little at a time, so that trouble comes in the middle.
MEMORY_BYTES = 4 << 20
CONFIG = {"metadata.max.age.ms": 500}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)
    usable("java")
    with ApacheCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def filled(cluster: ApacheCluster) -> pa.Table:
    """The topic `filled`, by partition and offset."""
    create(cluster, "filled", PARTITIONS)
    values = [b"%d" % number + b"." * 1000 for number in range(ROWS)]
    written = columnar.write(cluster.bootstrap, "filled", pa.table({"value": values}), batch_bytes=20_000)
    assert written.records == ROWS
    everything = in_order(columnar.read(cluster.bootstrap, "filled").read_all())
    assert sorted(everything["value"].to_pylist()) == sorted(values)
    return everything


def create(cluster: ApacheCluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, SIZE)])[topic].result(30)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def leader_of(cluster: ApacheCluster, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    try:
        return int(consumer.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)
    finally:
        consumer.close()


# --- Troubles -------------------------------------------------------------------------------------------------------


def move_leaders(cluster: ApacheCluster, *topics: str) -> None:
    """Every partition to its next replica, twice."""
    steps = [{"do": "rotate", "topic": topic, "rounds": 1, "pause_ms": 300} for topic in topics]
    CLIENTS["java"].administer(cluster.bootstrap, steps * 2)


def restart_a_leader(cluster: ApacheCluster, *topics: str) -> None:
    """It hands over what it leads before it goes."""
    node = cluster.node(leader_of(cluster, topics[0]))
    node.stop()
    node.start()
    cluster.wait_ready()


def kill_a_leader(cluster: ApacheCluster, *topics: str) -> None:
    """Nobody knows before its session is over."""
    node = cluster.node(leader_of(cluster, topics[0]))
    node.kill()
    time.sleep(4)
    node.start()
    cluster.wait_ready()


def cut_connections(cluster: ApacheCluster, *topics: str) -> None:
    for number in range(30):
        cluster.proxies[number % SIZE].cut()
        time.sleep(0.1)


TROUBLES: dict[str, Callable[..., None]] = {
    "leaders moved": move_leaders,
    "broker restarted": restart_a_leader,
    "broker killed": kill_a_leader,
    "connections cut": cut_connections,
}


# --- What goes on meanwhile -----------------------------------------------------------------------------------------


def write_until(over: threading.Event, bootstrap: str, topic: str) -> tuple[int, columnar.Written]:
    """Numbers from zero on, with keys; and one more piece once it is over. How many, and what was acknowledged."""
    count = 0
    with columnar.Writer(bootstrap, topic, batch_bytes=4096, compression="lz4", config=CONFIG) as writer:
        is_last = False
        while not is_last:
            is_last = over.wait(0.02)
            numbers = range(count, count + 100)
            keys, values = [b"%d" % (number % 997) for number in numbers], [b"%d" % number for number in numbers]
            writer.write(pa.record_batch({"key": keys, "value": values}))
            count += 100
        return count, writer.flush()


def read_until(over: threading.Event, bootstrap: str, topic: str, expected: pa.Table) -> int:
    """All of a topic again and again, slowly. How often."""
    for number in itertools.count(1):
        is_last = over.is_set()
        batches = []
        for batch in columnar.read(bootstrap, topic, memory_bytes=MEMORY_BYTES, config=CONFIG):
            batches.append(batch)
            time.sleep(0.02)
        assert in_order(pa.Table.from_batches(batches)).equals(expected)
        if is_last:
            return number
    raise AssertionError


class Following:
    """A topic from its beginning on, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._reader = columnar.follow(
            bootstrap, topic, start="earliest", memory_bytes=MEMORY_BYTES, stop=self._stop, config=CONFIG
        )
        self._done = self._pool.submit(lambda: self._batches.extend(self._reader))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._pool.shutdown()

    def rows(self, count: int) -> pa.Table:
        """Once so many have come; and whatever else comes in a while."""
        deadline_s = time.monotonic() + 60
        while sum(batch.num_rows for batch in self._batches) < count and not self._done.done():
            assert time.monotonic() < deadline_s, "rows that were acknowledged do not come"
            time.sleep(0.05)
        time.sleep(0.5)
        self._stop.set()
        self._done.result(30)
        return pa.Table.from_batches(self._batches)


def check_written(bootstrap: str, topic: str, count: int, written: columnar.Written, followed: pa.Table) -> None:
    found = confluent_rows(bootstrap, topic)
    numbers = [int(row.message.value or b"") for row in found]
    assert sorted(numbers) == list(range(count)), "lost or repeated"
    assert written.records == count
    assert {row.partition for row in found} == written.partitions.keys()
    for partition, delivered in written.partitions.items():
        mine = [row for row in found if row.partition == partition]
        assert delivered == (len(mine), mine[0].offset, mine[-1].offset)
    last: dict[int, int] = {}
    for row, number in zip(found, numbers, strict=True):
        assert number > last.get(row.partition, -1), "out of order"
        last[row.partition] = number
    seen = in_order(followed)
    assert seen["value"].to_pylist() == [row.message.value for row in found]
    assert seen["offset"].to_pylist() == [row.offset for row in found]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_costs_no_row_and_repeats_none(
    cluster: ApacheCluster, filled: pa.Table, topic_name: str, trouble: str
) -> None:
    bootstrap = cluster.bootstrap
    create(cluster, topic_name, PARTITIONS)
    over = threading.Event()
    with Following(bootstrap, topic_name) as following, ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write_until, over, bootstrap, topic_name)
        reading = pool.submit(read_until, over, bootstrap, "filled", filled)
        try:
            time.sleep(0.5)  # All three are in the middle of it.
            TROUBLES[trouble](cluster, "filled", topic_name)
        finally:
            over.set()
        count, written = writing.result(120)
        assert reading.result(120) >= 2
        check_written(bootstrap, topic_name, count, written, following.rows(count))


def read_partitions(bootstrap: str, topic: str) -> set[int]:
    """Those that have records."""
    reader = columnar.read(bootstrap, topic, columns=["partition"], config=CONFIG)
    return set(reader.read_all()["partition"].to_pylist())


def test_partitions_that_are_added_are_written_to_and_followed(cluster: ApacheCluster, topic_name: str) -> None:
    """And are none of a read that had begun."""
    bootstrap = cluster.bootstrap
    create(cluster, topic_name, 2)
    over = threading.Event()
    with Following(bootstrap, topic_name) as following, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_until, over, bootstrap, topic_name)
        try:
            deadline_s = time.monotonic() + 60
            while read_partitions(bootstrap, topic_name) != {0, 1}:  # Brokers that have just started take their time.
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
            bounded = columnar.read(bootstrap, topic_name, memory_bytes=MEMORY_BYTES, config=CONFIG)
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_partitions([NewPartitions(topic_name, 5)])[topic_name].result(30)
            time.sleep(2)  # Some times as long as what is known of a cluster may be used.
            assert set(bounded.read_all()["partition"].to_pylist()) == {0, 1}
        finally:
            over.set()
        count, written = writing.result(120)
        assert written.partitions.keys() == set(range(5))
        check_written(bootstrap, topic_name, count, written, following.rows(count))


def test_answers_lost_after_the_append_cost_no_row_and_repeat_none(cluster: ApacheCluster, topic_name: str) -> None:
    """Connections break after some bytes of answers, anywhere in them, and a hundred times in that to a Produce."""
    bootstrap = cluster.bootstrap
    create(cluster, topic_name, PARTITIONS)
    chance = random.Random(5)
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        for proxy in cluster.proxies:
            # The first answer, what a broker speaks, has some hundred bytes already.
            proxy.answer_bytes = lambda: chance.randrange(300, 6000)
        try:
            writing = pool.submit(write_until, over, bootstrap, topic_name)
            deadline_s = time.monotonic() + 90
            while sum(proxy.cuts[PRODUCE.key] for proxy in cluster.proxies) < 100 and not writing.done():
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
        finally:
            over.set()
            for proxy in cluster.proxies:
                proxy.answer_bytes = lambda: None
        count, written = writing.result(120)
    with Following(bootstrap, topic_name) as following:
        check_written(bootstrap, topic_name, count, written, following.rows(count))
