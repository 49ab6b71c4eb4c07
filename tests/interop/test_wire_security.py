"""The wire client against Apache Kafka behind TLS and SASL, from the files that people have."""

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from headrace import columnar
from headrace.client import Consumer, Partition, Producer
from headrace.errors import ErrorCode, HeadraceError
from headrace.ids import TopicName, TopicPartition
from headrace.protocol.messages import create_topics, describe_groups, fetch, find_coordinator, list_groups, produce
from headrace.protocol.records import Record, decode_records, encode_batch
from headrace.wire.cluster import Cluster
from headrace.wire.connection import Connection
from headrace.wire.errors import AuthenticationRefused, TlsRefused
from headrace.wire.fetch import parse_fetch_answer
from headrace.wire.offsets import LATEST, list_offsets
from headrace.wire.produce import TopicBatches, encode_produce
from headrace.wire.settings import client_settings, parse_bootstrap
from tests.clients.command_line import Headrace
from tests.oracle.kafka import java_command
from tests.oracle.secured import (
    MECHANISMS,
    PASSWORD,
    SCRAM_PASSWORD,
    SCRAM_USER,
    SESSION_MS,
    USER,
    SecuredKafka,
    as_property,
    jaas_config,
)
from tests.oracle.toolbox import ToolMissing, require_tool, without_tool

SOON_S = 15.0  # An error that takes longer is a hang.


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    try:
        java_command()
        require_tool("openssl", hint="the Debian package is openssl")
    except ToolMissing as missing:
        without_tool(missing)
    with SecuredKafka(tmp_path_factory.mktemp("secured") / "kafka") as broker:
        yield broker


def java_file(secured: SecuredKafka, directory: Path, mechanism: str, **changes: str) -> Path:
    """The file that the benchmark paper prints, with this broker's address, login and authority."""
    settings = {
        "bootstrap.servers": secured.bootstrap_of("SECURE"),
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": jaas_config(mechanism),
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": mechanism,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.path_of("authority")),
    }
    settings |= {name.replace("_", "."): value for name, value in changes.items()}
    file = directory / "client.properties"
    file.write_text("# Kafka\n" + "".join(f"{name}={as_property(value)}\n" for name, value in settings.items()))
    return file


def librdkafka_words(secured: SecuredKafka, mechanism: str) -> dict[str, str]:
    user, password = (USER, PASSWORD) if mechanism == "PLAIN" else (SCRAM_USER, SCRAM_PASSWORD)
    return {
        "bootstrap.servers": secured.bootstrap_of("SECURE"),
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(secured.path_of("authority")),
    }


def write_and_read(cluster: Cluster, topic: str) -> None:
    """A megabyte there and back, so that more than one TLS record is needed each way."""
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    assert cluster.call_any(create_topics.API, {"topics": [new], "timeout_ms": 10_000})["topics"][0]["error_code"] == 0
    leader = cluster.leader(topic, 0)
    topic_id = cluster.topic(topic).topic_id
    records = [Record(b"key", bytes([number]) * 10_000, (), 1000 + number, number) for number in range(80)]
    connection = cluster.connection(leader.node_id, "produce")
    version = connection.version_of(produce.API)
    batches = [TopicBatches(topic, topic_id, [(0, encode_batch(records))])]
    body = encode_produce(version, batches, acks=-1, timeout_ms=10_000)
    answer = connection.receive(connection.send_encoded(produce.API, body, version=version))
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    place = TopicPartition(TopicName(topic), 0)
    assert list_offsets(cluster, {place: LATEST})[place].offset == 80
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 4 << 20, "current_leader_epoch": leader.epoch}
    topics = [{"topic": topic, "topic_id": topic_id, "partitions": [asked]}]
    reading = cluster.connection(leader.node_id, "fetch")
    ticket = reading.send(fetch.API, {"max_wait_ms": 5000, "min_bytes": 1, "max_bytes": 8 << 20, "topics": topics})
    frame, position = reading.receive_frame(ticket)
    (partition,) = parse_fetch_answer(frame, position, ticket.version).partitions
    assert (partition.error, partition.high_watermark) == (0, 80)
    assert decode_records(partition.records) == records


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_from_a_file_of_javas(secured: SecuredKafka, tmp_path: Path, topic_name: str, mechanism: str) -> None:
    with Cluster(client_settings(config=java_file(secured, tmp_path, mechanism))) as cluster:
        write_and_read(cluster, topic_name)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_in_librdkafkas_words(secured: SecuredKafka, topic_name: str, mechanism: str) -> None:
    with Cluster(client_settings(config=librdkafka_words(secured, mechanism))) as cluster:
        write_and_read(cluster, topic_name)


def test_without_tls(secured: SecuredKafka, topic_name: str) -> None:
    words = librdkafka_words(secured, "PLAIN") | {"security.protocol": "SASL_PLAINTEXT"}
    with Cluster(client_settings(secured.bootstrap_of("PLAINLY"), words)) as cluster:
        write_and_read(cluster, topic_name)


def test_with_a_certificate_instead_of_a_password(secured: SecuredKafka, tmp_path: Path, topic_name: str) -> None:
    config = {
        "security.protocol": "SSL",
        "ssl.truststore.certificates": secured.path_of("authority").read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(secured.path_of("client-both")),
    }
    with Cluster(client_settings(secured.bootstrap_of("MUTUAL"), config)) as cluster:
        write_and_read(cluster, topic_name)


# --- What stands on it ------------------------------------------------------------------------------------------

ROWS = 60_000
PARTITIONS = 4


def create(secured: SecuredKafka, file: Path, topic: str) -> None:
    Headrace(secured.bootstrap_of("SECURE"))("topics", "create", topic, "-p", str(PARTITIONS), "--command-config", file)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_columns_there_and_back(secured: SecuredKafka, tmp_path: Path, topic_name: str, mechanism: str) -> None:
    """Twelve megabytes in batches of 20 kB: many requests under way on each connection, and answers of megabytes."""
    file = java_file(secured, tmp_path, mechanism)
    create(secured, file, topic_name)
    values = [b"%0200d" % number for number in range(ROWS)]
    table = pa.table({"value": values, "place": pa.array([number % PARTITIONS for number in range(ROWS)], pa.int32())})
    bootstrap = secured.bootstrap_of("SECURE")
    written = columnar.write(bootstrap, topic_name, table, partition="place", batch_bytes=20_000, config=file)
    assert written.records == ROWS
    scan = columnar.Scan(bootstrap, topic_name, columns=["partition", "value"], memory_bytes=8 << 20, config=file)
    found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    for batch in scan:
        found[batch["partition"][0].as_py()] += batch["value"].to_pylist()
    assert found == {number: values[number::PARTITIONS] for number in range(PARTITIONS)}
    assert scan.bytes_fetched > 200 * ROWS


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_message_sets_and_streams(secured: SecuredKafka, tmp_path: Path, topic_name: str, mechanism: str) -> None:
    file = java_file(secured, tmp_path, mechanism)
    create(secured, file, topic_name)
    with Cluster(client_settings(config=file)) as cluster:
        wait_for_coordinator(cluster, topic_name)
    bootstrap = secured.bootstrap_of("SECURE")
    payloads = [b"%04d" % number for number in range(2000)]
    with Producer(bootstrap, config=file) as producer:
        assert len(producer.send(topic_name, payloads).result(timeout=30)) == len(payloads)
    with Consumer(bootstrap, topic_name, start="smallest", config=file) as consumer:
        (stream,) = consumer.create_message_streams({topic_name: 1})[topic_name]
        seen = list(islice(stream, len(payloads)))
        consumer.commit(seen[-1])
        place = Partition(topic_name, seen[-1].partition)
        assert consumer.committed([place]) == {place: seen[-1].offset + 1}
    assert sorted(message.value or b"" for message in seen) == payloads


# --- Refusals -------------------------------------------------------------------------------------------------


def refused(listener: str, secured: SecuredKafka, config: Path | Mapping[str, str], kind: type[HeadraceError]) -> str:
    """The sentence that one gets, which takes no longer than it must."""
    began_s = time.monotonic()
    with Cluster(client_settings(secured.bootstrap_of(listener), config)) as cluster, pytest.raises(kind) as caught:
        cluster.topic("anything")
    assert time.monotonic() - began_s < SOON_S
    text = str(caught.value)
    assert "\n" not in text
    assert secured.bootstrap_of(listener) in text
    return text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(secured: SecuredKafka, tmp_path: Path, mechanism: str) -> None:
    file = java_file(secured, tmp_path, mechanism, sasl_jaas_config=jaas_config(mechanism, password="guess"))
    text = refused("SECURE", secured, file, AuthenticationRefused)
    assert f"by {mechanism}: Authentication failed" in text
    assert "guess" not in text


def test_an_expired_certificate(secured: SecuredKafka, tmp_path: Path) -> None:
    text = refused("EXPIRED", secured, java_file(secured, tmp_path, "PLAIN"), TlsRefused)
    assert text == f"the certificate of {secured.bootstrap_of('EXPIRED')} has expired"


def test_a_wrong_host_name(secured: SecuredKafka, tmp_path: Path) -> None:
    file = java_file(secured, tmp_path, "PLAIN")
    assert "is for another host than '127.0.0.1'" in refused("ELSEWHERE", secured, file, TlsRefused)
    careless = java_file(secured, tmp_path, "PLAIN", ssl_endpoint_identification_algorithm="")
    with Cluster(client_settings(secured.bootstrap_of("ELSEWHERE"), careless)) as cluster:
        assert cluster.all_topics() is not None


def test_an_authority_that_nobody_trusts(secured: SecuredKafka, tmp_path: Path) -> None:
    file = java_file(secured, tmp_path, "PLAIN", ssl_truststore_location=str(secured.path_of("stranger")))
    assert "signed by nobody we trust" in refused("SECURE", secured, file, TlsRefused)


def test_a_certificate_that_is_asked_for_and_missing(secured: SecuredKafka) -> None:
    config = {"security.protocol": "SSL", "ssl.ca.location": str(secured.path_of("authority"))}
    assert "ssl.certificate.location" in refused("MUTUAL", secured, config, HeadraceError)


def test_a_certificate_that_the_broker_does_not_trust(secured: SecuredKafka) -> None:
    config = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.path_of("authority")),
        "ssl.certificate.location": str(secured.path_of("stranger")),
        "ssl.key.location": str(secured.path_of("stranger-key")),
    }
    assert "ssl.certificate.location" in refused("MUTUAL", secured, config, HeadraceError)


def test_a_mechanism_that_is_not_enabled(secured: SecuredKafka) -> None:
    words = librdkafka_words(secured, "SCRAM-SHA-256") | {"security.protocol": "SASL_PLAINTEXT"}
    assert "does not take SCRAM-SHA-256, but PLAIN" in refused("PLAINLY", secured, words, AuthenticationRefused)


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [
        *(("SECURE", "PLAINTEXT"), ("SECURE", "SSL"), ("PLAINLY", "PLAINTEXT"), ("PLAINLY", "SASL_SSL")),
        *(("ENCRYPTED", "SASL_PLAINTEXT"), ("ENCRYPTED", "SASL_SSL")),
    ],
)
def test_another_protocol_than_the_listeners(secured: SecuredKafka, listener: str, protocol: str) -> None:
    words = librdkafka_words(secured, "PLAIN") | {"security.protocol": protocol}
    assert "security.protocol" in refused(listener, secured, words, HeadraceError)


# --- Longer lives ---------------------------------------------------------------------------------------------


def test_a_session_that_ends_is_renewed_on_the_same_connection(secured: SecuredKafka) -> None:
    words = librdkafka_words(secured, "PLAIN") | {"security.protocol": "SASL_PLAINTEXT"}
    settings = client_settings(secured.bootstrap_of("PLAINLY"), words)
    (address,) = parse_bootstrap(secured.bootstrap_of("PLAINLY"))
    with Connection(address, settings) as connection:
        end_s = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < end_s:  # The broker itself is what decides when a session is over.
            assert connection.call(list_groups.API, {})["error_code"] == 0
            time.sleep(0.05)


def wait_for_coordinator(cluster: Cluster, group: str) -> None:
    """The first group of a broker has its coordinator only once the topic of offsets was made and loaded."""
    for _ in range(200):
        asked = cluster.call_any(find_coordinator.API, {"coordinator_keys": [group], "key_type": 0})
        found = asked["coordinators"][0]
        if found["error_code"] == 0:
            cluster.refresh()
            described = cluster.call(found["node_id"], describe_groups.API, {"groups": [group]})["groups"][0]
            if described["error_code"] in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                return
        time.sleep(0.1)
    raise AssertionError(f"no coordinator for {group}")


def test_offsets_are_deleted_through_tls_and_sasl(secured: SecuredKafka, tmp_path: Path, topic_name: str) -> None:
    file = java_file(secured, tmp_path, "SCRAM-SHA-512")
    headrace = Headrace(secured.bootstrap_of("SECURE"))
    secure = ("--command-config", file)
    with Cluster(client_settings(config=file)) as cluster:
        wait_for_coordinator(cluster, topic_name)
    headrace("topics", "create", topic_name, *secure)
    headrace("groups", "reset", topic_name, "--topic", topic_name, "--to-earliest", *secure)
    deleted = headrace("groups", "delete-offsets", topic_name, "--topic", topic_name, *secure)
    assert f"{topic_name}-0: deleted" in deleted.stdout
    (described,) = headrace.json("topics", "describe", topic_name, *secure)
    assert described["partitions"][0]["size_bytes"] == 0  # Asked for by the same way.
