"""`headrace produce`: lines, files or JSON into a topic.

Nothing counts as sent before the cluster acknowledged it: the command waits for every message, tells of the
first that failed, and fails if one did.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Self

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.client_properties import parse_pairs
from headrace.cli.connection import Connection, connected
from headrace.cli.message_text import Message, parse_json, unescape
from headrace.cli.output import AsJson, CommandError, note, print_json, progress
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka import Message as Delivery

_POLL_EVERY: Final = 512  # Messages between two looks at what came back.
_FAILURES_SHOWN: Final = 5
_TOPIC_WAIT_S: Final = 5.0  # For a topic that the broker creates when first asked for it.
_ANY_PARTITION: Final = -1


class Input(StrEnum):
    """What one message is."""

    LINES = "lines"
    JSON = "json"
    FILES = "files"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


@connected
def produce(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to.", show_default=False)],
    file: Annotated[
        list[Path],
        typer.Option(
            "--file",
            "-f",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="Read this, not standard input. May be repeated.",
        ),
    ] = [],  # noqa: B006
    input_as: Annotated[
        Input,
        typer.Option(
            "--input",
            "-i",
            help="A message is a line, a line of JSON as consume --json writes, or a whole --file.",
        ),
    ] = Input.LINES,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="What stands between key and value on a line (\\t for a tab)."),
    ] = None,
    header: Annotated[list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every message.")] = [],  # noqa: B006
    empty_is_null: Annotated[bool, typer.Option("--empty-is-null", help="Send null for an empty value.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="By key if not said.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, metavar="PER_SECOND", help="No faster than this.")] = None,
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are packed.")
    ] = Compression.NONE,
    acks: Annotated[Acks, typer.Option(help="Who must have a message before it counts.")] = Acks.ALL,
    as_json: AsJson = False,
) -> None:
    """Send messages: lines of standard input, lines or JSON of files, or whole files."""
    if input_as is Input.FILES and not file:
        raise typer.BadParameter("--input files needs --file")
    if key_separator is not None and input_as is not Input.LINES:
        raise typer.BadParameter("--key-separator is for lines")
    if key_separator == "":
        raise typer.BadParameter("--key-separator is empty")
    headers = [(name, value.encode()) for name, value in parse_pairs(header, option="--header").items()]
    parse = _parser(input_as, separator=None if key_separator is None else unescape(key_separator))
    delivery = DeliveryReport()
    producer = cluster.producer(
        {
            "acks": acks.value,
            "compression.type": compression.value,
            "linger.ms": 5,
            "partitioner": "murmur2_random",  # A key goes where Kafka's own producers send it.
            "on_delivery": delivery.note,
            # Most deliveries succeed; a callback for each would take longer than sending it.
            "delivery.report.only.error": True,
        }
    )
    _wait_topic(cluster, producer, topic)
    began_s = time.monotonic()
    mistake = None
    with progress_bar() as bars, Sending(producer, topic, partition=partition) as sending:
        bar = bars.add_task(topic, total=sum(path.stat().st_size for path in file) if file else None)
        pace = pacer(rate)
        size_bytes = 0
        try:
            for message, message_bytes in _messages(file, parse, whole=input_as is Input.FILES):
                if headers:
                    message = message._replace(headers=[*headers, *message.headers])
                if empty_is_null and not message.value:
                    message = message._replace(value=None)
                sending.send(message)
                size_bytes += message_bytes
                pace(sending.sent, producer.poll)
                if sending.sent % _POLL_EVERY == 0:
                    producer.poll(0)
                    bars.update(bar, description=f"{sending.sent:,} sent", completed=size_bytes)
        except KeyboardInterrupt:
            pass  # What was sent before it still has to arrive, here too.
        except CommandError as error:
            mistake = error
        sent = sending.sent
        bars.update(bar, description=f"{sent:,} sent, waiting for acknowledgements", completed=size_bytes)
        unanswered = _flush(producer)
    acknowledged = sent - delivery.failed - unanswered
    _report(topic, delivery, acknowledged=acknowledged, unanswered=unanswered, began_s=began_s, as_json=as_json)
    if mistake is not None:
        raise mistake
    if sending.interrupted:
        raise typer.Exit(130)
    if acknowledged < sent:
        raise CommandError(f"{sent - acknowledged:,} of {sent:,} messages not acknowledged")


class DeliveryReport:
    """What came back from the cluster that was not an acknowledgement."""

    def __init__(self) -> None:
        self.failed = 0

    def note(self, error: "KafkaError | None", message: "Delivery") -> None:
        if error is None:
            return
        self.failed += 1
        if self.failed <= _FAILURES_SHOWN:
            note(f"not delivered: {(message.value() or b'')[:60]!r}: {error.str()} ({error.name()})")


def _report(
    topic: str, delivery: DeliveryReport, *, acknowledged: int, unanswered: int, began_s: float, as_json: bool
) -> None:
    elapsed_s = time.monotonic() - began_s
    if as_json:
        outcome = {"acknowledged": acknowledged, "failed": delivery.failed, "unanswered": unanswered}
        print_json({"topic": topic, **outcome, "elapsed_s": round(elapsed_s, 3)})
    else:
        note(f"{topic}: {acknowledged:,} acknowledged in {elapsed_s:.2f} s ({acknowledged / elapsed_s:,.0f}/s)")


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


def progress_bar() -> Progress:
    return progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )


def _parser(input_as: Input, *, separator: bytes | None) -> Callable[[bytes], Message]:
    if input_as is Input.JSON:
        return parse_json
    if separator is None:
        return lambda data: Message(None, data)

    def split(line: bytes) -> Message:
        key, found, value = line.partition(separator)
        if not found:
            raise ConfigError(f"no {separator!r} in {line[:60]!r}")
        return Message(key, value)

    return split


def _messages(
    files: Sequence[Path], parse: Callable[[bytes], Message], *, whole: bool
) -> Iterator[tuple[Message, int]]:
    """Each message with the bytes that it took of the input."""
    if whole:
        for path in files:
            data = path.read_bytes()
            yield parse(data), len(data)
    elif files:
        for path in files:
            with path.open("rb") as opened:
                yield from _line_messages(opened, str(path), parse)
    else:
        yield from _line_messages(sys.stdin.buffer, "standard input", parse)


def _line_messages(source: BinaryIO, name: str, parse: Callable[[bytes], Message]) -> Iterator[tuple[Message, int]]:
    for number, line in enumerate(source, 1):
        try:
            message = parse(line.removesuffix(b"\n"))
        except ConfigError as error:
            raise CommandError(f"{name}, line {number}: {error}") from error
        yield message, len(line)


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
