"""Audited senders on a real broker: what is acknowledged, refused and in doubt, and what a killed one leaves behind."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from headrace import columnar
from headrace.audit import AuditedConsumer, AuditedProducer, AuditedWriter, AuditUnavailable
from headrace.audit.messages import AUDIT_TOPIC
from headrace.audit.stamps import STAMP_HEADER, parse_stamp
from headrace.columnar import WriteFailed
from headrace.errors import ConfigError
from headrace.testing import Broker, BrokerPool
from tests.clients.audited import BEGAN_MS, WINDOW_MS, WINDOWS, audit, send, troubles


@pytest.fixture(scope="module")
def broker(headrace_pool: BrokerPool) -> Iterator[Broker]:
    with headrace_pool.broker() as broker:
        yield broker


def producer_for(broker: Broker, **more: object) -> AuditedProducer:
    settings = {"bootstrap.servers": broker.bootstrap, "linger.ms": 1, **more}
    return AuditedProducer(settings, producer_id="web-1", host="host-a")


# --- Messages one by one ------------------------------------------------------------------------------------------


def test_every_message_has_its_stamp_behind_its_own_headers(broker: Broker, topic_name: str) -> None:
    with producer_for(broker) as producer:
        producer.produce(topic_name, "a", "key", timestamp=BEGAN_MS, headers=[("trace", "x"), ("none", None)])
        producer.produce(topic_name, "b", timestamp=BEGAN_MS + WINDOW_MS)
        producer.produce(topic_name)
    first, second, third = broker.log(topic_name)
    assert [key for key, _ in first.headers] == ["trace", "none", STAMP_HEADER]
    stamp = parse_stamp(first.headers[-1][1])
    assert (stamp.span.producer, stamp.host, stamp.sequence, stamp.time_ms) == ("web-1", "host-a", 0, BEGAN_MS)
    assert (first.key, first.value, first.timestamp_ms) == (b"key", b"a", BEGAN_MS)
    assert parse_stamp(second.headers[-1][1]).span.number == stamp.span.number + 1
    assert parse_stamp(third.headers[-1][1]).time_ms == third.timestamp_ms
    assert abs(third.timestamp_ms - time.time() * 1000) < 60_000


def test_several_senders_from_several_threads_add_up(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 4)
    producers = [
        AuditedProducer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1}, producer_id=f"web-{number}")
        for number in range(2)
    ]

    def work(producer: AuditedProducer) -> None:
        for number in range(1_000):
            producer.produce(topic_name, b"%d" % number, timestamp=BEGAN_MS + number % WINDOWS * WINDOW_MS)
            producer.poll(0)

    threads = [threading.Thread(target=work, args=(producer,)) for producer in producers for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for producer in producers:
        producer.close()
    report = audit(broker, topic_name)
    assert report["well"]
    assert sum(row["arrived"] for row in report["rows"]) == 4_000


def test_callbacks_are_called_as_without_an_audit(broker: Broker, topic_name: str) -> None:
    told: list[tuple[str, KafkaError | None, int | None]] = []

    def note(name: str) -> Callable[[KafkaError | None, Message], None]:
        def call(error: KafkaError | None, message: Message) -> None:
            told.append((name, error, message.offset()))

        return call

    with producer_for(broker, on_delivery=note("configured")) as producer:
        producer.produce(topic_name, b"0", on_delivery=note("own"))
        producer.produce(topic_name, b"1", callback=note("old name"))
        producer.produce(topic_name, b"2")
        assert producer.flush(10) == 0
    assert told == [("own", None, 0), ("old name", None, 1), ("configured", None, 2)]


def test_what_the_cluster_refused_is_not_expected(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    with producer_for(broker) as producer:
        producer.produce(topic_name, b"0", timestamp=BEGAN_MS)
        assert producer.flush(10) == 0
        with broker.faults.error("INVALID_RECORD", api="Produce", topic=topic_name):
            producer.produce(topic_name, b"1", timestamp=BEGAN_MS)
            assert producer.flush(10) == 0
        with pytest.raises(Exception, match="MSG_SIZE_TOO_LARGE"):
            producer.produce(topic_name, bytes(2_000_000), timestamp=BEGAN_MS)
        producer.produce(topic_name, b"3", timestamp=BEGAN_MS)
    report = audit(broker, topic_name)
    assert report["well"]
    assert [row["expected"] for row in report["rows"]] == [2]


def test_what_a_client_gave_up_on_is_uncertain_unless_it_is_found(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    impatient = {"message.timeout.ms": 500, "enable.idempotence": False, "retries": 0}
    with producer_for(broker, **impatient) as producer, broker.faults.drop(api="Produce", topic=topic_name):
        producer.produce(topic_name, b"lost", timestamp=BEGAN_MS)
        assert producer.flush(10) == 0
    (row,) = audit(broker, topic_name)["rows"]
    assert (row["statuses"], row["uncertain_max"], row["expected"]) == (["uncertain"], 1, 0)

    with (
        producer_for(broker, **impatient) as producer,
        broker.faults.drop(api="Produce", topic=topic_name, handled=True),
    ):
        producer.produce(topic_name, b"found", timestamp=BEGAN_MS)
        assert producer.flush(10) == 0
    (row,) = audit(broker, topic_name)["rows"]
    assert (row["statuses"], row["uncertain_max"], row["expected"], row["arrived"]) == (["uncertain"], 1, 1, 1)


def test_nothing_is_sent_that_would_go_uncounted(headrace_pool: BrokerPool, topic_name: str) -> None:
    with headrace_pool.broker() as broker:
        broker.create_topic(topic_name)
        broker.create_topic(AUDIT_TOPIC)
        settings = {"bootstrap.servers": broker.bootstrap}
        with AuditedProducer(settings, producer_id="web-1", publish_timeout_s=1) as producer:
            with broker.faults.error("INVALID_RECORD", api="Produce", topic=AUDIT_TOPIC, times=None) as fault:
                with pytest.raises(AuditUnavailable, match="did not take what was published"):
                    producer.produce(topic_name, b"0", timestamp=BEGAN_MS)
                fault.remove()
            producer.produce(topic_name, b"1", timestamp=BEGAN_MS)
        assert broker.log(topic_name).values == [b"1"]
        assert audit(broker, topic_name)["well"]


@pytest.mark.parametrize("setting", [{"acks": 0}, {"transactional.id": "t"}, {"delivery.report.only.error": True}])
def test_what_would_leave_counts_without_meaning_is_refused(broker: Broker, setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(setting))):
        producer_for(broker, **setting)


def test_names_are_refused_before_anything_is_sent(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="producer_id='a;b'"):
        AuditedProducer({"bootstrap.servers": broker.bootstrap}, producer_id="a;b")
    for group, more in [("lake", {}), ("x", {"enable.auto.commit": True})]:
        with pytest.raises(ConfigError):
            AuditedConsumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **more})


def test_a_window_of_now_is_not_judged_yet(broker: Broker, topic_name: str) -> None:
    with producer_for(broker) as producer:
        producer.produce(topic_name, b"0")
        assert producer.flush(10) == 0
        report = audit(broker, topic_name)  # The sender is at work, and has more reserved than used.
        assert report["well"]
        assert not report["rows"][0]["due"]


def test_what_retention_deleted_is_expired_and_not_missing(headrace_pool: BrokerPool, topic_name: str) -> None:
    with headrace_pool.broker() as broker:
        broker.create_topic(topic_name, retention_ms=600_000)
        send(broker, topic_name, each=10)
        broker.clock.advance_wall(days=1)
        report = audit(broker, topic_name)
    assert troubles(report) == {("node", window): {"expired": 10} for window in range(WINDOWS)}
    assert report["well"]


# --- Rows by the column -------------------------------------------------------------------------------------------


def rows(count: int) -> pa.RecordBatch:
    numbers = np.arange(count)
    return pa.record_batch(
        {
            "value": pa.array([b"%d" % number for number in numbers], pa.binary()),
            "timestamp": pa.array(BEGAN_MS + numbers % WINDOWS * WINDOW_MS),
            "headers": pa.array([[{"key": "n", "value": b"%d" % number}] for number in numbers], HEADERS),
        }
    )


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_rows_are_stamped_and_accounted_for(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name, 3)
    with AuditedWriter(broker.bootstrap, topic_name, producer_id="loader") as writer:
        for count in (1, 30_000, 0, 29):
            writer.write(rows(count))
            assert writer.flush().records > 0
    report = audit(broker, topic_name)
    assert report["well"]
    assert [row["arrived"] for row in report["rows"]] == [10_011, 10_010, 10_009]
    table = columnar.read(broker.bootstrap, topic_name).read_all()
    first = table["headers"].combine_chunks().flatten().field("key").to_pylist()[:2]
    assert first == ["n", STAMP_HEADER]
    assert set(table["timestamp"].cast(pa.int64()).to_pylist()) == {
        BEGAN_MS + window * WINDOW_MS for window in range(WINDOWS)
    }


def test_rows_without_times_and_headers_are_of_now(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    with AuditedWriter(broker.bootstrap, topic_name, producer_id="loader", value="body") as writer:
        writer.write(pa.record_batch({"body": [b"a", b"b"]}))
    assert len(broker.log(topic_name)) == 2
    assert audit(broker, topic_name)["rows"][0]["arrived"] == 2


def test_when_writing_fails_all_rows_since_the_last_flush_are_in_doubt(broker: Broker, topic_name: str) -> None:
    broker.create_topic(topic_name)
    with AuditedWriter(broker.bootstrap, topic_name, producer_id="loader") as writer:
        writer.write(rows(30))
        writer.flush()
        with broker.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", topic=topic_name, times=None):
            writer.write(rows(9).take(pa.array([0, 3, 6])))
            with pytest.raises(WriteFailed):
                writer.flush()
        writer.close()
    report = audit(broker, topic_name)
    assert troubles(report) == {("node", 0): {"uncertain_max": 3}}


def test_a_writer_refuses_what_a_producer_refuses(broker: Broker, topic_name: str) -> None:
    with pytest.raises(ConfigError, match="acks=0"):
        AuditedWriter(broker.bootstrap, topic_name, producer_id="loader", acks=0, idempotent=False)


# --- Killed -------------------------------------------------------------------------------------------------------


def start(broker: Broker, topic: str, journal: Path, count: int, then: str) -> "subprocess.Popen[bytes]":
    words = [broker.bootstrap, topic, str(journal), str(BEGAN_MS), str(count), then]
    process = subprocess.Popen([sys.executable, "-m", "tests.clients.audited_sender", *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"acknowledged\n"
    return process


def finish(process: "subprocess.Popen[bytes]", *, kill: bool = False) -> None:
    with process:
        if kill:
            process.send_signal(signal.SIGKILL)
        assert process.wait(20) == (-signal.SIGKILL if kill else 0)


def node_row(broker: Broker, topic: str) -> dict[str, object]:
    (row,) = audit(broker, topic)["rows"]
    assert isinstance(row, dict)
    return row


def test_a_killed_sender_is_uncertain_until_its_next_life_tells(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name)
    finish(start(broker, topic_name, tmp_path, 100, "wait"), kill=True)
    row = node_row(broker, topic_name)
    assert row["statuses"] == ["uncertain"]
    assert (row["expected"], row["arrived"], row["uncertain_max"]) == (100, 100, 28)  # 128 were reserved.

    finish(start(broker, topic_name, tmp_path, 5, "close"))
    row = node_row(broker, topic_name)
    assert row["statuses"] == ["complete"]
    assert row["arrived"] == 105


def test_a_sender_killed_while_sending_is_never_lost_and_never_complete_without_its_word(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    broker.create_topic(topic_name)
    process = start(broker, topic_name, tmp_path, 1, "more")
    broker.wait_for_records(topic_name, 5_000)
    finish(process, kill=True)
    before = node_row(broker, topic_name)
    assert before["statuses"] == ["uncertain"]

    finish(start(broker, topic_name, tmp_path, 1, "close"))
    after = node_row(broker, topic_name)
    assert (after["missing"], after["duplicated"]) == (0, 0)
    assert after["arrived"] == len(broker.log(topic_name))
    # Only what the killed one had under way, and is not in the log, can be uncertain now.
    assert isinstance(after["uncertain_max"], int)
    assert after["uncertain_max"] <= 1_000
    assert isinstance(before["uncertain_max"], int)
    assert after["uncertain_max"] <= before["uncertain_max"]
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
