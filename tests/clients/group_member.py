"""One member of a consumer group as a process of its own: `python -m tests.clients.group_member CLIENT`.

Lines of JSON go in and out, the same for every client in every language, so that one scenario can be played by any of
them. The first line in says who the member is:

    {"bootstrap", "group", "topic", "name", "assignor", "instance", "session_ms", "heartbeat_ms", "commits",
     "starts_again"}

`name` is its client id, `instance` null or the id of a static member. `commits` is "each" (what was delivered is
committed, and waited for, after every poll and before partitions are given up) or "told" (only when told).
`starts_again` is whether it may begin anew where its library gives up for good. Then come
orders, `{"do": ...}`: `commit`, `commit async`, `seek` (`partition`, `offset`), `pause` and `resume` (`partition`),
`leave`. The end of the input is an order to leave, too.

Lines out tell what happens, as it happens:

    {"owned": [0, 2]}                                   all partitions that it owns from now on
    {"partition": 0, "offset": 7, "hashes": [...]}      records that were delivered, from that offset on
    {"done": "seek"}                                    an order was carried out
    {"failed": "commit", "error": "..."}                the client reported an error that it recovers from by itself

The hash of a record is what `drivers/README.md` of `tests/interop` says, of that record alone. Anything else that goes
wrong ends the process with a non-zero status.
"""

import asyncio
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from tests.clients.scenario import Message, fingerprint

POLL_S = 0.1
JOIN_POLL_S = 2.0
POLL_RECORDS_MAX = 50
RECONNECT_MS_MAX = 500
FETCH_WAIT_MS = 50
# How long the others wait for a member that has to join again.
REBALANCE_MS = 20_000

Delivered = Iterable[tuple[int, int, Message]]  # Partition, offset, message.
Config = dict[str, Any]

_output = threading.Lock()  # Some clients call back from threads of their own.


def say(**event: object) -> None:
    with _output:
        print(json.dumps(event), flush=True)


class Owned:
    """What a member owns. All clients tell what comes and what goes; eager ones let everything go first."""

    def __init__(self) -> None:
        self._partitions: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partitions: Iterable[Any]) -> None:
        self._partitions.update(one.partition for one in partitions)
        say(owned=sorted(self._partitions))

    def remove(self, partitions: Iterable[Any]) -> None:
        self._partitions.difference_update([one.partition for one in partitions])
        say(owned=sorted(self._partitions))


class MemberClient(Protocol):
    recoverable: tuple[type[Exception], ...]

    def poll(self) -> Delivered: ...
    def commit(self) -> None: ...
    def commit_async(self, done: Callable[[Exception | None], None]) -> None: ...
    def seek(self, partition: int, offset: int) -> None: ...
    def pause(self, partition: int) -> None: ...
    def resume(self, partition: int) -> None: ...
    def close(self) -> None: ...


class Confluent:
    def __init__(self, config: Config) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._topic = config["topic"]
        self.recoverable: tuple[type[Exception], ...] = (KafkaException,)
        self._owned = Owned()
        self._commits = config["commits"] == "each"
        self._committed: Callable[[Exception | None], None] | None = None
        settings = {
            "bootstrap.servers": config["bootstrap"],
            "client.id": config["name"],
            "group.id": config["group"],
            "partition.assignment.strategy": config["assignor"],
            "session.timeout.ms": config["session_ms"],
            "heartbeat.interval.ms": config["heartbeat_ms"],
            "max.poll.interval.ms": max(REBALANCE_MS, config["session_ms"]),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
            "on_commit": self._on_commit,
        }
        if config["instance"] is not None:
            settings["group.instance.id"] = config["instance"]
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [config["topic"]], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self._owned.add(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        if self._commits:
            try:
                self.commit()
            except self.recoverable as error:
                say(failed="commit", error=str(error))
        self._owned.remove(partitions)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        say(failed="ownership", error="lost")
        self._owned.remove(partitions)

    def poll(self) -> Iterator[tuple[int, int, Message]]:
        """One by one: what is returned has been delivered, whatever happens to its partition in the next call."""
        for number in range(POLL_RECORDS_MAX):
            message: Any = self._consumer.poll(0 if number else POLL_S)
            if message is None:
                return
            if message.error() is not None:
                say(failed="poll", error=str(message.error()))
                continue
            headers = tuple((name, content) for name, content in message.headers() or [])
            yield (
                message.partition(),
                message.offset(),
                Message(message.key(), message.value(), headers, message.timestamp()[1]),
            )

    def commit(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            for partition in self._consumer.commit(asynchronous=False):
                if partition.error is not None:
                    raise KafkaException(partition.error)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # Nothing new to commit.
                raise

    def commit_async(self, done: Callable[[Exception | None], None]) -> None:
        self._committed = done
        self._consumer.commit(asynchronous=True)

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        done, self._committed = self._committed, None
        if done is not None:
            failure = error or next((one.error for one in partitions if one.error is not None), None)
            done(None if failure is None else RuntimeError(str(failure)))

    def _partition(self, index: int, offset: int = 0) -> Any:
        from confluent_kafka import TopicPartition

        return TopicPartition(self._topic, index, offset)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._partition(partition, offset))

    def pause(self, partition: int) -> None:
        self._consumer.pause([self._partition(partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([self._partition(partition)])

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    def __init__(self, config: Config) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from kafka.errors import KafkaError

        self._owned = owned = Owned()

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                owned.add(assigned)

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                owned.remove(revoked)

            def on_partitions_lost(self, lost: Iterable[Any]) -> None:
                say(failed="ownership", error="lost")
                owned.remove(lost)

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
            "cooperative-sticky": CooperativeStickyAssignor,
        }
        self.recoverable: tuple[type[Exception], ...] = (KafkaError,)
        self._topic = config["topic"]
        self._consumer = KafkaConsumer(
            bootstrap_servers=config["bootstrap"],
            client_id=config["name"],
            group_id=config["group"],
            group_instance_id=config["instance"],
            partition_assignment_strategy=[assignors[config["assignor"]]],
            session_timeout_ms=config["session_ms"],
            heartbeat_interval_ms=config["heartbeat_ms"],
            max_poll_interval_ms=max(REBALANCE_MS, config["session_ms"]),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        self._consumer.subscribe([config["topic"]], listener=Listener())
        # Who joins before it knows of its topic has to join again. See `poll`.
        self._consumer.partitions_for_topic(config["topic"])

    def poll(self) -> Iterator[tuple[int, int, Message]]:
        """In 3.0.12 a poll that times out loses what becomes of a join under way: it joins once more, or, if it was the
        news of its topic that had it join, never ends it and sends no more heartbeats. So it is given time to join."""
        timeout_s = POLL_S if self._owned else JOIN_POLL_S
        polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=POLL_RECORDS_MAX)
        for records in polled.values():
            yield from map(_delivered, records)

    def commit(self) -> None:
        # Partitions are given up inside a poll, and never with anything that is not committed.
        self._consumer.commit()

    def commit_async(self, done: Callable[[Exception | None], None]) -> None:
        def answered(offsets: object, response: object) -> None:
            done(response if isinstance(response, Exception) else None)

        self._consumer.commit_async(callback=answered)

    def _partition(self, index: int) -> Any:
        from kafka import TopicPartition

        return TopicPartition(self._topic, index)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._partition(partition), offset)

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._partition(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._partition(partition))

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    """Its loop runs inside of polls, which is nearly always, and stands still while records are told of."""

    def __init__(self, config: Config) -> None:
        from aiokafka.errors import KafkaError

        self.recoverable: tuple[type[Exception], ...] = (KafkaError,)
        self._config = config
        self._loop = asyncio.new_event_loop()
        self._consumer = self._loop.run_until_complete(self._start(config))
        self._committing: set[asyncio.Task[None]] = set()

    async def _start(self, config: Config) -> Any:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        owned, recoverable = Owned(), self.recoverable

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                owned.add(assigned)

            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                if config["commits"] == "each" and revoked:
                    try:
                        await consumer.commit()
                    except recoverable as error:
                        say(failed="commit", error=repr(error))
                owned.remove(revoked)

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }
        consumer = AIOKafkaConsumer(
            bootstrap_servers=config["bootstrap"],
            client_id=config["name"],
            group_id=config["group"],
            group_instance_id=config["instance"],
            partition_assignment_strategy=[assignors[config["assignor"]]],
            session_timeout_ms=config["session_ms"],
            heartbeat_interval_ms=config["heartbeat_ms"],
            rebalance_timeout_ms=REBALANCE_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        consumer.subscribe([config["topic"]], listener=Listener())
        await consumer.start()
        return consumer

    def poll(self) -> Iterator[tuple[int, int, Message]]:
        polled = self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=POLL_RECORDS_MAX)
        for records in self._loop.run_until_complete(polled).values():
            yield from map(_delivered, records)

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def commit_async(self, done: Callable[[Exception | None], None]) -> None:
        """It has no other way to commit than to wait for it; a task waits."""

        async def commit() -> None:
            try:
                await self._consumer.commit()
            except self.recoverable as error:
                done(error)
            else:
                done(None)

        task = self._loop.create_task(commit())
        self._committing.add(task)
        task.add_done_callback(self._committing.discard)

    def _partition(self, index: int) -> Any:
        from aiokafka import TopicPartition

        return TopicPartition(self._config["topic"], index)

    def _call(self, act: Callable[..., None], *arguments: Any) -> None:
        """What does not wait wants to be called from inside the loop all the same."""

        async def call() -> None:
            act(*arguments)

        self._loop.run_until_complete(call())

    def seek(self, partition: int, offset: int) -> None:
        self._call(self._consumer.seek, self._partition(partition), offset)

    def pause(self, partition: int) -> None:
        self._call(self._consumer.pause, self._partition(partition))

    def resume(self, partition: int) -> None:
        self._call(self._consumer.resume, self._partition(partition))

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


def _delivered(record: Any) -> tuple[int, int, Message]:
    headers = tuple((name, content) for name, content in record.headers)
    return record.partition, record.offset, Message(record.key, record.value, headers, record.timestamp)


CLIENTS: dict[str, Callable[[Config], MemberClient]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def tell_of(delivered: Delivered) -> int:
    """Records of one partition that follow each other share a line. Returns how many there were."""
    count, first, hashes = 0, (-1, -1), list[str]()
    for partition, offset, message in delivered:
        if hashes and (partition, offset) != (first[0], first[1] + len(hashes)):
            say(partition=first[0], offset=first[1], hashes=hashes)
            hashes = []
        if not hashes:
            first = (partition, offset)
        hashes.append(fingerprint(message))
        count += 1
    if hashes:
        say(partition=first[0], offset=first[1], hashes=hashes)
    return count


def carry_out(order: dict[str, Any], member: MemberClient) -> None:
    what = order["do"]

    def done(error: Exception | None) -> None:
        if error is None:
            say(done=what)
        else:
            say(failed=what, error=repr(error))

    if what == "commit async":
        member.commit_async(done)
        return
    if what == "commit":
        member.commit()
    elif what == "seek":
        member.seek(order["partition"], order["offset"])
    elif what in ("pause", "resume"):
        getattr(member, what)(order["partition"])
    else:
        raise ValueError(f"no such order: {order}")
    done(None)


def run(member: MemberClient, orders: "queue.SimpleQueue[dict[str, Any]]", *, commits: bool) -> None:
    is_dirty = False
    while True:
        while not orders.empty():
            order = orders.get()
            if order["do"] == "leave":
                member.close()
                return
            carry_out(order, member)
        try:
            is_dirty = (tell_of(member.poll()) > 0 and commits) or is_dirty
            if is_dirty:
                member.commit()
                is_dirty = False
        except member.recoverable as error:
            # Where a commit was refused, the next one makes up for it.
            say(failed="commit" if is_dirty else "poll", error=repr(error))


def main() -> None:
    config = json.loads(sys.stdin.readline())
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(json.loads(line))
        orders.put({"do": "leave"})

    threading.Thread(target=listen, daemon=True).start()
    run(CLIENTS[sys.argv[1]](config), orders, commits=config["commits"] == "each")


if __name__ == "__main__":
    main()
