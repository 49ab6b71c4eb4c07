"""`headrace.client.Consumer` on a real broker: streams, groups, commits, replay, and how all of it ends.

What three processes do to a group under kills is in `tests/proofs/streams.py`.
"""

import asyncio
import datetime
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient

from headrace.client import (
    Change,
    ClientError,
    Consumer,
    Message,
    MessageStream,
    NotOwner,
    Partition,
    Producer,
    Received,
    StreamEnded,
    UnknownTopic,
    Unreachable,
)
from headrace.testing import Broker, BrokerPool
from tests import waiting

WAIT_S = 20.0
wait_until = partial(waiting.wait_until, timeout_s=WAIT_S)
QUICK = {"fetch.wait.max.ms": 50, "heartbeat.interval.ms": 200, "topic.metadata.refresh.interval.ms": 500}


class MakeConsumer(Protocol):
    def __call__(self, group: str | None = None, **arguments: Any) -> Consumer: ...


@pytest.fixture
def consumer(headrace_broker: Broker, headrace_topic: str) -> Iterator[MakeConsumer]:
    """Makes consumers, of a group of the test's own unless told otherwise. They are closed in the end."""
    with ExitStack() as stack:

        def make(group: str | None = None, **arguments: Any) -> Consumer:
            config = QUICK | arguments.pop("config", {})
            made = Consumer(
                headrace_broker.bootstrap, group or f"group-of-{headrace_topic}", config=config, **arguments
            )
            return stack.enter_context(made)

        yield make


def fill(broker: Broker, topic: str, *, partitions: int, count: int) -> None:
    """`count` messages into each partition; each says where it is."""
    for partition in range(partitions):
        for number in range(count):
            broker.produce(topic, b"%d:%d" % (partition, number), partition=partition)


def collect(streams: list[MessageStream], count: int) -> list[list[Received]]:
    """So many messages in all, by the stream they came from."""
    found: list[list[Received]] = [[] for _ in streams]
    deadline_s = time.monotonic() + WAIT_S
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline_s, f"{sum(map(len, found))} of {count} messages came"
        for stream, its in zip(streams, found, strict=True):
            if (message := stream.receive(0.01)) is not None:
                its.append(message)
    return found


def by_partition(messages: list[Received]) -> dict[int, list[int]]:
    offsets = defaultdict(list)
    for message in messages:
        offsets[message.partition].append(message.offset)
    return dict(offsets)


def test_a_message_is_received_whole(headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer) -> None:
    with Producer(headrace_broker.bootstrap) as producer:
        producer.send(headrace_topic, Message(b"v", key=b"k", headers=(("h", b"1"), ("n", None)), timestamp_ms=77))
        producer.send(headrace_topic, Message(None, key=b""))
    [stream] = consumer().create_message_streams({headrace_topic: 1})[headrace_topic]
    first = next(stream)
    assert (first.topic, first.partition, first.offset) == (headrace_topic, 0, 0)
    assert (first.key, first.value, first.headers) == (b"k", b"v", (("h", b"1"), ("n", None)))
    assert (first.timestamp_ms, first.timestamp_type) == (77, 0)
    second = next(stream)
    assert (second.key, second.value, second.headers) == (b"", None, ())


@pytest.mark.headrace_topic(partitions=12)
def test_messages_are_spread_evenly_over_the_streams(
    headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
) -> None:
    fill(headrace_broker, headrace_topic, partitions=12, count=50)
    streams = consumer().create_message_streams({headrace_topic: 3})[headrace_topic]
    found = collect(streams, 600)
    assert [len(its) for its in found] == [200, 200, 200]
    offsets = [by_partition(its) for its in found]
    assert sorted(partition for its in offsets for partition in its) == list(range(12))
    assert all(order == list(range(50)) for its in offsets for order in its.values())


def test_streams_of_several_topics(headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer) -> None:
    other = f"{headrace_topic}-other"
    headrace_broker.create_topic(other, 2)
    fill(headrace_broker, headrace_topic, partitions=1, count=5)
    fill(headrace_broker, other, partitions=2, count=5)
    streams = consumer().create_message_streams({headrace_topic: 1, other: 2})
    assert {topic: len(its) for topic, its in streams.items()} == {headrace_topic: 1, other: 2}
    assert [len(its) for its in collect(streams[other], 10)] == [5, 5]
    assert [message.value for message in collect(streams[headrace_topic], 5)[0]] == [b"0:%d" % n for n in range(5)]


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range", "roundrobin"])
@pytest.mark.headrace_topic(partitions=4)
def test_a_group_shares_and_groups_do_not(
    headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer, assignor: str
) -> None:
    config = {"partition.assignment.strategy": assignor}
    one, two = consumer(config=config), consumer(config=config)
    first = one.create_message_streams({headrace_topic: 1})[headrace_topic]
    second = two.create_message_streams({headrace_topic: 1})[headrace_topic]
    wait_until(lambda: len(one.owned) == len(two.owned) == 2, "both have their share")
    assert not one.owned & two.owned
    fill(headrace_broker, headrace_topic, partitions=4, count=25)
    assert [len(its) for its in collect([*first, *second], 100)] == [50, 50]
    other = consumer(f"another-than-{headrace_topic}").create_message_streams({headrace_topic: 2})[headrace_topic]
    assert sum(map(len, collect(other, 100))) == 100


def test_a_new_group_starts_at_the_smallest_or_the_largest_offset(
    headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
) -> None:
    fill(headrace_broker, headrace_topic, partitions=1, count=5)
    [stream] = consumer("old", start="smallest").create_message_streams({headrace_topic: 1})[headrace_topic]
    assert next(stream).offset == 0
    largest = consumer("new", start="largest")
    [stream] = largest.create_message_streams({headrace_topic: 1})[headrace_topic]
    wait_until(lambda: bool(largest.owned), "it has its partition")
    assert stream.receive(0.5) is None
    headrace_broker.produce(headrace_topic, "late")
    assert next(stream).offset == 5


def test_an_iterator_blocks_until_there_are_messages(
    headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
) -> None:
    [stream] = consumer().create_message_streams({headrace_topic: 1})[headrace_topic]
    got: list[Received] = []
    reader = threading.Thread(target=lambda: got.append(next(stream)))
    reader.start()
    reader.join(0.5)
    assert reader.is_alive()
    headrace_broker.produce(headrace_topic, "at last")
    reader.join(WAIT_S)
    assert [message.value for message in got] == [b"at last"]


class TestCommits:
    @pytest.fixture(autouse=True)
    def _ten_messages(self, headrace_broker: Broker, headrace_topic: str) -> None:
        fill(headrace_broker, headrace_topic, partitions=1, count=10)
        self.broker, self.topic = headrace_broker, headrace_topic

    def committed(self) -> int | None:
        group = self.broker.groups().get(f"group-of-{self.topic}")
        found = group and group.offsets.get((self.topic, 0))
        return found.offset if found else None

    def stream(self, consumer: Consumer) -> MessageStream:
        [stream] = consumer.create_message_streams({self.topic: 1})[self.topic]
        return stream

    def test_a_given_offset(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        stream = self.stream(one)
        next(stream)
        one.commit({(self.topic, 0): 7})
        assert self.committed() == 7
        assert one.committed([(self.topic, 0)]) == {Partition(self.topic, 0): 7}
        one.commit_async({Partition(self.topic, 0): 3}).result(WAIT_S)
        assert self.committed() == 3
        one.close()
        assert self.committed() == 3
        assert next(self.stream(consumer())).offset == 3

    def test_a_message_is_done_with_all_before_it(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        stream = self.stream(one)
        messages = [next(stream) for _ in range(4)]
        one.commit(messages[2])
        assert self.committed() == 3

    def test_nothing_given_is_what_is_finished(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        stream = self.stream(one)
        for _ in range(4):
            next(stream)
        one.commit()
        assert self.committed() == 3  # The fourth is in hand.

    def test_periodic(self, consumer: MakeConsumer) -> None:
        stream = self.stream(consumer(commit_every_s=0.1))
        assert self.committed() is None
        for _ in range(4):
            next(stream)
        wait_until(lambda: self.committed() == 3, "committed by itself")

    def test_a_periodic_commit_does_not_take_a_given_one_back(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=0.1)
        stream = self.stream(one)
        for _ in range(4):
            message = next(stream)
        wait_until(lambda: self.committed() == 3, "committed by itself")
        one.commit(message)
        time.sleep(0.4)
        assert self.committed() == 4
        one.commit({(self.topic, 0): 1})
        time.sleep(0.4)
        assert self.committed() == 1
        next(stream)
        next(stream)
        wait_until(lambda: self.committed() == 5, "and goes on with what is finished since")

    def test_none_is_made_that_was_not_asked_for(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        stream = self.stream(one)
        for _ in range(10):
            next(stream)
        one.close()
        assert self.committed() is None

    def test_a_commit_that_meets_a_rebalance_is_made_after_it(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        next(self.stream(one))
        with self.broker.faults.error("REBALANCE_IN_PROGRESS", api="OffsetCommit", times=2) as fault:
            one.commit({(self.topic, 0): 5})
        assert fault.hits == 2
        assert self.committed() == 5

    def test_one_that_cannot_be_made_is_an_error(self, consumer: MakeConsumer) -> None:
        one = consumer(commit_every_s=None)
        next(self.stream(one))
        with (
            self.broker.faults.error("GROUP_AUTHORIZATION_FAILED", api="OffsetCommit"),
            pytest.raises(ClientError, match="GROUP_AUTHORIZATION_FAILED"),
        ):
            one.commit({(self.topic, 0): 5})
        with pytest.raises(ValueError, match="there is no offset -2"):
            one.commit({(self.topic, 0): -2})


@pytest.mark.headrace_topic(partitions=2)
class TestFormerOwners:
    def hold_of_each(self, stream: MessageStream) -> dict[Partition, Received]:
        held: dict[Partition, Received] = {}
        while len(held) < 2:
            message = next(stream)
            held[message.source] = message
        return held

    @pytest.fixture(autouse=True)
    def _messages(self, headrace_broker: Broker, headrace_topic: str) -> None:
        fill(headrace_broker, headrace_topic, partitions=2, count=10)

    def test_a_partition_that_went_to_another_is_refused(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one, two = consumer(commit_every_s=None), consumer(commit_every_s=None)
        [stream] = one.create_message_streams({headrace_topic: 1})[headrace_topic]
        held = self.hold_of_each(stream)
        two.create_message_streams({headrace_topic: 1})
        wait_until(lambda: len(one.owned) == len(two.owned) == 1, "the second has its share")
        [lost], [kept] = two.owned, one.owned
        one.commit(held[kept])
        with pytest.raises(NotOwner, match=f"not committed: {lost}: this consumer does not own it any more") as raised:
            one.commit(held[lost])
        assert raised.value.partitions == (lost,)
        with pytest.raises(NotOwner):
            one.commit({lost: 5})
        assert isinstance(one.commit_async(held[lost]).exception(WAIT_S), NotOwner)
        assert one.committed([lost]) == {lost: None}

    def test_a_partition_that_came_back_does_not_make_old_messages_good(
        self, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        one, two = consumer(commit_every_s=None), consumer(commit_every_s=None)
        [stream] = one.create_message_streams({headrace_topic: 1})[headrace_topic]
        held = self.hold_of_each(stream)
        two.create_message_streams({headrace_topic: 1})
        wait_until(lambda: len(one.owned) == len(two.owned) == 1, "the second has its share")
        [lost] = two.owned
        two.commit({lost: 8})
        two.close()
        wait_until(lambda: len(one.owned) == 2, "the first has everything again")
        with pytest.raises(NotOwner):
            one.commit(held[lost])
        assert one.committed([lost]) == {lost: 8}

    def test_who_was_given_up_is_refused_by_the_broker(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        one = consumer(commit_every_s=None)
        [stream] = one.create_message_streams({headrace_topic: 1})[headrace_topic]
        message = next(stream)
        headrace_broker.clock.advance_mono(minutes=1)  # Its session is over, and it does not know yet.
        with pytest.raises(NotOwner, match=r"went on without this consumer \(.*\)|not own it any more"):
            one.commit(message)
        group = headrace_broker.groups().get(one.group)
        assert group is None or group.offsets == {}


class TestReplay:
    @pytest.fixture
    def stream(self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer) -> MessageStream:
        with Producer(headrace_broker.bootstrap) as producer:
            producer.send(headrace_topic, [Message(b"%d" % n, timestamp_ms=1_000_000 + 1_000 * n) for n in range(20)])
        self.topic = headrace_topic
        self.consumer = consumer(commit_every_s=0.1)
        [stream] = self.consumer.create_message_streams({headrace_topic: 1})[headrace_topic]
        assert [next(stream).offset for _ in range(10)] == list(range(10))
        return stream

    def test_by_offset_back_and_forth(self, stream: MessageStream) -> None:
        self.consumer.rewind((self.topic, 0), to=3)
        assert [next(stream).offset for _ in range(3)] == [3, 4, 5]
        self.consumer.rewind([Partition(self.topic, 0)], to=18)
        assert [next(stream).offset for _ in range(2)] == [18, 19]

    def test_by_time(self, stream: MessageStream) -> None:
        def moment(seconds: float) -> datetime.datetime:
            return datetime.datetime.fromtimestamp(seconds, datetime.UTC)

        self.consumer.rewind(self.topic, to=moment(1_004))
        assert next(stream).offset == 4
        self.consumer.rewind(self.topic, to=moment(1_011.5))
        assert next(stream).offset == 12
        self.consumer.rewind(self.topic, to=moment(2_000))  # Later than everything there is.
        assert stream.receive(0.3) is None

    def test_to_either_end(self, headrace_broker: Broker, stream: MessageStream) -> None:
        self.consumer.rewind(self.topic, to="smallest")
        assert next(stream).offset == 0
        self.consumer.rewind(self.topic, to="largest")
        assert stream.receive(0.3) is None
        headrace_broker.produce(self.topic, "new")
        assert next(stream).offset == 20

    def test_commits_follow(self, stream: MessageStream) -> None:
        self.consumer.rewind(self.topic, to=2)
        next(stream)
        next(stream)
        wait_until(lambda: self.consumer.committed([(self.topic, 0)])[Partition(self.topic, 0)] == 3, "went back")

    def test_of_what_is_owned_alone(self, stream: MessageStream) -> None:
        with pytest.raises(ClientError, match=f"{self.topic}-7 is not this consumer's"):
            self.consumer.rewind((self.topic, 7), to=0)
        with pytest.raises(ValueError, match="no offset -5"):
            self.consumer.rewind(self.topic, to=-5)

    def test_right_after_the_partitions_came(
        self, headrace_topic: str, stream: MessageStream, consumer: MakeConsumer
    ) -> None:
        fresh = consumer("another")
        [its] = fresh.create_message_streams({headrace_topic: 1})[headrace_topic]
        wait_until(lambda: bool(fresh.owned), "it has its partition")
        fresh.rewind(headrace_topic, to=15)
        assert next(its).offset == 15


@pytest.mark.headrace_topic(partitions=4)
class TestSlowStreams:
    COUNT = 20_000
    LIMIT = 1_000

    def test_a_slow_stream_holds_back_its_own_partitions_and_no_others(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        with Producer(headrace_broker.bootstrap) as producer:
            for partition in range(4):
                producer.send(headrace_topic, [Message(b"v", partition=partition)] * self.COUNT)
        one = consumer(queue_messages_max=self.LIMIT)
        slow, quick = one.create_message_streams({headrace_topic: 2})[headrace_topic]
        first = next(slow)
        queued_max = 0
        for _ in range(2 * self.COUNT):
            next(quick)
            queued_max = max(queued_max, one.statistics().queued_messages)
        # A poll may bring some more than the limit.
        assert queued_max < 4 * (self.LIMIT + 600)
        held_back = one.statistics().held_back
        assert first.source in held_back
        assert len(held_back) == 2
        rest = [first, *(next(slow) for _ in range(2 * self.COUNT - 1))]
        assert all(offsets == list(range(self.COUNT)) for offsets in by_partition(rest).values())
        assert slow.receive(0.2) is None
        assert one.statistics().held_back == frozenset()

    def test_however_slow_it_stays_in_the_group(self, headrace_pool: BrokerPool) -> None:
        config = {"session.timeout.ms": 3_000, "max.poll.interval.ms": 3_000, "heartbeat.interval.ms": 100}
        with (
            headrace_pool.broker({"group.min.session.timeout.ms": 100}) as broker,
            Consumer(broker.bootstrap, "group", config=config, commit_every_s=None) as one,
        ):
            broker.produce("slow", "v")
            [stream] = one.create_message_streams({"slow": 1})["slow"]
            message = next(stream)
            time.sleep(4)  # Longer than a consumer that does not poll may be away.
            one.commit(message)


class TestEndings:
    def test_close_ends_blocked_iterators(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one = consumer()
        streams = one.create_message_streams({headrace_topic: 2})[headrace_topic]
        seen: list[list[Received]] = []
        readers = [threading.Thread(target=lambda its=its: seen.append(list(its))) for its in streams]
        for reader in readers:
            reader.start()
        wait_until(lambda: bool(one.owned), "it has its partition")
        one.close()
        for reader in readers:
            reader.join(WAIT_S)
        assert seen == [[], []]
        with pytest.raises(StreamEnded):
            streams[0].receive()
        assert list(streams[0]) == []
        one.close()

    def test_what_is_in_hand_when_streams_stop_can_be_finished(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        fill(headrace_broker, headrace_topic, partitions=1, count=10)
        one = consumer()
        [stream] = one.create_message_streams({headrace_topic: 1})[headrace_topic]
        stopped = threading.Event()
        worked: list[int] = []

        def work() -> None:
            for message in stream:
                if message.offset == 4:
                    stopped.wait(WAIT_S)
                worked.append(message.offset)

        worker = threading.Thread(target=work)
        worker.start()
        wait_until(lambda: worked == [0, 1, 2, 3], "it is at the fifth")
        one.stop()
        stopped.set()
        worker.join(WAIT_S)
        one.close()
        assert worked == [0, 1, 2, 3, 4]
        assert headrace_broker.groups()[one.group].offsets[headrace_topic, 0].offset == 5

    def test_leaving_is_told_to_the_group(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        one = consumer()
        one.create_message_streams({headrace_topic: 1})
        wait_until(lambda: bool(one.owned), "it has its partition")
        one.close()
        assert headrace_broker.groups()[one.group].members == ()

    def test_nothing_works_after_the_end(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one = consumer()
        one.create_message_streams({headrace_topic: 1})
        one.close()
        for act in (
            lambda: one.commit({(headrace_topic, 0): 1}),
            lambda: one.rewind((headrace_topic, 0), to=0),
            lambda: one.committed([]),
        ):
            with pytest.raises(ClientError):
                act()
        with pytest.raises(ClientError, match="the consumer is closed"):
            one.create_message_streams({headrace_topic: 1})

    def test_closed_before_it_began(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one = consumer()
        one.close()
        with pytest.raises(ClientError, match="the consumer is closed"):
            one.create_message_streams({headrace_topic: 1})


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_streams_and_sets_outlive_their_broker(headrace_pool: BrokerPool, how: str) -> None:
    quick = {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
    with headrace_pool.broker() as broker:
        broker.create_topic("lasting", 2)
        with (
            Producer(broker.bootstrap, config=quick) as producer,
            Consumer(broker.bootstrap, "group", commit_every_s=None, config=QUICK | quick) as one,
        ):
            streams = one.create_message_streams({"lasting": 2})["lasting"]
            for number in range(20):
                producer.send("lasting", Message(b"%d" % number, partition=number % 2)).result(WAIT_S)
            collect(streams, 20)
            getattr(broker, how)()
            if how == "kill":
                broker.start()
            receipts = [producer.send("lasting", Message(b"%d" % n, partition=n % 2)) for n in range(20, 40)]
            for receipt in receipts:
                receipt.result(WAIT_S)
            for its in collect(streams, 20):
                assert [message.offset for message in its] == list(range(10, 20))
                one.commit(its[-1])
            assert {committed.offset for committed in broker.groups()["group"].offsets.values()} == {20}
        assert [len(broker.log("lasting", partition)) for partition in range(2)] == [20, 20]


class TestMistakes:
    def test_no_such_topic(self, consumer: MakeConsumer) -> None:
        with pytest.raises(UnknownTopic, match="there is no topic 'nowhere' at "):
            consumer(timeout_s=0.5).create_message_streams({"nowhere": 1})

    def test_nobody_there(self) -> None:
        with Broker() as broker:
            gone = broker.bootstrap
        with pytest.raises(Unreachable, match=f"cannot reach {gone}: .*refused"):
            Consumer(gone, "group", timeout_s=1).create_message_streams({"topic": 1})

    def test_a_topic_that_is_deleted_is_an_error_in_its_streams(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        config = {"topic.metadata.propagation.max.ms": 100}
        [stream] = consumer(config=config).create_message_streams({headrace_topic: 1})[headrace_topic]
        headrace_broker.produce(headrace_topic, "v")
        next(stream)
        admin = AdminClient({"bootstrap.servers": headrace_broker.bootstrap})
        admin.delete_topics([headrace_topic])[headrace_topic].result(WAIT_S)
        with pytest.raises(ClientError, match="UNKNOWN_TOPIC_OR_PART"):
            stream.receive(WAIT_S)

    def test_streams_are_created_once_and_read_once(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one = consumer()
        with pytest.raises(ClientError, match="no streams were created yet"):
            one.commit()
        with pytest.raises(ValueError, match="0 streams of t"):
            one.create_message_streams({"t": 0})
        with pytest.raises(ValueError, match="no topic"):
            one.create_message_streams({})
        [stream] = one.create_message_streams({headrace_topic: 1})[headrace_topic]
        with pytest.raises(ClientError, match="created once"):
            one.create_message_streams({headrace_topic: 1})
        reader = threading.Thread(target=lambda: list(stream))
        reader.start()
        wait_until(lambda: stream._is_read, "somebody reads it")
        with pytest.raises(ClientError, match="is being read elsewhere"):
            stream.receive(1)
        one.close()
        reader.join(WAIT_S)


@pytest.mark.headrace_topic(partitions=2)
class TestListeners:
    def test_what_comes_and_goes(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        heard: list[tuple[Change, frozenset[Partition]]] = []
        one = consumer(listener=lambda change, partitions: heard.append((change, partitions)))
        one.create_message_streams({headrace_topic: 1})
        wait_until(lambda: bool(one.owned), "it has its partitions")
        both = one.owned
        one.close()
        assert [event for event in heard if event[1]] == [(Change.GAINED, both), (Change.RELEASED, both)]

    def test_released_partitions_can_be_committed_one_last_time(
        self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer
    ) -> None:
        def flush(change: Change, partitions: frozenset[Partition]) -> None:
            if change is Change.RELEASED:
                one.commit(dict.fromkeys(partitions, 42))

        one = consumer(listener=flush, commit_every_s=None)
        one.create_message_streams({headrace_topic: 1})
        wait_until(lambda: bool(one.owned), "it has its partitions")
        one.close()
        offsets = headrace_broker.groups()[one.group].offsets
        assert {partition: committed.offset for partition, committed in offsets.items()} == {
            (headrace_topic, 0): 42,
            (headrace_topic, 1): 42,
        }

    def test_its_mistakes_are_the_streams(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        def stumble(change: Change, partitions: frozenset[Partition]) -> None:
            if change is Change.GAINED:
                raise RuntimeError("stumbled")

        [stream] = consumer(listener=stumble).create_message_streams({headrace_topic: 1})[headrace_topic]
        with pytest.raises(ClientError, match="stumbled") as raised:
            stream.receive(WAIT_S)
        assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.headrace_topic(partitions=2)
class TestAsync:
    def test_iterated(self, headrace_broker: Broker, headrace_topic: str, consumer: MakeConsumer) -> None:
        fill(headrace_broker, headrace_topic, partitions=2, count=50)
        one = consumer()
        streams = one.create_message_streams({headrace_topic: 2})[headrace_topic]

        async def read(stream: MessageStream) -> list[Received]:
            found = []
            async for message in stream:
                found.append(message)
                if len(found) == 50:
                    break
            return found

        async def read_both() -> list[list[Received]]:
            return await asyncio.wait_for(asyncio.gather(*map(read, streams)), WAIT_S)

        for its in asyncio.run(read_both()):
            assert [message.offset for message in its] == list(range(50))

    def test_ended_by_close_and_by_cancellation(self, headrace_topic: str, consumer: MakeConsumer) -> None:
        one = consumer()
        first, second = one.create_message_streams({headrace_topic: 2})[headrace_topic]

        async def read(stream: MessageStream) -> int:
            return len([message async for message in stream])

        async def end() -> int:
            cancelled, closed = asyncio.create_task(read(first)), asyncio.create_task(read(second))
            await asyncio.sleep(0.2)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await asyncio.to_thread(one.close)
            return await asyncio.wait_for(closed, WAIT_S)

        assert asyncio.run(end()) == 0
