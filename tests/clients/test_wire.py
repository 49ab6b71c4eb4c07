"""The wire client against a real node: what it writes it reads, also through a restart and from many threads."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.errors import ErrorCode
from headrace.ids import TopicName, TopicPartition
from headrace.ports import Buffer
from headrace.protocol.compression import Codec
from headrace.protocol.messages import create_partitions, create_topics, fetch, produce
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.testing.node_process import NodeProcess
from headrace.wire.cluster import Cluster
from headrace.wire.errors import ConnectionClosed, Unavailable, UnknownTopic
from headrace.wire.fetch import FetchedPartition, parse_fetch_answer
from headrace.wire.offsets import EARLIEST, LATEST, list_offsets
from headrace.wire.produce import TopicBatches, encode_produce
from headrace.wire.settings import client_settings

RECORDS = [Record(b"key", b"value %d" % number, (("h", b"x"),), 1000 + number, number) for number in range(10)]


@pytest.fixture
def cluster(shared_node: NodeProcess) -> Iterator[Cluster]:
    with Cluster(client_settings(shared_node.bootstrap)) as made:
        yield made


def create(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    new = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    answer = cluster.call_any(create_topics.API, {"topics": [new], "timeout_ms": 10_000})
    assert answer["topics"][0]["error_code"] == ErrorCode.NONE


def write(cluster: Cluster, topic: str, partition: int, batch: Buffer) -> int:
    """The offset that it got."""
    leader = cluster.leader(topic, partition)
    connection = cluster.connection(leader.node_id, "produce")
    version = connection.version_of(produce.API)
    batches = [TopicBatches(topic, cluster.topic(topic).topic_id, [(partition, batch)])]
    body = encode_produce(version, batches, acks=-1, timeout_ms=10_000)
    answer = connection.receive(connection.send_encoded(produce.API, body, version=version))
    (one,) = answer["responses"][0]["partition_responses"]
    assert one["error_code"] == ErrorCode.NONE
    offset: int = one["base_offset"]
    return offset


def read(cluster: Cluster, topic: str, partition: int, offset: int, *, version: int | None = None) -> FetchedPartition:
    leader = cluster.leader(topic, partition)
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "topic_id": cluster.topic(topic).topic_id, "partitions": [asked]}]
    connection = cluster.connection(leader.node_id, "fetch")
    ticket = connection.send(fetch.API, {"max_wait_ms": 100, "min_bytes": 1, "topics": topics}, version=version)
    frame, position = connection.receive_frame(ticket)
    (found,) = parse_fetch_answer(frame, position, ticket.version).partitions
    return found


@pytest.mark.parametrize("version", range(fetch.API.version_min, fetch.API.version_max + 1))
def test_what_is_written_is_read_in_every_version(cluster: Cluster, topic_name: str, version: int) -> None:
    create(cluster, topic_name)
    assert write(cluster, topic_name, 0, encode_batch(RECORDS, codec=Codec.ZSTD)) == 0
    found = read(cluster, topic_name, 0, 0, version=version)
    assert (found.error, found.high_watermark) == (ErrorCode.NONE, 10)
    assert found.topic == (cluster.topic(topic_name).topic_id if version >= 13 else topic_name)
    assert decode_records(found.records) == RECORDS


def test_where_logs_begin_and_end(cluster: Cluster, topic_name: str) -> None:
    create(cluster, topic_name, 3)
    write(cluster, topic_name, 1, encode_batch(RECORDS))
    places = [TopicPartition(TopicName(topic_name), partition) for partition in range(3)]
    for wanted, offsets in ((EARLIEST, [0, 0, 0]), (LATEST, [0, 10, 0]), (1004, [-1, 4, -1])):
        found = list_offsets(cluster, dict.fromkeys(places, wanted))
        assert [found[place].offset for place in places] == offsets


def test_a_topic_that_does_not_exist(cluster: Cluster, topic_name: str) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic"):
        cluster.topic(topic_name)
    create(cluster, topic_name)
    assert cluster.partitions(topic_name) == range(1)


def test_partitions_that_were_added_are_learnt_by_asking_anew(cluster: Cluster, topic_name: str) -> None:
    create(cluster, topic_name)
    assert cluster.partitions(topic_name) == range(1)
    more = {"name": topic_name, "count": 4, "assignments": None}
    cluster.call_any(create_partitions.API, {"topics": [more], "timeout_ms": 10_000})
    cluster.refresh()
    assert cluster.partitions(topic_name) == range(4)


def test_many_threads_on_one_cluster(cluster: Cluster, topic_name: str) -> None:
    create(cluster, topic_name, 4)

    def work(number: int) -> list[Record]:
        partition = number % 4
        offset = write(cluster, topic_name, partition, encode_batch([Record(None, b"%d" % number)]))
        records = decode_records(read(cluster, topic_name, partition, offset).records)
        return [record for record in records if record.offset == offset]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(100)))
    # A fetch begins with the batch that holds its offset.
    assert [records[0].value for records in found] == [b"%d" % number for number in range(100)]


def test_through_a_restart(node: NodeProcess, topic_name: str) -> None:
    with Cluster(client_settings(node.bootstrap)) as cluster:
        create(cluster, topic_name)
        write(cluster, topic_name, 0, encode_batch(RECORDS))
        node.kill()
        with pytest.raises(Unavailable):
            read(cluster, topic_name, 0, 0)
        node.start()
        assert decode_records(read(cluster, topic_name, 0, 0).records) == RECORDS
        node.stop()
        node.start()
        # The connections were idle, and the broker ended them: nobody has to find that out by failing.
        assert decode_records(read(cluster, topic_name, 0, 0).records) == RECORDS


def test_what_may_pass_is_waited_for_through_a_restart(node: NodeProcess, topic_name: str) -> None:
    with Cluster(client_settings(node.bootstrap)) as cluster:
        create(cluster, topic_name)
        place = TopicPartition(TopicName(topic_name), 0)
        list_offsets(cluster, {place: LATEST})
        node.kill()
        starting = threading.Timer(0.3, node.start)
        starting.start()
        try:
            assert list_offsets(cluster, {place: LATEST})[place].offset == 0
        finally:
            starting.join()


def test_closing_ends_a_long_poll(cluster: Cluster, topic_name: str) -> None:
    create(cluster, topic_name)
    leader = cluster.leader(topic_name, 0)
    connection = cluster.connection(leader.node_id, "poll")
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": topic_name, "topic_id": cluster.topic(topic_name).topic_id, "partitions": [asked]}]
    ticket = connection.send(fetch.API, {"max_wait_ms": 60_000, "min_bytes": 1, "topics": topics})
    closing = threading.Timer(0.05, cluster.close)
    closing.start()
    with pytest.raises(ConnectionClosed):
        connection.receive(ticket, timeout_s=60)
    closing.join()
