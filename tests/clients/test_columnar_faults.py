"""What goes wrong while topics are read and written as Arrow: answers lost, connections cut, refusals, restarts."""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace import columnar
from headrace.errors import ApiError, ConfigError, CorruptBatch
from headrace.testing import Broker
from headrace.wire.errors import UnknownPartition, UnknownTopic
from tests.waiting import wait_until

LITTLE_BYTES = 4 << 20
QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "client.id": "columnar"}


@pytest.fixture(scope="module")
def one_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(one_broker: Broker) -> Broker:
    one_broker.clear()
    return one_broker


def numbers(count: int) -> pa.Table:
    return pa.table({"value": [b"%06d" % number for number in range(count)]})


# Several times what a reader with little memory fetches ahead.
LONG = pa.table({"value": [b"%0200d" % number for number in range(60_000)]})


def fill(broker: Broker, partitions: int) -> None:
    broker.create_topic("orders", partitions)
    columnar.write(broker.bootstrap, "orders", LONG, batch_bytes=20_000, config=QUICK)


def values(broker: Broker, topic: str, **options: Any) -> list[bytes]:
    rows: list[bytes] = columnar.read(broker.bootstrap, topic, config=QUICK, **options).read_all()["value"].to_pylist()
    return rows


# --- Writing ----------------------------------------------------------------------------------------------------


def test_answers_lost_after_the_append_at_a_hundred_places_double_nothing(broker: Broker) -> None:
    """Every batch is a request of its own; of three hundred, a random hundred are acknowledged to nobody."""
    broker.create_topic("orders", 1)
    lost = set(random.Random(4).sample(range(300), 100))
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        for number in range(300):
            fault = None
            if number in lost:
                fault = broker.faults.disconnect(api="Produce", topic="orders", handled=True)
            writer.write(pa.record_batch({"value": [b"%06d" % number]}))
            written = writer.flush()
            assert fault is None or fault.hits == 1
    assert written.records == 300
    assert written.partitions[0].last_offset == 299
    assert broker.log("orders", 0).values == [b"%06d" % number for number in range(300)]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE"])
def test_refusals_that_pass_are_tried_again(broker: Broker, error: str) -> None:
    broker.create_topic("orders", 3)
    with broker.faults.error(error, api="Produce", times=5) as fault:
        written = columnar.write(broker.bootstrap, "orders", numbers(3000), config=QUICK)
    assert fault.hits == 5
    assert written.records == 3000
    assert sorted(record.value for record in broker.records("orders")) == numbers(3000)["value"].to_pylist()


def test_a_refusal_for_good_tells_what_was_acknowledged(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        writer.write(pa.record_batch({"value": [b"first"]}))
        writer.flush()
        broker.faults.error("TOPIC_AUTHORIZATION_FAILED", api="Produce", times=None)
        writer.write(pa.record_batch({"value": [b"second"]}))
        with pytest.raises(columnar.WriteFailed, match="TOPIC_AUTHORIZATION_FAILED; 1 rows were") as caught:
            writer.flush()
    assert caught.value.written.records == 1


def test_patience_ends(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", times=None)
    with pytest.raises(columnar.WriteFailed, match="NOT_LEADER_OR_FOLLOWER"):
        columnar.write(broker.bootstrap, "orders", numbers(1), config=QUICK | {"delivery.timeout.ms": 300})


def test_a_broker_that_forgot_the_producer_is_told_anew(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        writer.write(pa.record_batch({"value": [b"first"]}))
        writer.flush()
        broker.faults.error("UNKNOWN_PRODUCER_ID", api="Produce")
        writer.write(pa.record_batch({"value": [b"second"]}))
        assert writer.flush().records == 2
    assert broker.log("orders", 0).values == [b"first", b"second"]
    assert len(broker.log("orders", 0).producers) == 2


def test_a_batch_too_large_for_the_topic_says_what_to_do(broker: Broker) -> None:
    broker.create_topic("orders", 1, max_message_bytes=2000)
    with pytest.raises(columnar.WriteFailed, match=r"make batch_bytes smaller, or max\.message\.bytes"):
        columnar.write(broker.bootstrap, "orders", numbers(1000), config=QUICK)
    assert columnar.write(broker.bootstrap, "orders", numbers(1000), batch_bytes=1900, config=QUICK).records == 1000


def test_what_the_same_answer_acknowledged_is_told_beside_the_refusal(broker: Broker) -> None:
    broker.create_topic("orders", 5, max_message_bytes=2000)
    with columnar.Writer(broker.bootstrap, "orders", partition="place", config=QUICK) as writer:
        broker.faults.delay(seconds=1, api="Produce")
        writer.write(pa.record_batch({"place": [4], "value": [b"first"]}))
        time.sleep(0.1)  # The answer is waited for: what comes meanwhile goes together in the next request.
        writer.write(pa.record_batch({"place": [0, 2], "value": [bytes(5000), b"second"]}))
        with pytest.raises(columnar.WriteFailed, match="takes no batch of") as caught:
            writer.flush()
    assert {number: part.records for number, part in caught.value.written.partitions.items()} == {2: 1, 4: 1}


def test_partitions_added_while_writing_are_used(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    fresh = QUICK | {"metadata.max.age.ms": 50}
    with columnar.Writer(broker.bootstrap, "orders", config=fresh) as writer:
        writer.write(pa.record_batch({"value": [b"first"]}))
        add_partitions(broker, "orders", 4)
        time.sleep(0.1)
        for batch in numbers(100).to_batches(max_chunksize=10):
            writer.write(batch)
        written = writer.flush()
    assert written.records == 101
    assert set(written.partitions) == {0, 1, 2, 3}


# --- Reading ----------------------------------------------------------------------------------------------------


def test_answers_lost_at_random_cost_no_record(broker: Broker) -> None:
    fill(broker, 3)
    chance = random.Random(7)
    rows, faults = [], []
    for batch in columnar.Scan(broker.bootstrap, "orders", memory_bytes=LITTLE_BYTES, config=QUICK):
        rows += batch["value"].to_pylist()
        if chance.random() < 0.5:
            faults.append(broker.faults.disconnect(api="Fetch", handled=True))
        else:
            faults.append(broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Fetch"))
    assert sum(fault.hits for fault in faults) >= 5
    assert sorted(rows) == LONG["value"].to_pylist()


def test_a_restart_in_the_middle_of_reading_and_following() -> None:
    with Broker() as broker:
        fill(broker, 2)
        stop = threading.Event()
        scan = columnar.Scan(broker.bootstrap, "orders", memory_bytes=LITTLE_BYTES, config=QUICK)
        reader = scan.reader(batch_rows=5000)
        follower = columnar.follow(broker.bootstrap, "orders", start="earliest", stop=stop, config=QUICK)
        rows = reader.read_next_batch()["value"].to_pylist()
        broker.restart()
        assert scan.bytes_fetched < LONG.nbytes / 2
        for batch in reader:
            rows += batch["value"].to_pylist()
        assert sorted(rows) == LONG["value"].to_pylist()

        columnar.write(broker.bootstrap, "orders", numbers(10), config=QUICK)
        followed: list[bytes] = []
        for batch in follower:
            followed += batch["value"].to_pylist()
            if len(followed) == len(rows) + 10:
                stop.set()
        assert sorted(followed) == sorted([*rows, *numbers(10)["value"].to_pylist()])


def test_a_partition_with_much_to_read_does_not_hold_up_the_others(broker: Broker) -> None:
    broker.create_topic("orders", 3)
    columnar.write(broker.bootstrap, "orders", LONG, partition=0, config=QUICK)
    broker.produce("orders", "few", partition=1)
    broker.produce("orders", "few", partition=2)
    stop = threading.Event()
    seen = dict.fromkeys(range(3), 0)
    for batch in columnar.follow(
        broker.bootstrap, "orders", start="earliest", memory_bytes=LITTLE_BYTES, stop=stop, config=QUICK
    ):
        seen[batch["partition"][0].as_py()] += batch.num_rows
        if seen[1] and seen[2]:
            stop.set()
    assert seen[0] < LONG.num_rows / 2


def test_following_sees_what_comes_and_partitions_that_are_added(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    broker.produce("orders", "before")
    stop = threading.Event()
    fresh = QUICK | {"metadata.max.age.ms": 50}
    seen: list[tuple[int, bytes]] = []
    fetches = broker.statistics().requests.get("Fetch", 0)

    def run() -> None:
        for batch in columnar.follow(broker.bootstrap, "orders", stop=stop, config=fresh):
            seen.extend(zip(batch["partition"].to_pylist(), batch["value"].to_pylist(), strict=True))

    # Where it begins is settled before anything is fetched.
    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: broker.statistics().requests.get("Fetch", 0) > fetches)
        broker.produce("orders", "after")
        add_partitions(broker, "orders", 2)
        broker.produce("orders", "added", partition=1)
        wait_until(lambda: len(seen) == 2)
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert sorted(seen) == [(0, b"after"), (1, b"added")]


def test_following_can_be_stopped_while_the_broker_is_away() -> None:
    stop = threading.Event()
    with Broker() as broker:
        broker.create_topic("orders", 1)
        broker.produce("orders", "before")
        fresh = QUICK | {"metadata.max.age.ms": 50}
        batches = iter(columnar.follow(broker.bootstrap, "orders", start="earliest", stop=stop, config=fresh))
        assert next(batches)["value"].to_pylist() == [b"before"]
    threading.Timer(0.5, stop.set).start()
    began_s = time.monotonic()
    assert list(batches) == []
    assert time.monotonic() - began_s < 15  # Not until the patience of the client is at its end, after a minute.


def test_offsets_deleted_before_it_is_read(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    columnar.write(broker.bootstrap, "orders", numbers(100), config=QUICK)
    delete_records(broker, "orders", 0, before=40)
    with pytest.raises(columnar.OffsetsGone, match="orders-0 begins at offset 40"):
        values(broker, "orders", start=10)
    assert len(values(broker, "orders", start=10, missing="skip")) == 60
    assert len(values(broker, "orders", start="earliest")) == 60


@pytest.mark.parametrize("missing", ["error", "skip"])
def test_offsets_deleted_while_it_is_read(broker: Broker, missing: Any) -> None:
    fill(broker, 1)
    batches = iter(columnar.Scan(broker.bootstrap, "orders", missing=missing, memory_bytes=LITTLE_BYTES, config=QUICK))
    offsets = next(batches)["offset"].to_pylist()
    delete_records(broker, "orders", 0, before=59_000)
    if missing == "error":
        with pytest.raises(columnar.OffsetsGone, match="deleted meanwhile"):
            list(batches)
        return
    for batch in batches:
        offsets += batch["offset"].to_pylist()
    assert offsets == sorted(set(offsets))
    assert offsets[-1000:] == list(range(59_000, 60_000))
    assert len(offsets) < 60_000


def test_a_log_that_lost_its_end_while_it_was_read_is_not_waited_for_in_vain(broker: Broker) -> None:
    """As after a crash of the only broker, before what it had acknowledged was on its disk."""
    broker.create_topic("orders", 1)
    columnar.write(broker.bootstrap, "orders", numbers(1000), batch_bytes=2000, config=QUICK)
    scan = columnar.Scan(broker.bootstrap, "orders", config=QUICK | {"default.api.timeout.ms": 2000})
    segment = broker.data / "orders-0" / "00000000000000000000.log"
    broker.kill()
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)
    broker.start()
    with pytest.raises(columnar.OffsetsGone, match=r"orders-0 ends at offset \d+, where it had more, up to 1000"):
        list(scan)


def test_a_topic_made_anew_while_it_is_read_is_not_mixed_up(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    columnar.write(broker.bootstrap, "orders", numbers(100), config=QUICK)
    scan = columnar.Scan(broker.bootstrap, "orders", end=None, config=QUICK | {"default.api.timeout.ms": 3000})
    batches = iter(scan)
    assert next(batches).num_rows == 100
    broker.clear()
    broker.create_topic("orders", 1)
    with pytest.raises((columnar.OffsetsGone, ApiError)):
        next(batches)


# --- Bad input --------------------------------------------------------------------------------------------------


def test_what_is_not_there(broker: Broker) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic 'nowhere'"):
        columnar.read(broker.bootstrap, "nowhere", config=QUICK)
    with pytest.raises(UnknownTopic):
        columnar.write(broker.bootstrap, "nowhere", numbers(1), config=QUICK)
    broker.create_topic("orders", 2)
    with pytest.raises(UnknownPartition, match="has 2 partitions, and 5 is none"):
        columnar.read(broker.bootstrap, {"orders": [5]}, config=QUICK)
    with pytest.raises(columnar.OffsetsGone, match="ends at offset 0"):
        columnar.read(broker.bootstrap, "orders", start=1, config=QUICK)
    with pytest.raises(ConfigError, match="there is no column 'colour'"):
        columnar.read(broker.bootstrap, "orders", columns=["colour"], config=QUICK)


@pytest.mark.parametrize(
    ("table", "options", "text"),
    [
        ({"payload": [b"x"]}, {}, "no column 'value' but 'payload'"),
        ({"value": [1.5]}, {}, "binary or string, not double"),
        ({"value": [b"x"], "n": ["a"]}, {"timestamp": "n"}, "timestamps are a column of"),
        ({"value": [b"x"], "n": [9]}, {"partition": "n"}, "has 1 partitions, and 9 is none"),
        ({"value": [b"x"], "n": pa.array([None], pa.int32())}, {"partition": "n"}, "1 rows have no partition"),
        ({"value": [b"x"]}, {"key": "user"}, "key='user': the data has no such column"),
        ({"value": [b"x"], "headers": [3]}, {}, "headers are a list of structs"),
        ({"value": [b"x"]}, {"compression": "brotli"}, "compression='brotli' is none of"),
        ({"value": [b"x"]}, {"compression": "snappy", "compression_level": 1}, "snappy has no levels"),
        ({"value": [b"x"]}, {"compression": "gzip", "compression_level": 10}, "those of gzip go from -1 to 9"),
        ({"value": [b"x"]}, {"compression": "zstd", "compression_level": 23}, "those of zstd go from .* to 22"),
        ({"value": [b"x"]}, {"acks": 1}, "acks=1 cannot be idempotent"),
        ({"value": [b"x"]}, {"acks": 7}, "acks=7 is none of"),
    ],
)
def test_data_that_cannot_be_written(broker: Broker, table: Any, options: Any, text: str) -> None:
    broker.create_topic("orders", 1)
    with pytest.raises((ConfigError, UnknownPartition), match=text):
        columnar.write(broker.bootstrap, "orders", pa.table(table), config=QUICK, **options)
    assert broker.log("orders", 0).end_offset == 0


def test_rows_of_another_kind_after_the_first_tell_what_was_written(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        writer.write(pa.record_batch({"value": [b"first"]}))
        writer.flush()
        with pytest.raises(columnar.WriteFailed, match=r"no column 'value' but 'payload'.*; 1 rows were") as caught:
            writer.write(pa.record_batch({"payload": [b"second"]}))
    assert caught.value.written.records == 1


def test_what_the_callers_own_rows_raise_stays_as_it_is_and_tells_what_was_written(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    writer = columnar.Writer(broker.bootstrap, "orders", config=QUICK)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"never handed over"]})
        raise LookupError("the cupboard is bare")

    with writer, pytest.raises(LookupError, match="the cupboard is bare") as caught:
        writer.write_all(rows())
    assert not hasattr(caught.value, "__notes__")

    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        writer.write(pa.record_batch({"value": [b"first", b"second"]}))
        writer.flush()
        with pytest.raises(LookupError, match="the cupboard is bare") as caught:
            writer.write_all(rows())
    assert caught.value.__notes__ == ["2 rows were acknowledged before: writing to topic 'orders' was not finished"]
    assert broker.log("orders", 0).values == [b"first", b"second"]


@pytest.mark.parametrize("written", [0, 3])
def test_rows_that_arrow_cannot_convert_tell_what_was_written(broker: Broker, written: int) -> None:
    """A timestamp beyond what records can hold, of which the type says nothing."""
    broker.create_topic("orders", 1)
    late = pa.record_batch({"value": [b"late"], "timestamp": pa.array([2**64 - 1], pa.uint64())})
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        if written:
            writer.write(pa.record_batch({"value": [b"in time"] * written}))
            writer.flush()
        with pytest.raises(
            columnar.WriteFailed, match=f"not in range.*; {written} rows were acknowledged before"
        ) as caught:
            writer.write(late)
    assert isinstance(caught.value.__cause__, pa.ArrowException)
    assert caught.value.written.records == written


def test_a_writer_that_was_closed_takes_nothing(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    with columnar.Writer(broker.bootstrap, "orders", config=QUICK) as writer:
        writer.write(pa.record_batch({"value": [b"in time"]}))
        writer.flush()
        writer.close()
        with pytest.raises(columnar.WriteFailed, match="closed; 1 rows were acknowledged before"):
            writer.write(pa.record_batch({"value": [b"late"]}))


@pytest.mark.parametrize("endless", [False, True], ids=["read", "follow"])
def test_a_damaged_batch_is_named(broker: Broker, endless: bool) -> None:
    broker.create_topic("orders", 2)
    for word in ("good", "bad", "behind"):
        broker.produce("orders", word, partition=1)
    segment = broker.data / "orders-1" / "00000000000000000000.log"
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"bad", b"mad"))
    scan = columnar.Scan(broker.bootstrap, "orders", end=None if endless else "latest", config=QUICK)
    with pytest.raises(CorruptBatch, match="orders-1: the CRC of the batch at offset 1 does not match"):
        list(scan)


def test_a_batch_that_swells_beyond_all_memory_is_refused(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    bomb = pa.table({"value": [bytes(800_000)] * 8})
    columnar.write(broker.bootstrap, "orders", bomb, compression="zstd", batch_bytes=8_000_000, config=QUICK)
    with pytest.raises(CorruptBatch, match=r"orders-0: the batch at offset 0: .* within 4194304 bytes"):
        values(broker, "orders", memory_bytes=LITTLE_BYTES)
    assert len(values(broker, "orders")) == 8


def test_many_batches_that_swell_are_opened_one_after_the_other(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    swelling = pa.table({"value": [bytes(800_000)] * 100})
    columnar.write(broker.bootstrap, "orders", swelling, compression="zstd", config=QUICK)
    scan = columnar.Scan(broker.bootstrap, "orders", memory_bytes=LITTLE_BYTES, config=QUICK)
    rows = 0
    for batch in scan:
        rows += batch.num_rows
        time.sleep(0.01)  # Whoever fetches is faster.
        assert scan.memory_used_bytes <= 2 * LITTLE_BYTES
    assert rows == 100


def test_nothing_is_left_of_a_reader_that_nobody_used(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    columnar.read(broker.bootstrap, "orders", config=QUICK)
    with pytest.raises(ConfigError, match="batch_rows=0"):
        columnar.read(broker.bootstrap, "orders", batch_rows=0, config=QUICK)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-fetch")]


def test_what_has_no_arrow_data(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    with pytest.raises(ConfigError, match="str has no Arrow data"):
        columnar.write(broker.bootstrap, "orders", "text", config=QUICK)


# --- Help -------------------------------------------------------------------------------------------------------


def add_partitions(broker: Broker, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(10)


def delete_records(broker: Broker, topic: str, partition: int, *, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(10)
