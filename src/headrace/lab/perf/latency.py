"""Send one record, wait for it at the other end, and so on: the run behind `kafka-e2e-latency`."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headrace.errors import HeadraceError
from headrace.lab.perf.formats import LATENCY_FRACTIONS, latency_lines, progress_line
from headrace.lab.perf.statistics import percentiles

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    Delivered = Callable[[KafkaError | None, Message], None]
    Headers = list[tuple[str, str | bytes | None]]

_TIMEOUT_MS: Final = 60_000
_STEP_S: Final = 0.1
_RECORDS_A_LINE: Final = 1000


class WrongRecord(HeadraceError):
    """Something else came back than was sent, or nothing."""


class Producer(Protocol):
    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        *,
        headers: "Headers",
        on_delivery: "Delivered",
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...


class Consumer(Protocol):
    """It stands at the end of every partition of the topic."""

    def poll(self, timeout: float) -> "Message | None": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    topic: str
    records: int
    value_bytes: int
    key_bytes: int = 0  # Without, there is no key.
    headers: int = 0
    header_key_bytes: int = 0
    header_value_bytes: int = 0  # -1: null.


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    print_line: Callable[[str], None]
    check: Callable[[], None]
    clock_ns: Callable[[], int] = time.perf_counter_ns


class Record(NamedTuple):
    key: bytes | None
    value: bytes
    headers: "Headers"


def run(producer: Producer, consumer: Consumer, plan: Plan, around: Surroundings) -> None:
    chance = random.Random(0)
    elapsed_ns_total = 0
    latencies_ms = []
    for number in range(plan.records):
        record = make_record(plan, chance)
        start_ns = around.clock_ns()
        _send(producer, plan.topic, record, around)
        message = _receive(consumer, around)
        elapsed_ns = around.clock_ns() - start_ns
        compare(record, message)
        if number % _RECORDS_A_LINE == 0:
            around.print_line(progress_line(number, elapsed_ns))
        elapsed_ns_total += elapsed_ns
        latencies_ms.append(elapsed_ns // 1_000_000)
    for line in latency_lines(elapsed_ns_total, plan.records, percentiles(latencies_ms, *LATENCY_FRACTIONS)):
        around.print_line(line)


def make_record(plan: Plan, chance: random.Random) -> Record:
    """Each part is one letter, many times."""

    def letters(size_bytes: int) -> bytes:
        return bytes([ord("A") + chance.randrange(26)]) * size_bytes

    return Record(
        letters(plan.key_bytes) if plan.key_bytes else None,
        letters(plan.value_bytes),
        [
            (
                letters(plan.header_key_bytes).decode(),
                None if plan.header_value_bytes < 0 else letters(plan.header_value_bytes),
            )
            for _ in range(plan.headers)
        ],
    )


def compare(sent: Record, message: "Message") -> None:
    read = Record(message.key(), message.value() or b"", list(message.headers() or []))  # type: ignore[arg-type]
    for part in Record._fields:
        if getattr(read, part) != getattr(sent, part):
            raise WrongRecord(
                f"The message {part} read [{getattr(read, part)!r}] did not match the message {part} sent "
                f"[{getattr(sent, part)!r}]: somebody else writes to the topic"
            )


def _send(producer: Producer, topic: str, record: Record, around: Surroundings) -> None:
    """Until it is acknowledged or given up, which delivery.timeout.ms bounds."""
    from confluent_kafka import KafkaException

    reports: list[KafkaError | None] = []
    producer.produce(
        topic,
        record.value,
        record.key,
        headers=record.headers,
        on_delivery=lambda error, _: reports.append(error),
    )
    while not reports:
        producer.poll(_STEP_S)
        around.check()
    if reports[0] is not None:
        raise KafkaException(reports[0])


def _receive(consumer: Consumer, around: Surroundings) -> "Message":
    from confluent_kafka import KafkaException

    deadline_ns = around.clock_ns() + _TIMEOUT_MS * 1_000_000
    while True:
        message = consumer.poll(_STEP_S)
        if message is None:
            around.check()
            if around.clock_ns() > deadline_ns:
                raise WrongRecord(f"poll() timed out before finding a result (timeout:[{_TIMEOUT_MS}ms])")
        elif message.error() is not None:
            raise KafkaException(message.error())
        else:
            return message
