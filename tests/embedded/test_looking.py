"""What a test sees of a broker."""

import time

import pytest
from confluent_kafka import Producer

from headrace.testing import Broker, BrokerError, ErrorCode
from tests.embedded.conftest import MakeBroker, consuming, producing, send


def test_records_with_all_that_they_carry(make_broker: MakeBroker) -> None:
    with make_broker() as broker, producing(broker, compression_type="zstd") as producer:
        send(producer, "orders", b"1", key=b"alice", headers=[("trace", b"7"), ("empty", None)], timestamp=1234)
        (record,) = broker.log("orders", 0)
        assert record.key == b"alice"
        assert record.value == b"1"
        assert record.headers == (("trace", b"7"), ("empty", None))
        assert record.timestamp_ms == 1234


def test_offsets_producers_and_sizes(broker: Broker) -> None:
    with producing(broker, enable_idempotence=True) as producer:
        for number in range(3):
            send(producer, "orders", str(number).encode())
    log = broker.log("orders")
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 3, 3)
    assert (log.segments, log.offline, len(log)) == (1, None, 3)
    assert log.values == [b"0", b"1", b"2"]
    assert log[-1].offset == 2
    (remembered,) = log.producers
    assert (remembered.last_sequence, remembered.last_offset) == (2, 2)
    assert log.size_bytes == (broker.data / "orders-0" / f"{0:020}.log").stat().st_size


def test_more_records_than_one_read_takes(broker: Broker) -> None:
    broker.create_topic("orders", segment_bytes=1 << 20)
    with producing(broker) as producer:
        for number in range(500):
            producer.produce("orders", key=str(number), value=bytes(10_000))
        producer.flush()
    log = broker.log("orders")
    assert log.keys == [str(number).encode() for number in range(500)]
    assert log.segments >= 5


def test_what_is_not_there_is_said(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="'missing'") as missing:
        broker.log("missing", 0)
    assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("orders", 2)
    assert broker.topics() == {"orders": 2}
    with pytest.raises(BrokerError, match="partition 2"):
        broker.log("orders", 2)


def test_producing_without_a_client(broker: Broker) -> None:
    broker.create_topic("orders", 2, retention_ms=-1, **{"cleanup.policy": "delete"})
    assert broker.produce("orders", "1", key="alice", headers={"a": "b"}, partition=1, timestamp_ms=5) == 0
    assert broker.produce("orders", None, partition=1) == 1
    first, second = broker.log("orders", 1)
    assert (first.key, first.value, first.headers, first.timestamp_ms) == (b"alice", b"1", (("a", b"b"),), 5)
    assert second.value is None
    assert abs(second.timestamp_ms - time.time() * 1000) < 60_000
    with pytest.raises(BrokerError) as refused:
        broker.produce("orders", "1", partition=2)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_consumer_gets_what_was_written_without_a_client(broker: Broker) -> None:
    broker.produce("orders", "1", key="alice")
    with consuming(broker, "orders", group_id="billing") as consumer:
        message = consumer.poll(10)
        assert message is not None
        assert (message.key(), message.value()) == (b"alice", b"1")


def test_waiting_for_records(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for number in range(3):
        producer.produce("orders", str(number))
    assert [record.value for record in broker.wait_for_records("orders", 3)] == [b"0", b"1", b"2"]
    with pytest.raises(BrokerError, match="3 records"):
        broker.wait_for_records("orders", 4, timeout_s=0.01)
    assert producer.flush(10) == 0


def test_groups_members_and_what_they_committed(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.create_topic("orders", 2)
        for partition in range(2):
            broker.produce("orders", "1", partition=partition)
        assert broker.groups() == {}
        settings = {"session_timeout_ms": 6500, "partition_assignment_strategy": "range"}
        with consuming(broker, "orders", group_id="billing", client_id="one", **settings) as consumer:
            messages = [consumer.poll(10), consumer.poll(10)]
            assert None not in messages
            consumer.commit(asynchronous=False)
            group = broker.groups()["billing"]
            assert (group.state, group.generation, group.protocol) == ("Stable", 1, "range")
            (member,) = group.members
            assert group.leader_id == member.member_id
            assert (member.client_id, member.client_host, member.session_timeout_ms) == ("one", "/127.0.0.1", 6500)
            assert member.assignment == {"orders": (0, 1)}
            assert {place: committed.offset for place, committed in group.offsets.items()} == {
                ("orders", 0): 1,
                ("orders", 1): 1,
            }
        left = broker.groups()["billing"]
        assert (left.state, left.members) == ("Empty", ())
        assert left.offsets == group.offsets


def test_statistics(broker: Broker) -> None:
    before = broker.statistics()
    with producing(broker) as producer:
        for _ in range(3):
            send(producer, "orders", b"1")
        seen = broker.statistics()
    assert seen.connections > 0
    assert seen.connections_accepted > before.connections_accepted
    assert seen.requests["Produce"] - before.requests.get("Produce", 0) == 3
    assert seen.topics["orders"].messages_in == 3
    assert seen.topics["orders"].bytes_in > 0
    assert seen.protocol_errors == before.protocol_errors
