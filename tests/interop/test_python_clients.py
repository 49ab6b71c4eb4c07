"""The Python clients beside the others, and on Apache Kafka as control.

What they do on a node among themselves is in `tests/clients`.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from tests.clients.drivers import DRIVERS
from tests.clients.forgiven import refused_connections_forgiven
from tests.clients.scenario import Message, digest, messages
from tests.interop import python_clients
from tests.interop.clients import CLIENTS
from tests.interop.exchange import Exchange, topic_of
from tests.interop.records import SCENARIOS, Record, hashes
from tests.interop.test_clients import usable

MANY = messages(3000, seed=7)
RESTART_AT = 1000

# The plug-in that gives kafkajs lz4 cannot take apart the frames that aiokafka makes, whoever the broker is.
UNREADABLE = {("aiokafka", "kafkajs", "codec-lz4")}


@pytest.mark.parametrize("consumer", CLIENTS)
@pytest.mark.parametrize("producer", DRIVERS)
def test_what_a_python_client_sends_another_reads(exchange: Exchange, producer: str, consumer: str) -> None:
    client = usable(consumer)
    sent = python_clients.sent(exchange, producer)
    readable = [scenario for scenario in SCENARIOS if (producer, consumer, scenario) not in UNREADABLE]
    topics = [topic_of(producer, scenario) for scenario in readable]
    reports = client.consume(exchange.broker.bootstrap, topics, timestamps=True)
    for scenario, report in zip(readable, reports, strict=True):
        assert report == hashes(sent[scenario], timestamps=True), scenario


@pytest.mark.parametrize("consumer", DRIVERS)
@pytest.mark.parametrize("producer", CLIENTS)
def test_what_another_sends_a_python_client_reads(exchange: Exchange, producer: str, consumer: str) -> None:
    stamps = usable(producer).stamps
    check_first_partitions(exchange, producer, consumer, exchange.sent(producer), timestamps=stamps)


@pytest.mark.parametrize("consumer", DRIVERS)
@pytest.mark.parametrize("producer", DRIVERS)
def test_python_clients_agree_on_apache_kafka_too(apache_exchange: Exchange, producer: str, consumer: str) -> None:
    sent = python_clients.sent(apache_exchange, producer)
    check_first_partitions(apache_exchange, producer, consumer, sent, timestamps=True)


def check_first_partitions(
    exchange: Exchange, producer: str, consumer: str, sent: dict[str, list[Record]], *, timestamps: bool
) -> None:
    """These clients are asked partition by partition, and one of each topic is enough."""
    for scenario, records in sent.items():
        expected = hashes(records, timestamps=timestamps)["0"]
        found = python_clients.read(
            consumer, exchange.broker.bootstrap, topic_of(producer, scenario), partition=0, count=expected["count"]
        )
        assert hashes(found, timestamps=timestamps)["0"] == expected, scenario


@pytest.mark.parametrize("producer", DRIVERS)
def test_a_restart_in_the_middle_loses_and_repeats_nothing(exchange: Exchange, producer: str) -> None:
    restart_while_sending(exchange)
    topic, bootstrap = restart_topic(producer), exchange.broker.bootstrap
    count = python_clients.end_offset(bootstrap, topic, 0)
    found = DRIVERS[producer].consume(bootstrap, topic, 0, count=count)
    assert len(found) == count
    if exchange.broker.name == "apache":
        # It remembers one batch of each producer over a restart; where more were in flight, they may come twice.
        found = list(dict.fromkeys(found))
    assert digest(found) == digest(MANY), f"{len(found)} of {len(MANY)}"


def restart_topic(producer: str) -> str:
    return f"restart-{producer}"


@cache
def restart_while_sending(exchange: Exchange) -> None:
    """Once for all of them."""
    exchange.create_topics(*map(restart_topic, DRIVERS))
    half_way = threading.Barrier(len(DRIVERS) + 1, timeout=60)

    def saying_when() -> Iterator[Message]:
        for number, message in enumerate(MANY):
            if number == RESTART_AT:
                half_way.wait()
            yield message

    def send(name: str) -> None:
        bootstrap, topic = exchange.broker.bootstrap, restart_topic(name)
        DRIVERS[name].produce(bootstrap, topic, {0: saying_when()}, codec="gzip", acks="all")

    with refused_connections_forgiven(), ThreadPoolExecutor(len(DRIVERS)) as pool:
        sending = [pool.submit(send, name) for name in DRIVERS]
        half_way.wait()
        exchange.interrupt()
        for one in sending:
            one.result()
