"""Emptying a broker, and taking it back to what it was."""

import shutil

import pytest

from headrace.testing import Broker, BrokerError
from tests.embedded.conftest import MakeBroker, consuming, producing, send


def test_a_cleared_broker_is_as_new(make_broker: MakeBroker) -> None:
    with make_broker({"num.partitions": 2}) as broker:
        broker.produce("orders", b"1")
        with consuming(broker, "orders", group_id="billing") as consumer:
            assert consumer.poll(10) is not None
            consumer.commit(asynchronous=False)
        broker.faults.error("UNKNOWN_SERVER_ERROR", api="Produce", times=None)
        broker.clock.advance(days=3)
        mono_us = broker.clock.mono_us()
        broker.clear()
        assert (broker.topics(), broker.groups(), broker.statistics().topics) == ({}, {}, {})
        assert broker.clock.mono_us() < mono_us
        assert not list(broker.data.glob("orders-*"))
        with producing(broker) as producer:
            assert send(producer, "orders", b"2") is None
        assert broker.topics() == {"orders": 2}  # The settings are what they were.
        assert broker.log("orders").start_offset == 0
        # The clocks are right again.
        assert [record.value for record in broker.records("orders")] == [b"2"]


def test_clients_stay_connected_and_go_on(broker: Broker) -> None:
    broker.create_topic("orders")
    with (
        producing(broker, enable_idempotence=True) as producer,
        consuming(broker, "orders", group_id="billing", topic_metadata_refresh_interval_ms=100) as consumer,
    ):
        assert send(producer, "orders", b"1") is None
        assert consumer.poll(10) is not None
        accepted = broker.statistics().connections_accepted
        broker.clear()
        broker.create_topic("orders")
        assert send(producer, "orders", b"2") is None
        assert broker.log("orders").values == [b"2"]
        assert broker.statistics().connections_accepted == accepted
        # The consumer finds its group gone, joins a new one of that name, and begins at the beginning.
        message = consumer.poll(30)
        while message is None or message.error() is not None:
            message = consumer.poll(30)
        assert message.value() == b"2"


def test_an_id_that_a_producer_holds_is_not_given_to_another(broker: Broker) -> None:
    with producing(broker, enable_idempotence=True) as one:
        assert send(one, "orders", b"1") is None
        (before,) = broker.log("orders").producers
        broker.clear()
        with producing(broker, enable_idempotence=True) as other:
            assert send(other, "orders", b"2") is None
            (after,) = broker.log("orders").producers
            assert after.producer_id > before.producer_id
            assert send(one, "orders", b"3") is None
            assert len(broker.log("orders").producers) == 2


def test_clearing_again_and_again(broker: Broker) -> None:
    for round_number in range(30):
        broker.create_topic("orders", 3)
        broker.produce("orders", str(round_number), partition=2)
        assert broker.log("orders", 2).values == [str(round_number).encode()]
        broker.clear()
    assert broker.topics() == {}
    assert {path.name for path in broker.data.iterdir()} <= {
        ".lock", "meta.properties", "headrace.journal", ".trash", "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
    }  # fmt: skip


def test_a_snapshot_is_come_back_to(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.create_topic("orders", 2, retention_ms=-1)
        broker.produce("orders", b"1", partition=1)
        with consuming(broker, "orders", group_id="billing") as consumer:
            assert consumer.poll(10) is not None
            consumer.commit(asynchronous=False)
        with broker.snapshot() as snapshot:
            broker.produce("orders", b"2", partition=1)
            broker.create_topic("returns")
            for _ in range(2):
                broker.restore(snapshot)
                assert broker.topics() == {"orders": 2}
                assert broker.log("orders", 1).values == [b"1"]
                assert broker.groups()["billing"].offsets["orders", 1].offset == 1
                assert broker.produce("orders", b"3", partition=1) == 1
        assert not snapshot.path.exists()


def test_a_snapshot_fills_another_broker(broker: Broker, make_broker: MakeBroker) -> None:
    broker.produce("orders", b"1")
    with broker.snapshot() as snapshot, make_broker() as other:
        other.restore(snapshot)
        assert other.log("orders").values == [b"1"]
        with consuming(other, "orders", group_id="billing") as consumer:
            message = consumer.poll(10)
            assert message is not None
            assert message.value() == b"1"
        other.restart()
        assert other.log("orders").values == [b"1"]


def test_a_snapshot_that_is_not_there_changes_nothing(broker: Broker) -> None:
    broker.produce("orders", b"1")
    snapshot = broker.snapshot()
    shutil.rmtree(snapshot.path)
    with pytest.raises(BrokerError, match="No such file"):
        broker.restore(snapshot)
    assert broker.log("orders").values == [b"1"]


def test_a_snapshot_goes_with_its_last_holder(broker: Broker) -> None:
    path = broker.snapshot().path
    assert not path.exists()
