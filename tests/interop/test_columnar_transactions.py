"""Reading what transactions and compaction left, on Apache Kafka: the rows that a Java consumer reads, and no hang.

A bounded read has to end although the last offsets before its end hold nothing: markers of transactions, records of an
aborted one, or nothing at all since the cleaner took it away.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import columnar
from headrace.protocol.batch import whole_batches
from tests.clients.columnar_rows import Row, read_rows, rows_of
from tests.clients.drivers import CODECS
from tests.interop.clients import CLIENTS
from tests.interop.following import cleaned_offset
from tests.interop.java_rows import java_rows
from tests.interop.test_clients import usable
from tests.oracle.kafka import ApacheKafka, java_command
from tests.oracle.toolbox import ToolMissing, without_tool

# A cleaner that is always at it, and producers that are soon forgotten: their last batches may go too.
PROPERTIES = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "producer.id.expiration.ms": "500",
    "producer.id.expiration.check.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
}
JVM_OPTIONS = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Every batch begins a segment, since their times are further apart than `segment.ms`.
STEP_MS = 5000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)
    usable("java")
    directory: Path = tmp_path_factory.mktemp("transactions")
    with ApacheKafka(directory, properties=PROPERTIES, jvm_options=JVM_OPTIONS) as started:
        yield started


class Writing:
    """Batches into partition 0 of one topic, each acknowledged before the next, at times that only go up."""

    def __init__(self, bootstrap: str, topic: str, *, codec: str = "none") -> None:
        self.end = 0  # Of the log, markers included.
        self._bootstrap = bootstrap
        self._topic = topic
        self._codec = codec
        self._producers: dict[str, Any] = {}
        self._chance = random.Random(topic)
        self._time_ms = time.time_ns() // 1_000_000  # And on into the future: markers have the time of the day.

    def send(self, who: str, *records: tuple[str, str | None]) -> None:
        """In one batch. A `who` that is empty knows nothing of transactions."""
        producer = self.producer(who)
        self._time_ms += STEP_MS
        for key, value in records:
            producer.produce(
                self._topic,
                key=key.encode(),
                value=None if value is None else value.encode() + b" " * self._chance.randrange(200),
                headers=[("by", who.encode())] * self._chance.randrange(4),
                partition=0,
                timestamp=self._time_ms,
            )
        assert producer.flush(30) == 0
        self.end += len(records)

    def begin(self, *whos: str) -> None:
        for who in whos:
            self.producer(who).begin_transaction()

    def commit(self, who: str) -> None:
        self.producer(who).commit_transaction(30)
        self.end += 1

    def abort(self, who: str) -> None:
        self.producer(who).abort_transaction(30)
        self.end += 1

    def producer(self, who: str) -> Any:
        if who not in self._producers:
            settings: dict[str, Any] = {
                "bootstrap.servers": self._bootstrap, "compression.type": self._codec, "linger.ms": 20
            }  # fmt: skip
            if who:
                settings |= {"transactional.id": f"{self._topic}-{who}"}
            self._producers[who] = Producer(settings)
            if who:
                self._producers[who].init_transactions(30)
        return self._producers[who]


def create(broker: ApacheKafka, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)


def keys_of(rows: list[Row]) -> list[str]:
    return [(row.message.key or b"").decode() for row in rows]


def check_every_bound(broker: ApacheKafka, topic: str, everything: list[Row], *, first: int, end: int) -> None:
    """From each offset, and up to each: a batch comes whole, a transaction may have begun before what is read."""
    for offset in range(first, end + 1):
        assert read_rows(broker.bootstrap, topic, start=offset) == [row for row in everything if row.offset >= offset]
        assert read_rows(broker.bootstrap, topic, end=offset) == [row for row in everything if row.offset < offset]


@pytest.mark.parametrize("codec", CODECS)
def test_interleaved_transactions_are_read_as_java_reads_them(broker: ApacheKafka, topic_name: str, codec: str) -> None:
    create(broker, topic_name, {})
    writing = Writing(broker.bootstrap, topic_name, codec=codec)
    writing.begin("a", "b")
    writing.send("a", ("a1", "."), ("a2", "."))
    writing.send("b", ("b1", "."), ("b2", "."))
    writing.send("", ("n1", "."))
    writing.send("a", ("a3", "."))
    writing.abort("a")
    writing.begin("a")
    writing.send("a", ("a4", "."), ("a5", "."))
    writing.send("b", ("b3", None))
    writing.commit("b")
    writing.send("", ("n2", "."), ("n3", "."))
    writing.commit("a")
    writing.begin("b")
    writing.send("b", ("b4", "."))
    writing.abort("b")
    ours = read_rows(broker.bootstrap, topic_name)
    assert keys_of(ours) == ["b1", "b2", "n1", "a4", "a5", "b3", "n2", "n3"]
    assert [ours] == java_rows(broker.bootstrap, topic_name)
    all_of_it = read_rows(broker.bootstrap, topic_name, isolation="read_uncommitted")
    assert [all_of_it] == java_rows(broker.bootstrap, topic_name, isolation="read_uncommitted")
    assert len(all_of_it) == 12
    check_every_bound(broker, topic_name, ours, first=0, end=writing.end)


def test_transactions_by_chance_are_read_as_java_reads_them(broker: ApacheKafka, topic_name: str) -> None:
    """Hundreds, of four producers, in pieces of every size: fetches begin and end anywhere among them."""
    create(broker, topic_name, {})
    writing = Writing(broker.bootstrap, topic_name, codec="lz4")
    chance = random.Random(7)
    expected: list[str] = []
    under_way: dict[str, list[str]] = {}
    for number in range(400):
        who = chance.choice("abcd")
        if who not in under_way:
            writing.begin(who)
            under_way[who] = []
        if chance.random() < 0.6:
            keys = [f"{number}-{index}" for index in range(chance.randrange(1, 6))]
            under_way[who] += keys
            writing.send(who, *((key, ".") for key in keys))
        elif under_way[who]:
            if chance.random() < 0.5:
                writing.commit(who)
                expected += under_way.pop(who)
            else:
                writing.abort(who)
                under_way.pop(who)
    for who in under_way:
        writing.abort(who)
    (theirs,) = java_rows(broker.bootstrap, topic_name)
    assert sorted(keys_of(theirs)) == sorted(expected)
    assert read_rows(broker.bootstrap, topic_name) == theirs
    for _ in range(20):
        start, end = sorted(chance.randrange(writing.end) for _ in range(2))
        found = read_rows(broker.bootstrap, topic_name, start=start, end=end)
        assert found == [row for row in theirs if start <= row.offset < end]


def test_a_read_ends_before_an_open_transaction_and_following_waits_for_it(
    broker: ApacheKafka, topic_name: str
) -> None:
    create(broker, topic_name, {})
    writing = Writing(broker.bootstrap, topic_name)
    writing.send("", ("before", "."))
    writing.begin("a")
    writing.send("a", ("within", "."))
    writing.send("", ("after", "."))
    assert keys_of(read_rows(broker.bootstrap, topic_name)) == ["before"]
    uncommitted = read_rows(broker.bootstrap, topic_name, isolation="read_uncommitted")
    assert keys_of(uncommitted) == ["before", "within", "after"]
    following = columnar.follow(broker.bootstrap, topic_name, start="earliest")
    batches = [following.read_next_batch()]
    assert keys_of(rows_of(batches)) == ["before"]
    writing.commit("a")
    while sum(batch.num_rows for batch in batches) < 3:
        batches.append(following.read_next_batch())
    following.close()
    assert rows_of(batches) == uncommitted


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_topic_of_nothing_to_be_seen_ends_at_once(broker: ApacheKafka, topic_name: str, ending: str) -> None:
    """Markers alone, or nothing but what was aborted."""
    create(broker, topic_name, {})
    writing = Writing(broker.bootstrap, topic_name)
    writing.begin("a")
    writing.send("a", ("a1", "."))
    getattr(writing, ending)("a")
    start = 1 if ending == "commit" else 0
    assert read_rows(broker.bootstrap, topic_name, start=start) == []


def cleaned_rows(broker: ApacheKafka, topic: str, keys: list[str]) -> list[Row]:
    """What we read once the cleaner has left just these; and that Java reads the same."""
    deadline_s = time.monotonic() + PATIENCE_S
    while keys_of(found := read_rows(broker.bootstrap, topic)) != keys:
        assert time.monotonic() < deadline_s, f"there are still {keys_of(found)}, not {keys}"
        time.sleep(0.1)
    assert java_rows(broker.bootstrap, topic) == [found]
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_compaction_left_is_read_as_java_reads_it(broker: ApacheKafka, topic_name: str, codec: str) -> None:
    create(broker, topic_name, COMPACTED)
    writing = Writing(broker.bootstrap, topic_name, codec=codec)
    for number in range(8):
        writing.send("", ("x", f"{number}"), (f"kept-{number}", "."), ("y", f"{number}"))
    writing.begin("a")
    writing.send("a", ("x", "aborted"), ("new", "aborted"))
    writing.abort("a")
    writing.begin("a")
    writing.send("a", ("x", "committed"), ("y", None))
    writing.commit("a")
    writing.send("", ("last", "."))
    kept = [f"kept-{number}" for number in range(8)]
    ours = cleaned_rows(broker, topic_name, [*kept, "x", "y", "last"])
    check_every_bound(broker, topic_name, ours, first=0, end=writing.end)
    # What was deleted goes with a second cleaning, for which there must be something new.
    writing.send("", ("later", "."))
    writing.send("", ("later still", "."))
    ours = cleaned_rows(broker, topic_name, [*kept, "x", "last", "later", "later still"])
    check_every_bound(broker, topic_name, ours, first=0, end=writing.end)


def test_a_read_ends_where_its_last_offsets_were_compacted_away(broker: ApacheKafka, topic_name: str) -> None:
    """The end is the last stable offset: behind it is an open transaction, before it nothing that is still there."""
    create(broker, topic_name, COMPACTED)
    writing = Writing(broker.bootstrap, topic_name)
    writing.send("", ("kept", "."))
    writing.begin("a")
    for number in range(3):
        writing.send("a", (f"aborted-{number}", "."))
    writing.abort("a")
    end = writing.end
    writing.begin("open")
    writing.send("open", ("open", "."))
    wait_until_cleaned(broker, topic_name, end)
    # The marker goes in a later cleaning than what it ends, which here is one that forgot how far it had come.
    for _ in range(4):
        if (kept := batches_kept(broker, topic_name)) == {0: 1, end - 1: 0, end: 1}:
            break
        broker.stop()
        (broker.data_dir / "cleaner-offset-checkpoint").unlink()
        broker.start()
        wait_until_cleaned(broker, topic_name, end)
    else:
        pytest.fail(f"batches and what they hold: {kept}")
    check_the_gap(broker, topic_name, end)

    # Not every version leaves an empty batch. A fetch is then answered with nothing, and no offset to go on from.
    broker.stop()
    first_segment = broker.partition_dir(topic_name, 0) / f"{0:020}.log"
    cut_at = [position for position, _ in whole_batches(first_segment.read_bytes())][1]
    os.truncate(first_segment, cut_at)
    broker.start()
    assert batches_kept(broker, topic_name) == {0: 1, end: 1}
    check_the_gap(broker, topic_name, end)


def check_the_gap(broker: ApacheKafka, topic: str, end: int) -> None:
    """One record, nothing up to the end, and there a transaction that is open."""
    ours = read_rows(broker.bootstrap, topic)
    assert keys_of(ours) == ["kept"]
    check_every_bound(broker, topic, ours, first=0, end=end)
    for each in range(1, end + 1):
        assert read_rows(broker.bootstrap, topic, isolation="read_uncommitted", start=1, end=each) == []
    assert keys_of(read_rows(broker.bootstrap, topic, isolation="read_uncommitted")) == ["kept", "open"]


def wait_until_cleaned(broker: ApacheKafka, topic: str, offset: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while cleaned_offset(broker, topic) < offset:
        assert time.monotonic() < deadline_s, f"cleaned up to {cleaned_offset(broker, topic)} only"
        time.sleep(0.05)


def batches_kept(broker: ApacheKafka, topic: str) -> dict[int, int]:
    """Where batches begin in the log, and how many records each holds."""
    segments = sorted(broker.partition_dir(topic, 0).glob("*.log"))
    headers = [header for segment in segments for _, header in whole_batches(segment.read_bytes())]
    return {header.base_offset: header.record_count for header in headers}


def test_a_read_ends_where_its_offsets_were_deleted_meanwhile(broker: ApacheKafka, topic_name: str) -> None:
    create(broker, topic_name, {})
    writing = Writing(broker.bootstrap, topic_name)
    for number in range(10):
        writing.send("", (f"{number}", "."))
    (trimmed,) = CLIENTS["java"].administer(
        broker.bootstrap, [{"do": "trim", "topic": topic_name, "partition": 0, "before": 6}]
    )
    assert trimmed == {"begin": 6}
    assert keys_of(read_rows(broker.bootstrap, topic_name)) == ["6", "7", "8", "9"]
    assert keys_of(read_rows(broker.bootstrap, topic_name, start=3, missing="skip")) == ["6", "7", "8", "9"]
    with pytest.raises(columnar.OffsetsGone, match="begins at offset 6"):
        read_rows(broker.bootstrap, topic_name, start=3)
