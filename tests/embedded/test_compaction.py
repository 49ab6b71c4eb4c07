"""Compacted topics, with time in the test's hand: what a moved clock makes due is done when the call returns."""

from headrace.testing import Broker
from tests.embedded.conftest import MakeBroker

_HOUR_MS = 3_600_000


def create(broker: Broker, **config: str | int) -> None:
    broker.create_topic(
        "prices", cleanup_policy="compact", segment_ms=_HOUR_MS, min_cleanable_dirty_ratio="0.01", **config
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
