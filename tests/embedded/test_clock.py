"""Time by hand: each clock does what it is for, and only that, before the call returns."""

import time
from collections.abc import Callable

import pytest

from headrace.testing import Broker
from tests.embedded.conftest import MakeBroker, consuming

_DAY_MS = 86_400_000


def test_eight_days_later_a_segment_is_gone(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("kept", retention_ms=-1)
        for topic in ("orders", "kept"):
            broker.produce(topic, b"1")
        files = set((broker.data / "orders-0").glob("*.log"))
        broker.clock.advance_wall(days=6)
        assert broker.log("orders").values == [b"1"]
        broker.produce("orders", b"2")
        broker.clock.advance_wall(days=8)
        log = broker.log("orders")
        assert (log.values, log.start_offset, log.end_offset) == ([], 2, 2)
        assert not files & set((broker.data / "orders-0").glob("*.log"))
        assert broker.log("kept").values == [b"1"]
        assert broker.produce("orders", b"3") == 2


def test_only_what_is_old_enough_goes(broker: Broker) -> None:
    broker.create_topic("orders", retention_ms=7 * _DAY_MS, segment_ms=_DAY_MS)
    broker.produce("orders", b"old")
    broker.clock.advance_wall(days=5)
    broker.produce("orders", b"new")
    broker.clock.advance_wall(days=3)
    assert broker.log("orders").values == [b"new"]


def test_the_wall_clock_stamps_records(broker: Broker) -> None:
    broker.create_topic("orders", message_timestamp_type="LogAppendTime")
    broker.clock.advance_wall(days=-400)
    broker.produce("orders", b"1")
    ahead_ms = broker.log("orders")[0].timestamp_ms - time.time() * 1000
    assert abs(ahead_ms + 400 * _DAY_MS) < 60_000
    assert abs(broker.clock.wall_ms() - time.time() * 1000 + 400 * _DAY_MS) < 60_000


def test_past_its_session_timeout_a_member_is_gone(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.produce("orders", b"1")
        with consuming(broker, "orders", group_id="billing", session_timeout_ms=45_000) as consumer:
            assert consumer.poll(10) is not None
            assert len(broker.groups()["billing"].members) == 1
            broker.clock.advance_wall(days=1)
            broker.clock.advance_mono(seconds=30)
            assert len(broker.groups()["billing"].members) == 1
            broker.clock.advance_mono(seconds=46)
            assert broker.groups()["billing"].members == ()
            broker.produce("orders", b"2")
            # It finds out, joins again and reads on.
            message = consumer.poll(20)
            while message is None or message.value() != b"2":
                message = consumer.poll(20)


def test_offsets_of_a_group_that_nobody_uses_expire(broker: Broker) -> None:
    broker.produce("orders", b"1")
    with consuming(broker, "orders", group_id="billing") as consumer:
        assert consumer.poll(10) is not None
        consumer.commit(asynchronous=False)
    broker.clock.advance_wall(days=6)
    assert broker.groups()["billing"].offsets
    broker.clock.advance_wall(days=2)
    assert broker.groups() == {}


def restart(broker: Broker) -> None:
    broker.restart()


def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


def restore(broker: Broker) -> None:
    with broker.snapshot() as snapshot:
        broker.restore(snapshot)


@pytest.mark.parametrize("begin_anew", [restart, kill_and_start, restore])
def test_groups_that_are_yet_to_be_read_are_no_exception(
    make_broker: MakeBroker, begin_anew: Callable[[Broker], None]
) -> None:
    groups = "billing", "returns", "shipping"
    with make_broker({"offsets.topic.num.partitions": 5}) as broker:
        broker.produce("orders", b"1")
        for name in groups:
            # Members of this kind do not say that they leave.
            settings = {"group_id": name, "group_instance_id": "one", "session_timeout_ms": 45_000}
            with consuming(broker, "orders", **settings) as consumer:
                assert consumer.poll(10) is not None
                consumer.commit(asynchronous=False)
        begin_anew(broker)
        broker.clock.advance_mono(seconds=30)
        assert [len(broker.groups()[name].members) for name in groups] == [1, 1, 1]
        begin_anew(broker)
        broker.clock.advance_mono(seconds=46)
        assert [len(broker.groups()[name].members) for name in groups] == [0, 0, 0]
        begin_anew(broker)
        broker.clock.advance_wall(days=8)
        assert broker.groups() == {}


def test_idle_producers_are_forgotten(broker: Broker) -> None:
    from tests.embedded.conftest import producing, send

    with producing(broker, enable_idempotence=True) as producer:
        assert send(producer, "orders", b"1") is None
    assert len(broker.log("orders").producers) == 1
    broker.clock.advance_wall(hours=23)
    assert len(broker.log("orders").producers) == 1
    broker.clock.advance_wall(hours=2)
    assert broker.log("orders").producers == ()


def test_the_clocks_move_apart_and_together(broker: Broker) -> None:
    def moved_s(move: Callable[[], None]) -> tuple[int, int]:
        wall_ms, mono_us = broker.clock.wall_ms(), broker.clock.mono_us()
        move()
        return (broker.clock.wall_ms() - wall_ms) // 1000, (broker.clock.mono_us() - mono_us) // 1_000_000

    def is_about(moved: tuple[int, int], wall_s: int, mono_s: int) -> bool:
        return wall_s <= moved[0] <= wall_s + 30 and mono_s <= moved[1] <= mono_s + 30

    assert is_about(moved_s(lambda: broker.clock.advance_wall(hours=1)), 3600, 0)
    assert is_about(moved_s(lambda: broker.clock.advance_mono(minutes=2, seconds=1)), 0, 121)
    assert is_about(moved_s(lambda: broker.clock.advance(days=1)), 86_400, 86_400)
    with pytest.raises(ValueError, match="does not go back"):
        broker.clock.advance_mono(seconds=-1)
    with pytest.raises(ValueError, match="does not go back"):
        broker.clock.advance(seconds=-1)


def test_clients_go_on_after_time_has_leapt(broker: Broker) -> None:
    """Connections are not taken for idle, whatever the broker's clock says."""
    broker.produce("orders", b"1")
    with consuming(broker, "orders", group_id="billing") as consumer:
        assert consumer.poll(10) is not None
        before = broker.statistics()
        broker.clock.advance(seconds=30)
        broker.produce("orders", b"2")
        message = consumer.poll(10)
        assert message is not None
        assert message.value() == b"2"
        assert broker.statistics().connections_accepted == before.connections_accepted
