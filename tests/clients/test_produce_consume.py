"""Messages of every kind through the broker and back, by three clients, each reading what the others wrote."""

from collections.abc import Iterator

import pytest

from headrace.testing.node_process import NodeProcess
from tests.clients.drivers import CODECS, DRIVERS, Driver
from tests.clients.scenario import Message, digest, messages, spread

PARTITIONS = 3


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


def check(bootstrap: str, topic: str, expected: dict[int, list[Message]], *, reader: Driver) -> None:
    for partition, sent in expected.items():
        found = reader.consume(bootstrap, topic, partition, count=len(sent))
        assert len(found) == len(sent)
        assert digest(found) == digest(sent)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_back_unchanged(
    driver: Driver, codec: str, shared_node: NodeProcess, topic_name: str
) -> None:
    sent = spread(messages(400, seed=1, large=True), PARTITIONS)
    driver.create_topic(shared_node.bootstrap, topic_name, partitions=PARTITIONS)
    driver.produce(shared_node.bootstrap, topic_name, sent, codec=codec, acks="all")
    for reader in DRIVERS.values():
        check(shared_node.bootstrap, topic_name, sent, reader=reader)


def test_a_header_may_be_null(driver: Driver, shared_node: NodeProcess, topic_name: str) -> None:
    sent = {0: [Message(b"k", b"v", (("null", None), ("empty", b"")), 1_600_000_000_000)]}
    # The only one of the three that can write a null header.
    DRIVERS["confluent-kafka"].produce(shared_node.bootstrap, topic_name, sent, codec="none", acks="all")
    check(shared_node.bootstrap, topic_name, sent, reader=driver)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_acknowledgement(driver: Driver, acks: str, shared_node: NodeProcess, topic_name: str) -> None:
    sent = spread(messages(300, seed=2), PARTITIONS)
    driver.create_topic(shared_node.bootstrap, topic_name, partitions=PARTITIONS)
    driver.produce(shared_node.bootstrap, topic_name, sent, codec="none", acks=acks)
    check(shared_node.bootstrap, topic_name, sent, reader=driver)


def test_a_topic_is_made_when_first_named(driver: Driver, shared_node: NodeProcess, topic_name: str) -> None:
    sent = {0: messages(10, seed=3)}
    driver.produce(shared_node.bootstrap, topic_name, sent, codec="none", acks="all")
    check(shared_node.bootstrap, topic_name, sent, reader=driver)


def test_a_restart_in_the_middle_loses_nothing(driver: Driver, node: NodeProcess) -> None:
    first, second = messages(200, seed=4), messages(200, seed=5)
    driver.create_topic(node.bootstrap, "kept", partitions=1)
    driver.produce(node.bootstrap, "kept", {0: first}, codec="lz4", acks="all")
    node.stop()
    node.start()
    driver.produce(node.bootstrap, "kept", {0: second}, codec="none", acks="all")
    node.kill()
    node.start()
    check(node.bootstrap, "kept", {0: first + second}, reader=driver)


def test_a_producer_carries_on_through_a_kill(driver: Driver, node: NodeProcess) -> None:
    sent = messages(3000, seed=6)
    driver.create_topic(node.bootstrap, "through", partitions=1)

    def killing_on_the_way() -> Iterator[Message]:
        for number, message in enumerate(sent):
            if number in (500, 1500, 2500):
                node.kill()
                node.start()
            yield message

    driver.produce(node.bootstrap, "through", {0: killing_on_the_way()}, codec="none", acks="all")
    check(node.bootstrap, "through", {0: sent}, reader=driver)
