"""A consumer, as the Kafka paper has it (NetDB'11, section 3): message streams over the topics of a group.

Consumers of one group share the messages of a topic (point-to-point); every group gets all of them
(publish/subscribe). Delivery is at least once and in order within a partition.
"""

import datetime
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.client.committing import Commit, Committer
from headrace.client.errors import ClientError, CommitFailed, StreamEnded
from headrace.client.exchange import Exchange
from headrace.client.lanes import Lanes, Limits
from headrace.client.message import Claim, Partition, Received
from headrace.client.positions import RESET, End, Position, moment_ms, offset_of
from headrace.client.pump import COMMIT_S, Listener, Pump
from headrace.client.reaching import Trouble, make_client, partition_count
from headrace.client.settings import consumer_settings
from headrace.client.stream import MessageStream
from headrace.wire.settings import Config

Result = TypeVar("Result")

CLOSE_S: Final = 30.0
_SEEK_AGAIN_S: Final = 0.02

# What can be committed: a message (which says that it and all before it are done with), or offsets to go on at.
Committable = Received | Mapping[Partition, int] | Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    owned: frozenset[Partition]
    held_back: frozenset[Partition]  # Not fetched for now, because their stream is slow.
    queued_messages: int
    queued_bytes: int


class Consumer:
    """One member of a group. It connects when its streams are created, and belongs to whoever closes it."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None,
        group: str,
        *,
        start: End = "smallest",
        commit_every_s: float | None = 5.0,
        queue_messages_max: int = 10_000,
        queue_bytes_max: int = 8 << 20,
        config: Config = None,
        listener: Listener | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """`start` is where the group begins in a partition of which it has committed nothing.

        Every `commit_every_s` seconds, and before partitions are given up, the streams' progress is committed; None
        leaves that to `commit`. The queue limits are for each partition. `config` has librdkafka's settings or Java's,
        or is the path of a properties file, which may name the brokers too. The `listener` hears of partitions that
        come and go, in a thread of the consumer's. `timeout_s` is how long to wait for a cluster.
        """
        if start not in RESET:
            raise ValueError(f"start is 'smallest' or 'largest', not {start!r}")
        if commit_every_s is not None and commit_every_s <= 0:
            raise ValueError(f"commit_every_s is {commit_every_s}; None is never")
        self.group: Final = group
        self._commit_every_s = commit_every_s
        self._limits = Limits(queue_messages_max, queue_bytes_max)
        self._listener = listener
        self._timeout_s = timeout_s
        self._trouble = Trouble()
        self._settings = consumer_settings(
            bootstrap,
            config,
            {
                "group.id": group,
                "auto.offset.reset": RESET[start],
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "error_cb": self._trouble.note,
            },
        )
        self._life = threading.Lock()  # Over being started and being closed.
        self._is_closed = False
        self._running: _Running | None = None

    def create_message_streams(self, streams: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Join the group, and get so many streams for each topic. Once in a consumer's life."""
        for topic, count in streams.items():
            if count < 1:
                raise ValueError(f"{count} streams of {topic}")
        if not streams:
            raise ValueError("no topic")
        with self._life:
            if self._is_closed:
                raise ClientError("the consumer is closed")
            if self._running is not None:
                raise ClientError("the streams of a consumer are created once; make another consumer of the group")
            self._running = self._begin(streams)
            return self._running.streams

    def _begin(self, counts: Mapping[str, int]) -> "_Running":
        exchange = Exchange(Lanes(counts, self._limits))
        streams = {
            topic: [MessageStream(feed, exchange) for feed in feeds] for topic, feeds in exchange.lanes.feeds.items()
        }
        committer = Committer(exchange)
        raw = make_client(RawConsumer, {**self._settings, "on_commit": committer.on_commit})
        committer.consumer = raw
        try:
            for topic in counts:
                partition_count(
                    raw, topic, self._trouble, bootstrap=self._settings["bootstrap.servers"], timeout_s=self._timeout_s
                )
        except BaseException:
            raw.close()
            raise
        pump = Pump(
            raw,
            committer,
            exchange,
            topics=list(counts),
            commit_every_s=self._commit_every_s,
            listener=self._listener,
        )
        pump.start()
        return _Running(exchange, pump, streams)

    # Commits.

    def commit(self, what: Committable | None = None, *, timeout_s: float = COMMIT_S) -> None:
        """Store where the group goes on after us, and wait until that is done. Nothing given: all that is finished.

        Raises NotOwner if a partition is not ours any more, or a message was delivered before it left and came back.
        """
        try:
            self.commit_async(what, timeout_s=timeout_s).result(timeout_s)
        except TimeoutError:
            raise CommitFailed(f"a commit is not answered within {timeout_s:g} s") from None

    def commit_async(self, what: Committable | None = None, *, timeout_s: float = COMMIT_S) -> "Future[None]":
        """The same, without waiting. The future has the error."""
        running = self._here()
        lanes = running.exchange.lanes
        claims: dict[Partition, Claim] = {}
        with running.exchange.lock:
            if what is None:
                offsets = lanes.finished()
            elif isinstance(what, Received):
                offsets, claims = {what.source: what.offset + 1}, {what.source: what.claim}
                lanes.note_finished(what.source, what.offset, what.claim)
            else:
                offsets = _given(what)
            lanes.note_commit(offsets)  # So that no periodic commit takes a given one back.
            commit = Commit(offsets, claims, timeout_s=timeout_s)
            if offsets and not running.pump.is_this_thread:
                running.pump.commit(commit)
        if offsets and running.pump.is_this_thread:
            running.pump.commit_now(commit)
        commit.answer.add_done_callback(partial(_take_again, running.exchange, tuple(offsets)))
        return commit.answer

    def committed(self, partitions: Iterable[Partition | tuple[str, int]]) -> dict[Partition, int | None]:
        """Where the group would go on; None where it has committed nothing."""
        asked = [TopicPartition(topic, partition) for topic, partition in partitions]
        found = self._ask("committed offsets", lambda raw: raw.committed(asked, timeout=self._timeout_s))
        return {partition: offset if offset >= 0 else None for partition, offset in _offsets(found).items()}

    # Replay.

    def rewind(self, where: str | Partition | tuple[str, int] | Iterable[Partition], *, to: Position) -> None:
        """Read on at an offset, at the first message of a moment or later, or at either end; forwards as well.

        `where` is a topic, of which all partitions are meant that this consumer owns, or the partitions themselves.
        What waits in the streams is dropped, what is in hand stays so. Nothing is committed by that.
        """
        running = self._here()
        partitions = self._owned_among(where)
        if isinstance(to, datetime.datetime):
            asked = [TopicPartition(topic, partition, moment_ms(to)) for topic, partition in partitions]
            found = self._ask(f"offsets of {to}", lambda raw: raw.offsets_for_times(asked, timeout=self._timeout_s))
            # The end, where nothing is as late as that, comes as the number that stands for it.
            offsets = _offsets(found)
        else:
            offsets = dict.fromkeys(partitions, offset_of(to))
        for partition, offset in offsets.items():
            self._seek(running, partition, offset)

    def _owned_among(self, where: str | Partition | tuple[str, int] | Iterable[Partition]) -> list[Partition]:
        owned = self.owned
        if isinstance(where, str):
            return sorted(partition for partition in owned if partition.topic == where)
        match where:
            case (str() as topic, int() as number):
                wanted = [Partition(topic, number)]
            case _:
                wanted = [Partition(*partition) for partition in where]
        for partition in wanted:
            if partition not in owned:
                raise ClientError(f"{partition} is not this consumer's")
        return wanted

    def _seek(self, running: "_Running", partition: Partition, offset: int) -> None:
        def seek(raw: RawConsumer) -> bool:
            with running.exchange.lock:
                if not running.exchange.lanes.is_claim_good(partition, None):
                    raise ClientError(f"{partition} is not this consumer's any more")
            try:
                raw.seek(TopicPartition(partition.topic, partition.partition, offset))
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:
                    return False  # A partition that came a moment ago is not being read yet.
                raise
            with running.exchange.lock:
                running.exchange.lanes.rewind(partition)
            return True

        deadline_s = time.monotonic() + self._timeout_s
        while not self._ask(f"{partition}", seek):
            if time.monotonic() > deadline_s:
                raise ClientError(f"{partition} is not being read yet")
            time.sleep(_SEEK_AGAIN_S)

    def _ask(self, what: str, act: Callable[[RawConsumer], Result]) -> Result:
        pump = self._here().pump
        if pump.is_this_thread:
            raise ClientError("a listener can commit, and nothing else: it keeps the consumer from polling")
        try:
            return pump.call(act).result()
        except KafkaException as error:
            raise ClientError(f"{what}: {error.args[0].str()}") from error

    # Life.

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions that are this consumer's at the moment."""
        running = self._here()
        with running.exchange.lock:
            return running.exchange.lanes.owned

    def statistics(self) -> ConsumerStatistics:
        running = self._here()
        with running.exchange.lock:
            lanes = running.exchange.lanes
            return ConsumerStatistics(lanes.owned, lanes.held_back, lanes.queued_messages, lanes.queued_bytes)

    def stop(self) -> None:
        """End the streams: each iterator ends where it next asks for a message. From any thread.

        The consumer stays in its group until it is closed, so that what is in hand can be finished and committed.
        """
        with self._life:
            if self._running is not None:
                self._running.exchange.end(StreamEnded("the consumer is stopped"))

    def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Stop, commit what is finished unless commits are left to you, and leave the group. From any thread."""
        self.stop()
        with self._life:
            self._is_closed = True
            running = self._running
        if running is None:
            return
        if running.pump.is_this_thread:
            raise ClientError("a listener cannot close its consumer")
        if not running.pump.end(timeout_s=timeout_s):
            raise ClientError(f"the consumer has not left its group within {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _here(self) -> "_Running":
        if self._running is None:
            raise ClientError("the consumer is closed" if self._is_closed else "no streams were created yet")
        return self._running


def _take_again(exchange: Exchange, partitions: Iterable[Partition], answer: "Future[None]") -> None:
    """What did not arrive is left to the next periodic commit."""
    if answer.exception() is not None:
        with exchange.lock:
            exchange.lanes.forget_commit(partitions)


def _offsets(found: Sequence[TopicPartition]) -> dict[Partition, int]:
    for one in found:
        if one.error is not None:
            raise ClientError(f"{one.topic}-{one.partition}: {one.error.str()}")
    return {Partition(one.topic, one.partition): one.offset for one in found}


def _given(offsets: Mapping[Partition, int] | Mapping[tuple[str, int], int]) -> dict[Partition, int]:
    given = {Partition(*partition): offset for partition, offset in offsets.items()}
    for partition, offset in given.items():
        if offset < 0:
            raise ValueError(f"there is no offset {offset} in {partition}")
    return given


@dataclass(frozen=True, slots=True)
class _Running:
    """What there is of a consumer once it has streams."""

    exchange: Exchange
    pump: Pump
    streams: dict[str, list[MessageStream]]
