"""Compacted topics, with time in the test's hand: what a moved clock makes due is done when the call returns."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from headrace.testing import Broker, BrokerError
from tests.embedded.conftest import MakeBroker

_HOUR_MS = 3_600_000


def create(broker: Broker, partitions: int = 1, **config: str | int) -> None:
    broker.create_topic(
        "prices", partitions, cleanup_policy="compact", segment_ms=_HOUR_MS, min_cleanable_dirty_ratio="0.01", **config
    )


def later(broker: Broker, hours: int) -> None:
    """So much later, somebody writes; and so a segment ends."""
    broker.clock.advance(hours=hours)
    broker.produce("prices", b"tick", key=b"clock")
    broker.clock.advance(minutes=1)


def test_the_last_price_of_each_fruit_stays(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        create(broker)
        for price in range(1, 4):
            broker.produce("prices", str(price), key="apple")
            broker.produce("prices", str(10 * price), key="fig")
        later(broker, 2)
        assert [(record.offset, record.value) for record in broker.log("prices")] == [
            (4, b"3"), (5, b"30"), (6, b"tick"),
        ]  # fmt: skip


def sealed_prices(broker: Broker, *partitions: int) -> None:
    for partition in partitions:
        for price in range(1, 4):
            broker.produce("prices", str(price), key="apple", partition=partition)
    broker.clock.advance_wall(hours=2)
    for partition in partitions:
        broker.produce("prices", b"tick", key=b"clock", partition=partition)


def left(broker: Broker, *partitions: int) -> list[list[bytes | None]]:
    return [broker.log("prices", partition).values for partition in partitions]


def test_one_advance_compacts_all_partitions(make_broker: MakeBroker) -> None:
    partitions = range(5)
    with make_broker() as broker:
        create(broker, len(partitions))
        sealed_prices(broker, *partitions)
        broker.clock.advance_wall(minutes=1)
        assert left(broker, *partitions) == [[b"3", b"tick"]] * 5


def test_what_was_not_on_disk_when_the_broker_died_is_compacted_too(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        create(broker, 3)
        sealed_prices(broker, 0, 1, 2)
        with broker.snapshot() as snapshot:
            for advance in (broker.clock.advance_wall, broker.clock.advance_mono, broker.clock.advance):
                broker.restore(snapshot)
                advance(minutes=1)
                assert left(broker, 0, 1, 2) == [[b"3", b"tick"]] * 3
            broker.restore(snapshot)
        broker.kill()
        broker.start()
        broker.clock.advance_wall(minutes=1)
        assert left(broker, 0, 1, 2) == [[b"3", b"tick"]] * 3


def test_what_is_written_meanwhile_is_not_waited_for(broker: Broker) -> None:
    """Messages end a segment every millisecond, are on disk at once, and are dirt."""
    broker.create_topic("prices", cleanup_policy="compact", segment_ms=1, flush_messages=1, min_cleanable_dirty_ratio=0)
    producer, is_done = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0}), threading.Event()

    def go_on() -> None:
        while not is_done.is_set():
            producer.produce("prices", bytes(50), key=b"apple")
            assert producer.flush(60) == 0

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(go_on)
        try:
            broker.wait_for_records("prices", 3)
            broker.clock.advance_wall(minutes=1)
        finally:
            is_done.set()
        writing.result()


def test_what_cannot_be_cleaned_is_not_waited_for(broker: Broker) -> None:
    create(broker)
    sealed_prices(broker, 0)
    (broker.data / "prices-0" / "00000000000000000000.log").unlink()  # The broker has it open, the cleaner has not.
    broker.clock.advance_wall(minutes=1)
    assert "log not cleaned" in broker.log_text()
    assert left(broker, 0) == [[b"1", b"2", b"3", b"tick"]]


def test_records_are_waited_for_and_not_offsets(broker: Broker) -> None:
    create(broker)
    sealed_prices(broker, 0)
    assert len(broker.wait_for_records("prices", 4)) == 4
    broker.clock.advance_wall(minutes=1)
    with pytest.raises(BrokerError, match="has 2 records after 0 s, not 3"):
        broker.wait_for_records("prices", 3, timeout_s=0)
    broker.produce("prices", b"7", key=b"fig")
    assert [record.value for record in broker.wait_for_records("prices", 3)] == [b"3", b"tick", b"7"]
    assert broker.wait_for_records("prices", 0) == broker.records("prices")


def test_a_tombstone_goes_after_its_time(broker: Broker) -> None:
    create(broker, delete_retention_ms=24 * _HOUR_MS)
    broker.produce("prices", b"1", key=b"apple")
    broker.produce("prices", None, key=b"apple")
    later(broker, 2)
    assert broker.log("prices").keys == [b"apple", b"clock"]
    later(broker, 2)
    assert b"apple" in broker.log("prices").keys
    later(broker, 30)
    later(broker, 2)
    assert b"apple" not in broker.log("prices").keys


def test_clearing_in_the_middle_of_a_cleaning(broker: Broker) -> None:
    for _ in range(3):
        create(broker)
        for number in range(200):
            broker.produce("prices", bytes(1000), key=str(number % 10))
        broker.clock.advance_wall(hours=2)
        broker.produce("prices", b"tick", key=b"clock")
        broker.clock.advance_mono(minutes=1)
        broker.clear()
        assert broker.topics() == {}
