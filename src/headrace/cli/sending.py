"""Messages into a cluster: sent, counted and waited for.

Nothing counts as sent before the cluster acknowledged it: a delivery waits for every message, tells of the first
that failed, and is told apart by what came of it.
"""

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.connection import Connection
from headrace.cli.message_text import Message
from headrace.cli.output import CommandError, note, progress

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka import Message as Delivered

_POLL_EVERY: Final = 512  # Messages between two looks at what came back.
_FAILURES_SHOWN: Final = 5
_TOPIC_WAIT_S: Final = 5.0  # For a topic that the broker creates when first asked for it.
_ANY_PARTITION: Final = -1


@dataclass(slots=True)
class Delivery:
    """What came of it."""

    sent: int
    failed: int
    unanswered: int  # An interrupt left them open.
    elapsed_s: float
    is_interrupted: bool
    mistake: CommandError | None  # In the input; what came before it was sent all the same.

    @property
    def acknowledged(self) -> int:
        return self.sent - self.failed - self.unanswered

    def check(self) -> None:
        """Fail as a command does that could not send everything."""
        if self.mistake is not None:
            raise self.mistake
        if self.is_interrupted:
            raise typer.Exit(130)
        if self.acknowledged < self.sent:
            raise CommandError(f"{self.sent - self.acknowledged:,} of {self.sent:,} messages not acknowledged")


def deliver(
    cluster: Connection,
    topic: str,
    messages: Iterable[tuple[Message, int]],
    *,
    settings: Mapping[str, Any],
    partition: int | None = None,
    rate_per_s: float | None = None,
    input_bytes: int | None = None,
    one_by_one: bool = False,
    is_shown: bool = True,
) -> Delivery:
    """Send messages, each given with the bytes that it took of the input, and wait for every answer.

    `settings` are librdkafka's. `one_by_one` waits for each answer before it sends the next. A bar is shown to a
    person who watches, unless told otherwise.
    """
    failures = Failures()
    producer = cluster.producer(
        {
            "partitioner": "murmur2_random",  # A key goes where Kafka's own producers send it.
            **settings,
            "on_delivery": failures.note,
            # Most deliveries succeed; a callback for each would take longer than sending it.
            "delivery.report.only.error": True,
        }
    )
    _wait_topic(cluster, producer, topic)
    began_s = time.monotonic()
    mistake = None
    with progress_bar(is_shown=is_shown) as bars, Sending(producer, topic, partition=partition) as sending:
        bar = bars.add_task(topic, total=input_bytes)
        pace = pacer(rate_per_s)
        size_bytes = 0
        try:
            for message, message_bytes in messages:
                sending.send(message)
                size_bytes += message_bytes
                pace(sending.sent, producer.poll)
                if one_by_one:
                    producer.flush()
                elif sending.sent % _POLL_EVERY == 0:
                    producer.poll(0)
                    bars.update(bar, description=f"{sending.sent:,} sent", completed=size_bytes)
        except KeyboardInterrupt:
            pass  # What was sent before it still has to arrive, here too.
        except CommandError as error:
            mistake = error
        bars.update(bar, description=f"{sending.sent:,} sent, waiting for acknowledgements", completed=size_bytes)
        unanswered = _flush(producer)
    return Delivery(
        sent=sending.sent,
        failed=failures.count,
        unanswered=unanswered,
        elapsed_s=time.monotonic() - began_s,
        is_interrupted=sending.interrupted,
        mistake=mistake,
    )


class Failures:
    """What came back from the cluster that was not an acknowledgement."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, error: "KafkaError | None", message: "Delivered") -> None:
        if error is None:
            return
        self.count += 1
        if self.count <= _FAILURES_SHOWN:
            note(f"not delivered: {(message.value() or b'')[:60]!r}: {error.str()} ({error.name()})")


def pacer(
    rate_per_s: float | None, *, now: Callable[[], float] = time.monotonic
) -> Callable[[int, Callable[[float], Any]], None]:
    """A function that waits, by the way given to it, until message number n is due."""
    if rate_per_s is None:
        return lambda sent, wait: None
    began_s = now()

    def pace(sent: int, wait: Callable[[float], Any]) -> None:
        while (early_s := began_s + sent / rate_per_s - now()) > 0:
            wait(early_s)

    return pace


def progress_bar(*, is_shown: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    return progress(*columns) if is_shown else Progress(disable=True)


def _wait_topic(cluster: Connection, producer: "Producer", topic: str) -> None:
    """Until the topic can be written to. A broker that creates topics by itself needs a moment for it."""
    from confluent_kafka import KafkaError

    deadline_s = time.monotonic() + min(_TOPIC_WAIT_S, cluster.timeout_s)
    while (error := cluster.cluster_metadata(producer, topic).topics[topic].error) is not None:
        missing = error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}
        if not missing or time.monotonic() > deadline_s:
            hint = f" (headrace topics create {topic})" if missing else ""
            raise CommandError(f"topic {topic!r}: {error.str()}{hint}")
        time.sleep(0.1)


class Sending:
    """Messages on their way. An interrupt comes between two of them, never between sending one and counting it."""

    def __init__(self, producer: "Producer", topic: str, *, partition: int | None) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = _ANY_PARTITION if partition is None else partition
        self.sent = 0
        self.interrupted = False
        self._is_counting = False

    def __enter__(self) -> Self:
        self._handler_before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._handler_before)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        if not self._is_counting:
            raise KeyboardInterrupt

    def send(self, message: Message) -> None:
        while not self._queued(message):
            self._producer.poll(0.1)  # The queue is full: let some of it be answered.

    def _queued(self, message: Message) -> bool:
        self._is_counting = True
        try:
            self._producer.produce(
                self._topic,
                message.value,
                message.key,
                self._partition,
                timestamp=message.timestamp_ms or 0,
                headers=list(message.headers),
            )
            self.sent += 1
        except BufferError:
            return False
        finally:
            self._is_counting = False
            if self.interrupted:
                raise KeyboardInterrupt
        return True


def _flush(producer: "Producer") -> int:
    """Wait for every answer; the library gives up on a message by itself. How many an interrupt left open."""
    unanswered = len(producer)
    try:
        while unanswered:
            unanswered = producer.flush(0.2)
    except KeyboardInterrupt:
        producer.purge()
        unanswered = len(producer)
    return unanswered
