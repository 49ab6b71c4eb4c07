"""What a suite of ten tests costs on Apache Kafka, started for the session as a container would be, and on Headrace.

    python -m bench.embedded [--rounds 3]

Each test makes a topic, writes a hundred messages with confluent-kafka, reads them as a consumer group, commits and
leaves. The tests are the same; what differs is what starts before them and ends after them. Apache Kafka runs from its
Maven artefacts (Java 17), in one process with the options of its own start script, and with what is usual to make it
quick to test with: no initial rebalance delay. A container adds the time to start that.
"""

import argparse
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from headrace.testing import Broker, BrokerPool
from tests.oracle.kafka import ApacheKafka, kafka_jars

TESTS: Final = 10
MESSAGES: Final = 100


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


def measure(system: AbstractContextManager[str]) -> tuple[float, float, float]:
    """Seconds until the first test can begin, of all tests, and until nothing is left."""
    moments = [time.perf_counter()]
    with system as bootstrap:
        moments.append(time.perf_counter())
        for _ in range(TESTS):
            run_test(bootstrap)
        moments.append(time.perf_counter())
    moments.append(time.perf_counter())
    return moments[1] - moments[0], moments[2] - moments[1], moments[3] - moments[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    kafka_jars()  # Fetched before the clock runs.
    table = Table("", "ready after s", f"{TESTS} tests s", "gone after s", "in all s", box=None)
    with BrokerPool() as pool:
        with pool.broker():
            pass
        systems = {
            "Apache Kafka 4.1": apache_kafka,
            "Headrace": headrace,
            "Headrace, of a pool": lambda: headrace_of_a_pool(pool),
        }
        for name, start in systems.items():
            runs = [measure(start()) for _ in range(rounds)]
            parts = [statistics.median(part) for part in zip(*runs, strict=True)]
            table.add_row(name, *(f"{part:.3f}" for part in parts), f"{statistics.median(map(sum, runs)):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
