"""A producer, as the Kafka paper has it (NetDB'11, section 3): one message or a set of them to a topic.

Messages are gathered into batches for each partition, by count and by time. Every set has a receipt, which knows
nothing as written that the cluster has not acknowledged.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as RawMessage
from confluent_kafka import Producer as RawProducer

from headrace.client.errors import ClientError
from headrace.client.message import Message, MessageSet, Written, messages_of
from headrace.client.reaching import Trouble, make_client, partition_count
from headrace.client.receipt import Receipt
from headrace.client.settings import producer_settings
from headrace.wire.settings import Config

# Given a message and how many partitions its topic has.
Partitioner = Callable[[Message, int], int]

_ANY_PARTITION: Final = -1
_POLL_S: Final = 0.1
_FULL_S: Final = 0.05
_COUNT_AGE_S_MAX: Final = 30.0
_PURGE_S: Final = 5.0
_FAILED_KEPT_MAX: Final = 100
# By librdkafka's names. A key goes where Kafka's own producers send it; without one, a batch goes anywhere.
_PARTITIONERS: Final = {"keyed": "murmur2_random", "random": "random"}


class Producer:
    """May be used by many threads. Connects when it is made, and belongs to whoever closes it."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        partitioner: Literal["keyed", "random"] | Partitioner = "keyed",
        batch_messages_max: int = 10_000,
        linger_ms: float = 5.0,
        config: Config = None,
        timeout_s: float = 10.0,
    ) -> None:
        """A batch leaves when it has so many messages, or when its first has waited so long.

        `config` has librdkafka's settings or Java's, or is the path of a properties file, which may name the brokers
        too. Unless it says otherwise all replicas in sync acknowledge, and what is sent twice is written once.
        `timeout_s` is how long to wait for what a custom partitioner has to know.
        """
        self._timeout_s = timeout_s
        self._trouble = Trouble()
        self._choose = None if isinstance(partitioner, str) else partitioner
        if isinstance(partitioner, str) and partitioner not in _PARTITIONERS:
            raise ValueError(f"a partitioner is 'keyed', 'random' or a function, not {partitioner!r}")
        own = {
            "partitioner": _PARTITIONERS.get(partitioner, "random") if isinstance(partitioner, str) else "random",
            "batch.num.messages": batch_messages_max,
            "linger.ms": linger_ms,
            "error_cb": self._trouble.note,
        }
        settings = producer_settings(bootstrap, config, own)
        self._bootstrap: str = settings["bootstrap.servers"]
        self._raw = make_client(RawProducer, settings)
        self._counts: dict[str, tuple[int, float]] = {}  # Partitions of a topic, and when that was learnt.
        self._failed: list[Receipt] = []
        self._failed_more = 0  # Beyond those that are kept.
        self._state = threading.Condition()
        self._senders = 0  # How many are in `send`: whoever closes waits for what they still hand over.
        self._is_closed = False
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-producer", daemon=True)
        self._thread.start()

    def send(self, topic: str, message_set: MessageSet) -> Receipt:
        """Send one message or a set; bytes are a message. Waits only where the producer's buffer is full.

        A set is no transaction: each of its messages is written or not, and the receipt knows which.
        """
        messages = messages_of(message_set)
        with self._sending():
            partitions = [self._partition(topic, message) for message in messages]
            receipt = Receipt(topic, len(messages))
            for number, (message, where) in enumerate(zip(messages, partitions, strict=True)):
                try:
                    self._produce(topic, message, where, partial(self._answered, receipt, number))
                except KafkaException as error:
                    self._note_failure(receipt, number, error.args[0])
        return receipt

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent is acknowledged or given up. Raises if that takes longer, and
        DeliveryFailed for a set that failed, if nobody has asked its receipt."""
        left = self._raw.flush(-1 if timeout_s is None else timeout_s)
        if left:
            raise ClientError(f"{left} messages are not acknowledged within {timeout_s:g} s")
        self._raise_unseen()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, and end. What is not acknowledged in time is given up, and its receipts say so. From any thread."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = True
            self._state.wait_for(lambda: not self._senders, timeout_s)
        try:
            if self._raw.flush(-1 if timeout_s is None else timeout_s):
                self._raw.purge()
                self._raw.flush(_PURGE_S)
        finally:
            self._is_over.set()
            self._thread.join()
        self._raise_unseen()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        with self._state:
            if self._is_closed:
                raise ClientError("the producer is closed")
            self._senders += 1
        try:
            yield
        finally:
            with self._state:
                self._senders -= 1
                self._state.notify_all()

    def _produce(
        self, topic: str, message: Message, where: int, answered: Callable[[KafkaError | None, RawMessage], None]
    ) -> None:
        while True:
            try:
                self._raw.produce(
                    topic,
                    message.value,
                    message.key,
                    where,
                    on_delivery=answered,
                    timestamp=message.timestamp_ms or 0,
                    headers=list(message.headers) or None,
                )
            except BufferError:
                # Full: let some of it be answered. librdkafka gives up on what never is.
                self._raw.poll(_FULL_S)
            else:
                return

    def _partition(self, topic: str, message: Message) -> int:
        if message.partition is not None:
            return message.partition
        if self._choose is None:
            return _ANY_PARTITION
        count = self._partition_count(topic)
        chosen = self._choose(message, count)
        if not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose {chosen} of the {count} partitions of {topic}")
        return chosen

    def _partition_count(self, topic: str) -> int:
        """Partitions are added to topics now and then, so it is asked for again now and then."""
        count, learnt_s = self._counts.get(topic, (0, 0.0))
        now_s = time.monotonic()
        if not count or now_s - learnt_s > _COUNT_AGE_S_MAX:
            count = partition_count(
                self._raw, topic, self._trouble, bootstrap=self._bootstrap, timeout_s=self._timeout_s
            )
            self._counts[topic] = (count, now_s)
        return count

    def _answered(self, receipt: Receipt, number: int, error: KafkaError | None, message: RawMessage) -> None:
        if error is not None:
            self._note_failure(receipt, number, error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        receipt.note_written(number, Written(partition, offset))

    def _note_failure(self, receipt: Receipt, number: int, error: KafkaError) -> None:
        with self._state:
            if len(self._failed) == _FAILED_KEPT_MAX:
                self._failed = [one for one in self._failed if not one.is_looked_at]
            if receipt not in self._failed:
                if len(self._failed) < _FAILED_KEPT_MAX:
                    self._failed.append(receipt)
                else:
                    self._failed_more += 1
        receipt.note_failure(number, f"{error.str()} ({error.name()})")

    def _raise_unseen(self) -> None:
        """For the first; the others are raised next time, and counted now, as there may be no next time."""
        with self._state:
            unseen = [receipt for receipt in self._failed if not receipt.is_looked_at]
            first = next((receipt for receipt in unseen if receipt.done()), None)
            self._failed = [receipt for receipt in unseen if receipt is not first]
            others = len(self._failed)
            more = 0
            if first is None:
                more, self._failed_more = self._failed_more, 0
        if first is not None:
            try:
                first.result()
            except ClientError as failure:
                if others:
                    failure.add_note(f"Nor were messages of {others} other sets.")
                raise
        elif more:
            raise ClientError(f"{more} further messages were not acknowledged")

    def _run(self) -> None:
        """Answers are told of by whoever polls."""
        while not self._is_over.is_set():
            self._raw.poll(_POLL_S)
