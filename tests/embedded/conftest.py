"""Embedded brokers in every way that they can run, and clients for them that leave nothing behind."""

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from headrace.testing import Broker, BrokerPool

MakeBroker = Callable[..., Broker]


@pytest.fixture(scope="session")
def pool() -> Iterator[BrokerPool]:
    with BrokerPool() as pool:
        yield pool


@pytest.fixture(params=["process", "fork", "thread"])
def make_broker(request: pytest.FixtureRequest, pool: BrokerPool) -> Iterator[MakeBroker]:
    """Makes brokers, not started, that run in one of the three ways; each test is run for all of them."""
    made: list[Broker] = []

    def make(config: Mapping[str, Any] | None = None, **options: Any) -> Broker:
        if request.param == "fork":
            broker = pool.broker(config, **options)
        else:
            broker = Broker(config, in_thread=request.param == "thread", **options)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


@pytest.fixture(scope="session")
def shared_broker(pool: BrokerPool) -> Iterator[Broker]:
    # Retention, five minutes after the start, falls in the midst of a test: perhaps of one with records of years ago.
    with pool.broker({"log.retention.ms": -1}) as broker:
        yield broker


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    """Empty, and as good as new."""
    shared_broker.clear()
    return shared_broker


@contextmanager
def producing(broker: Broker, **settings: Any) -> Iterator[Producer]:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "reconnect.backoff.ms": 10}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    try:
        yield producer
    finally:
        producer.purge()
        producer.flush(10)


@contextmanager
def consuming(broker: Broker, *topics: str, **settings: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )
    consumer.subscribe(list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


Producing = Callable[..., AbstractContextManager[Producer]]


def send(producer: Producer, topic: str, value: bytes, **fields: Any) -> str | None:
    """Produce and wait; None, or the name of the error."""
    outcome: list[str | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcome.append(None if error is None else error.name())

    producer.produce(topic, value, on_delivery=delivered, **fields)
    while not outcome:
        producer.poll(0.05)
    return outcome[0]


@pytest.fixture(autouse=True)
def forgotten_sockets_of_clients() -> Iterator[None]:
    """Third-party clients leave sockets to the collector; collected here, they do not fail somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
