"""The thread that reads from the cluster into the lanes, for as long as a consumer lives.

It polls without a pause, so that the consumer stays a member of its group however long its readers take; a reader that
is slow only has its own partitions held back.

librdkafka's consumer is used in this thread alone: partitions come and go, commits are sent and answered, and reading
is moved to another offset here, which is why none of it can overtake a message. Others give orders, which are carried
out between two polls. (The library would have them wait for a lock that is hardly free while somebody polls.)
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, TypeVar

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import Message as RawMessage

from headrace.client.committing import UNANSWERED_MAX, Commit, Committer
from headrace.client.errors import ClientError, StreamEnded
from headrace.client.exchange import Exchange
from headrace.client.message import Partition
from headrace.client.pacing import CommitPace
from headrace.client.settings import logger

# A poll is not woken by an order, nor by a lane that has room again: where those are to be expected, it is short.
_POLL_S: Final = 0.05
_POLL_BUSY_S: Final = 0.002
_BUSY_S: Final = 1.0  # After an order.
_POLL_MESSAGES: Final = 500
_LAST_COMMIT_S: Final = 5.0
COMMIT_S: Final = 30.0

# What trying again does not mend. Anything else librdkafka recovers from by itself.
_FINAL: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FATAL,
    }
)


class Change(Enum):
    """What became of partitions, as a listener is told."""

    GAINED = "gained"
    RELEASED = "released"  # They are about to go: no more of their messages come, and commits are still taken.
    LOST = "lost"  # They are gone, and somebody else may have them.


Listener = Callable[[Change, frozenset[Partition]], None]

Result = TypeVar("Result")


class Order(NamedTuple):
    carry_out: Callable[[], None]
    give_up: Callable[[ClientError], None]


class Pump:
    """Of one librdkafka consumer, which it closes in the end."""

    def __init__(
        self,
        consumer: RawConsumer,
        committer: Committer,
        exchange: Exchange,
        *,
        topics: Sequence[str],
        commit_every_s: float | None,
        listener: Listener | None,
    ) -> None:
        self._consumer = consumer
        self._committer = committer
        self._exchange = exchange
        self._topics = list(topics)
        self._commits_by_itself = commit_every_s is not None
        self._pace = CommitPace(commit_every_s, now_s=time.monotonic())
        self._listener = listener
        self._orders: deque[Order] = deque()
        self._commits: deque[Commit] = deque()
        self._ordering = threading.Lock()
        self._is_over = False  # No more orders.
        self._busy_until_s = 0.0
        self._is_told_to_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-consumer", daemon=True)

    @property
    def is_this_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def start(self) -> None:
        self._thread.start()

    def end(self, *, timeout_s: float) -> bool:
        """Commit what is finished, leave the group, and end. False if that takes longer."""
        self._is_told_to_end.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def call(self, act: Callable[[RawConsumer], Result]) -> "Future[Result]":
        """Have something done with the library's consumer."""
        answer: Future[Result] = Future()
        answer.set_running_or_notify_cancel()

        def carry_out() -> None:
            try:
                answer.set_result(act(self._consumer))
            except Exception as error:  # Whatever it is, it belongs to who gave the order.
                answer.set_exception(error)

        self._order(Order(carry_out, answer.set_exception))
        return answer

    def commit(self, commit: Commit) -> None:
        """With the exchange's lock held since its offsets were looked up: commits are sent in the order of asking."""
        with self._ordering:
            self._check_room(self._commits)
            self._commits.append(commit)

    def commit_now(self, commit: Commit) -> None:
        """In this thread, by a listener, which cannot wait for an answer otherwise."""
        self._send_commits()
        self._committer.hold(commit)
        self._committer.send_and_wait(commit.offsets)

    def _order(self, order: Order) -> None:
        with self._ordering:
            self._check_room(self._orders)
            self._orders.append(order)

    def _check_room(self, queue: Sized) -> None:
        if self._is_over:
            raise StreamEnded("the consumer is closed")
        if len(queue) >= UNANSWERED_MAX:
            raise ClientError(f"{UNANSWERED_MAX} orders are not carried out yet")

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
            while not self._is_told_to_end.is_set():
                self._carry_out_orders()
                self._send_commits()
                self._hold_back()
                self._poll()
                self._committer.send_waiting()
                if self._pace.is_due(time.monotonic()):
                    self._commit_finished()
            self._commit_and_wait()
        except ClientError as error:
            self._exchange.end(error)
        except BaseException as error:
            ending = ClientError(f"the consumer failed: {error}")
            ending.__cause__ = error
            self._exchange.end(ending)
        finally:
            self._exchange.end(StreamEnded("the consumer is closed"))
            try:
                self._consumer.close()  # Gives its partitions up, and leaves the group.
            finally:
                self._committer.give_up()
                self._give_up_orders()

    # Messages.

    def _poll(self) -> None:
        first = self._consumer.poll(_POLL_BUSY_S if self._is_busy else _POLL_S)
        if first is None:
            return
        # Before the rest, because within that call the partition may go and come back.
        self._put([first])
        self._put(self._consumer.consume(_POLL_MESSAGES, 0))

    def _put(self, messages: Iterable[RawMessage]) -> None:
        with self._exchange.lock:
            put = self._exchange.lanes.put
            for message in messages:
                if (error := message.error()) is None:
                    put(message)
                else:
                    self._hear(error, message)

    def _hear(self, error: KafkaError, message: RawMessage) -> None:
        where = message.topic() or "consumer"
        if error.fatal() or error.code() in _FINAL:
            raise ClientError(f"{where}: {error.str()} ({error.name()})")
        logger.warning("%s: %s (%s)", where, error.str(), error.name())

    def _hold_back(self) -> None:
        with self._exchange.lock:
            hold_back, release = self._exchange.lanes.take_changes()
        if hold_back:
            self._consumer.pause(_topic_partitions(hold_back))
        if release:
            self._consumer.resume(_topic_partitions(release))

    # Partitions come and go. Called by librdkafka from within a poll, or while the consumer is closed.

    def _on_assign(self, _: RawConsumer, partitions: list[TopicPartition]) -> None:
        gained = _partitions(partitions)
        with self._exchange.lock:
            self._exchange.lanes.gain(sorted(gained))
        self._tell(Change.GAINED, gained)

    def _on_revoke(self, _: RawConsumer, partitions: list[TopicPartition]) -> None:
        released = _partitions(partitions)
        with self._exchange.lock:
            self._exchange.lanes.drain(released)
        self._send_commits()  # They were asked for by their owner.
        self._tell(Change.RELEASED, released)
        if (commit := self._take_finished(released)) is not None:
            self._committer.hold(commit)
        self._committer.send_and_wait(released)
        self._drop(released)

    def _on_lost(self, _: RawConsumer, partitions: list[TopicPartition]) -> None:
        lost = _partitions(partitions)
        self._drop(lost)
        self._tell(Change.LOST, lost)

    def _drop(self, partitions: frozenset[Partition]) -> None:
        with self._exchange.lock:
            held_back = self._exchange.lanes.held_back & partitions
            self._exchange.lanes.lose(sorted(partitions))
        self._committer.drop(partitions)
        if held_back:
            # Should they come back to us, they are not to be paused still.
            self._consumer.resume(_topic_partitions(held_back))

    def _tell(self, change: Change, partitions: frozenset[Partition]) -> None:
        if self._listener is not None:
            self._listener(change, partitions)

    # Commits.

    def _commit_finished(self) -> None:
        if self._take_finished() is not None:
            self._send_commits()

    def _take_finished(self, among: frozenset[Partition] | None = None) -> Commit | None:
        """A commit of what is finished and was not committed yet. Without `among` it is put with the others."""
        if not self._commits_by_itself:
            return None
        with self._exchange.lock:
            finished = self._exchange.lanes.finished()
            if among is not None:
                finished = {partition: offset for partition, offset in finished.items() if partition in among}
            if not finished:
                return None
            self._exchange.lanes.note_commit(finished)
            commit = Commit(finished, timeout_s=COMMIT_S)
            if among is None:
                self._commits.append(commit)
        commit.answer.add_done_callback(partial(self._look_at, frozenset(finished)))
        return commit

    def _look_at(self, partitions: frozenset[Partition], answer: "Future[None]") -> None:
        if (failure := answer.exception()) is not None:
            logger.warning("periodic commit: %s", failure)
            with self._exchange.lock:
                self._exchange.lanes.forget_commit(partitions)

    def _send_commits(self) -> None:
        while self._commits:
            self._committer.send(self._commits.popleft())
            self._busy_until_s = time.monotonic() + _BUSY_S

    def _commit_and_wait(self) -> None:
        """Without end it would wait for a broker that is gone."""
        self._commit_finished()
        deadline_s = time.monotonic() + _LAST_COMMIT_S
        while not self._committer.is_idle and time.monotonic() < deadline_s:
            self._consumer.poll(_POLL_BUSY_S)  # Messages that come now are nobody's any more.
            self._committer.send_waiting()

    # Orders.

    @property
    def _is_busy(self) -> bool:
        with self._exchange.lock:
            is_held_back = bool(self._exchange.lanes.held_back)
        return is_held_back or time.monotonic() < self._busy_until_s

    def _carry_out_orders(self) -> None:
        for _ in range(len(self._orders)):  # No more than there are, so that polls have their turn.
            self._orders.popleft().carry_out()
            self._busy_until_s = time.monotonic() + _BUSY_S

    def _give_up_orders(self) -> None:
        with self._ordering:
            self._is_over = True
        closed = StreamEnded("the consumer is closed")
        for order in self._orders:
            order.give_up(closed)
        for commit in self._commits:
            commit.answer.set_exception(closed)


def _partitions(partitions: Iterable[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(one.topic, one.partition) for one in partitions)


def _topic_partitions(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, partition in partitions]
