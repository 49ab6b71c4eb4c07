"""Every kind of fault, as real clients meet it."""

import errno
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from headrace.testing import Broker, BrokerError, ErrorCode
from tests.embedded.conftest import MakeBroker, consuming, producing, send
from tests.hostile.target import Wire

_IMPATIENT = {"socket_timeout_ms": 500, "request_timeout_ms": 400, "retry_backoff_ms": 10}


def test_an_error_is_met_so_often_and_no_more(make_broker: MakeBroker) -> None:
    with make_broker() as broker, producing(broker, retry_backoff_ms=10) as producer:
        broker.create_topic("orders")
        with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", times=2) as fault:
            assert send(producer, "orders", b"1") is None  # The client tried again until it went well.
            assert fault.hits == 2
        assert fault.hits == 2
        assert broker.log("orders").values == [b"1"]


def test_an_error_that_is_not_tried_again(broker: Broker) -> None:
    with producing(broker) as producer:
        broker.faults.error(ErrorCode.MESSAGE_TOO_LARGE, api="produce")
        broker.create_topic("orders")
        assert send(producer, "orders", b"1") == "MSG_SIZE_TOO_LARGE"
        assert broker.log("orders").values == []
        assert send(producer, "orders", b"2") is None


def test_a_fault_for_one_topic_and_one_client(broker: Broker) -> None:
    for topic in ("orders", "returns"):
        broker.create_topic(topic)
    with producing(broker, client_id="one") as one, producing(broker, client_id="two") as two:
        fault = broker.faults.error(10, api="Produce", topic="orders", client_id="one", times=None)
        assert send(one, "returns", b"1") is None
        assert send(two, "orders", b"2") is None
        assert send(one, "orders", b"3") == "MSG_SIZE_TOO_LARGE"
        assert send(one, "orders", b"4") == "MSG_SIZE_TOO_LARGE"
        assert fault.hits == 2
        fault.remove()
        assert send(one, "orders", b"5") is None
    assert broker.log("orders").values == [b"2", b"5"]


def test_an_answer_that_is_late_waits_for_the_brokers_clock(broker: Broker) -> None:
    broker.create_topic("orders")
    delivered: list[object] = []
    with producing(broker) as producer, broker.faults.delay(seconds=3600, api="Produce") as fault:
        producer.produce("orders", b"1", on_delivery=lambda error, message: delivered.append(error))
        fault.wait()
        producer.poll(0.2)
        assert delivered == []
        assert broker.log("orders").values == [b"1"]  # It is done, and nobody was told.
        broker.clock.advance_mono(hours=1)
        producer.flush(10)
    assert delivered == [None]


def test_a_late_answer_takes_its_time(broker: Broker) -> None:
    broker.create_topic("orders")
    with producing(broker) as producer:
        broker.faults.delay(seconds=0.2, api="Produce", topic="orders")
        began_s = time.monotonic()
        assert send(producer, "orders", b"1") is None
        assert time.monotonic() - began_s >= 0.2


@pytest.mark.parametrize("handled", [False, True])
def test_a_request_that_is_lost_is_sent_again_and_an_idempotent_producer_writes_once(
    broker: Broker, handled: bool
) -> None:
    broker.create_topic("orders")
    with producing(broker, enable_idempotence=True, **_IMPATIENT) as producer:
        assert send(producer, "orders", b"1") is None
        fault = broker.faults.drop(api="Produce", handled=handled)
        assert send(producer, "orders", b"2") is None
        assert fault.hits == 1
    assert broker.log("orders").values == [b"1", b"2"]


def test_a_client_that_was_never_answered_is_let_go(broker: Broker) -> None:
    def wait_for_connections(count: int) -> None:
        deadline_s = time.monotonic() + 10
        while broker.statistics().connections != count:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    others = broker.statistics().connections
    fault = broker.faults.drop(api="ApiVersions", times=2)
    for is_cleared in (False, True):
        with Wire(broker.bootstrap) as wire:
            wire.ask(18, 0, {})
            fault.wait(1 + is_cleared)
            if is_cleared:
                broker.clear()
                assert wire.receive() is None
            else:
                assert broker.statistics().connections == others + 1
        wait_for_connections(others)


@pytest.mark.parametrize(("idempotent", "copies"), [(False, 2), (True, 1)])
def test_a_connection_cut_behind_the_write_doubles_it_for_plain_producers_alone(
    broker: Broker, idempotent: bool, copies: int
) -> None:
    broker.create_topic("orders")
    with producing(broker, enable_idempotence=idempotent, retry_backoff_ms=10) as producer:
        fault = broker.faults.disconnect(api="Produce", topic="orders", handled=True)
        assert send(producer, "orders", b"1") is None
        assert fault.hits == 1
    assert broker.log("orders").values == [b"1"] * copies


def test_a_connection_cut_before_the_write(broker: Broker) -> None:
    broker.create_topic("orders")
    with producing(broker, retry_backoff_ms=10) as producer:
        fault = broker.faults.disconnect(api="Produce", times=2)
        assert send(producer, "orders", b"1") is None
        assert fault.hits == 2
    assert broker.log("orders").values == [b"1"]


def test_without_an_api_everything_a_client_asks_meets_it(broker: Broker) -> None:
    fault = broker.faults.disconnect(client_id="unlucky", times=None)
    with producing(broker, client_id="unlucky", message_timeout_ms=300) as producer:
        assert send(producer, "orders", b"1") == "_MSG_TIMED_OUT"
    assert fault.hits > 0
    with producing(broker, client_id="lucky") as producer:
        assert send(producer, "orders", b"1") is None


# --- Reading and groups ---------------------------------------------------------------------------------------


def test_a_consumer_that_is_refused_reads_on(broker: Broker) -> None:
    for topic in ("orders", "returns"):
        broker.produce(topic, b"1")
    fault = broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Fetch", topic="orders", times=2)
    with consuming(broker, "orders", "returns", group_id="billing") as consumer:
        topics = {message.topic() for message in (consumer.poll(10), consumer.poll(10)) if message is not None}
    assert topics == {"orders", "returns"}
    assert fault.hits == 2


def test_a_consumer_whose_offset_is_out_of_range_begins_where_it_was_told_to(broker: Broker) -> None:
    for value in (b"1", b"2"):
        broker.produce("orders", value)
    with consuming(broker, "orders", group_id="billing", auto_offset_reset="earliest") as consumer:
        seen = [consumer.poll(10), consumer.poll(10)]
        assert [message.value() for message in seen if message is not None] == [b"1", b"2"]
        fault = broker.faults.error("OFFSET_OUT_OF_RANGE", api="Fetch", topic="orders")
        message = consumer.poll(10)
        assert message is not None
        assert message.value() == b"1"
        assert fault.hits == 1


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch"])
def test_a_member_gets_in_although_its_coordinator_refused_it(broker: Broker, api: str) -> None:
    broker.produce("orders", b"1")
    fault = broker.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api=api)
    with consuming(broker, "orders", group_id="billing") as consumer:
        assert consumer.poll(20) is not None
        assert fault.hits == 1


def test_a_commit_that_is_refused(broker: Broker) -> None:
    broker.produce("orders", b"1")
    with consuming(broker, "orders", group_id="billing") as consumer:
        assert consumer.poll(10) is not None
        with (
            broker.faults.error("OFFSET_METADATA_TOO_LARGE", api="OffsetCommit", topic="orders"),
            pytest.raises(KafkaException) as refused,
        ):
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        assert refused.value.args[0].name() == "OFFSET_METADATA_TOO_LARGE"
        assert broker.groups()["billing"].offsets == {}
        consumer.commit(asynchronous=False)
        assert broker.groups()["billing"].offsets["orders", 0].offset == 1


# --- The disk -------------------------------------------------------------------------------------------------


def test_a_full_disk_is_waited_out(broker: Broker) -> None:
    broker.create_topic("orders")
    with producing(broker, retry_backoff_ms=10) as producer:
        fault = broker.faults.disk(errno.ENOSPC, topic="orders", times=3)
        assert send(producer, "orders", b"1") is None
        assert fault.hits == 3
    log = broker.log("orders")
    assert (log.values, log.offline) == ([b"1"], None)


def test_a_disk_that_stays_full(broker: Broker) -> None:
    for topic in ("orders", "returns"):
        broker.create_topic(topic)
    with producing(broker, message_timeout_ms=300, retry_backoff_ms=10) as producer:
        with broker.faults.disk(topic="orders", times=None) as fault:
            assert send(producer, "returns", b"1") is None
            assert send(producer, "orders", b"1") == "_MSG_TIMED_OUT"
            assert fault.hits > 1
        assert send(producer, "orders", b"2") is None
    assert broker.log("orders").values == [b"2"]


def test_a_failed_write_takes_a_partition_offline_until_the_next_start(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"1")
        broker.faults.disk(errno.EIO, on="append", topic="orders")
        for _ in range(2):
            with pytest.raises(BrokerError) as refused:
                broker.produce("orders", b"2")
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "Input/output error" in str(broker.log("orders").offline)
        broker.restart()
        broker.produce("orders", b"3")
        assert broker.log("orders").values == [b"1", b"3"]


def test_a_failed_sync_is_not_acknowledged(broker: Broker) -> None:
    broker.create_topic("orders", flush_messages=1)
    with producing(broker, message_timeout_ms=300, retry_backoff_ms=10) as producer:
        assert send(producer, "orders", b"1") is None
        fault = broker.faults.disk(errno.EIO, on="sync", topic="orders")
        assert send(producer, "orders", b"2") == "_MSG_TIMED_OUT"
        assert fault.hits == 1
    assert broker.log("orders").offline is not None


# --- The faults themselves ------------------------------------------------------------------------------------


def test_waiting_for_a_fault_to_be_met(broker: Broker) -> None:
    fault = broker.faults.delay(seconds=0, api="Metadata", times=None)
    with pytest.raises(BrokerError, match="met 0 times"):
        fault.wait(timeout_s=0.02)
    with producing(broker) as producer:
        producer.produce("orders", b"1")
        fault.wait()
        producer.flush(10)


def test_faults_that_make_no_sense_are_refused(broker: Broker) -> None:
    with pytest.raises(BrokerError, match=r"no API 'Prodcue'; there are .*Produce"):
        broker.faults.drop(api="Prodcue")
    with pytest.raises(KeyError):
        broker.faults.error("NO_SUCH_ERROR", api="Produce")
    with pytest.raises(ValueError, match="times is 0"):
        broker.faults.drop(api="Produce", times=0)


def test_all_faults_can_be_removed_at_once(broker: Broker) -> None:
    broker.create_topic("orders")
    for _ in range(3):
        broker.faults.error("UNKNOWN_SERVER_ERROR", api="Produce", times=None)
    broker.faults.clear()
    with producing(broker) as producer:
        assert send(producer, "orders", b"1") is None


def test_a_restart_ends_them(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.faults.disconnect(times=None)
        broker.restart()
        with producing(broker) as producer:
            assert send(producer, "orders", b"1") is None
