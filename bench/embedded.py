"""What a suite of ten tests costs on Apache Kafka, started for the session as a container would be, and on Headrace.

    python -m bench.embedded [--rounds 3] [--markdown docs/proofs/DATE-embedded-race.md]

Each test makes a topic, writes a hundred messages with confluent-kafka, reads them as a consumer group, commits and
leaves. The tests are the same; what differs is what starts before them and ends after them. Apache Kafka runs from its
Maven artefacts (Java 17), in one process with the options of its own start script, and with what is usual to make it
quick to test with: no initial rebalance delay. A container adds the time to start that. Systems take turns.
"""

import argparse
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.cells import markdown_line
from bench.host import headrace_version
from headrace.lab.facts import host_facts
from headrace.lab.targets.apache_kafka import KAFKA_VERSION
from headrace.testing import Broker, BrokerPool
from tests.oracle.kafka import ApacheKafka, kafka_jars
from tests.oracle.toolbox import ToolMissing

TESTS: Final = 10
MESSAGES: Final = 100
HEADS: Final = ("seconds", "ready after", f"{TESTS} tests", "gone after", "in all")


class Timings(NamedTuple):
    ready_s: float  # Until the first test can begin.
    tests_s: float  # Of all of them.
    gone_s: float  # Until nothing is left.


def run_test(bootstrap: str) -> None:
    topic = f"orders-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
    for number in range(MESSAGES):
        producer.produce(topic, key=str(number), value=f"order {number}")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen: set[bytes | None] = set()
    deadline_s = time.monotonic() + 60
    while len(seen) < MESSAGES:
        assert time.monotonic() < deadline_s
        for message in consumer.consume(MESSAGES, 0.1):
            assert message.error() is None, message.error()
            seen.add(message.key())
    consumer.commit(asynchronous=False)
    consumer.close()


@contextmanager
def apache_kafka() -> Iterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="bench-embedded-"))
    try:
        with ApacheKafka(directory) as kafka:
            yield kafka.bootstrap
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def headrace() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@contextmanager
def headrace_of_a_pool(pool: BrokerPool) -> Iterator[str]:
    with pool.broker() as broker:
        yield broker.bootstrap


def measure(system: AbstractContextManager[str]) -> Timings:
    moments = [time.perf_counter()]
    with system as bootstrap:
        moments.append(time.perf_counter())
        for _ in range(TESTS):
            run_test(bootstrap)
        moments.append(time.perf_counter())
    moments.append(time.perf_counter())
    return Timings(*(later - sooner for sooner, later in pairwise(moments)))


def lines_of(runs: Mapping[str, Sequence[Timings]]) -> list[tuple[str, ...]]:
    """Of each system a line of the table, in seconds."""
    return [
        (name, *(spread([*part]) for part in zip(*found, strict=True)), spread([sum(one) for one in found]))
        for name, found in runs.items()
    ]


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def page(lines: Sequence[tuple[str, ...]], *, day: date, rounds: int, commit: str, machine: str) -> str:
    return "\n".join(
        [
            f"# A small suite on an embedded broker and on Apache Kafka, {day.isoformat()}",
            "",
            f"`python -m bench.embedded --rounds {rounds}`, headrace {commit}. The same {TESTS} tests on each, "
            f"by turns, rounds: {rounds}. Median (least..greatest), in seconds.",
            "",
            f"Machine: {machine}.",
            "",
            *map(markdown_line, (HEADS, ("---",) * len(HEADS), *lines)),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a dated page")
    given = parser.parse_args(arguments)
    try:
        kafka_jars()  # Fetched before the clock runs.
    except ToolMissing as missing:
        parser.exit(2, f"{missing}\n")
    with BrokerPool() as pool:
        with pool.broker():
            pass
        systems = {
            f"Apache Kafka {KAFKA_VERSION}": apache_kafka,
            "Headrace": headrace,
            "Headrace, of a pool": lambda: headrace_of_a_pool(pool),
        }
        runs: dict[str, list[Timings]] = {name: [] for name in systems}
        for _ in range(given.rounds):
            for name, start in systems.items():
                runs[name].append(measure(start()))
    lines = lines_of(runs)
    table = Table(*HEADS, box=None)
    for line in lines:
        table.add_row(*line)
    Console().print(table)
    if given.markdown:
        facts = {**host_facts(), "confluent-kafka": version("confluent-kafka")}
        machine = ", ".join(f"{name} {value}" for name, value in facts.items())
        today = datetime.now(UTC).date()
        commit = headrace_version()
        given.markdown.write_text(page(lines, day=today, rounds=given.rounds, commit=commit, machine=machine))


if __name__ == "__main__":
    main()
