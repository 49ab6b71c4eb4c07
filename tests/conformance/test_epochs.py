"""Leader epochs, compared on brokers that were killed and started again between two writes."""

from collections.abc import Iterator

import pytest

from tests.conformance.broker import Broker
from tests.conformance.case import Case
from tests.conformance.conftest import PROPERTIES, SUBJECT_IS_APACHE
from tests.conformance.differences import ACCEPTED
from tests.conformance.test_conformance import differences
from tests.oracle.kafka import ApacheKafka
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import ToolMissing, without_tool

try:
    from tests.conformance.batches import batch
    from tests.conformance.cases.bodies import append
    from tests.conformance.cases.epochs import AFTER, BEFORE, CASES, EPOCHS, TOPICS
except ToolMissing as missing:  # The schemas come with Kafka's jars.
    without_tool(missing)

RUNS = [
    pytest.param(case, version, id=f"{case.api}/{case.name}/v{version}")
    for case in CASES
    for version in case.all_versions()
]


def _crashed(process: RunningBroker) -> Iterator[Broker]:
    try:
        process.start()
        before = Broker(process.name, process.bootstrap, str(process.data_dir))
        with before.connection:
            before.create_topics(TOPICS)
            for partition in (0, 1):
                append(before, EPOCHS, partition, [batch(BEFORE)])
            first = before.find_leader_epoch(EPOCHS)
        process.kill()
        process.start()
        broker = Broker(process.name, process.bootstrap, str(process.data_dir))
        with broker.connection:
            broker.wait_served({name: topic.partitions for name, topic in TOPICS.items()})
            append(broker, EPOCHS, 0, [batch(AFTER)])
            broker.epochs = (first, broker.find_leader_epoch(EPOCHS))
            yield broker
    except ToolMissing as missing:
        without_tool(missing)
    finally:
        process.discard()


@pytest.fixture(scope="module")
def apache() -> Iterator[Broker]:
    yield from _crashed(ApacheKafka.temporary(properties=PROPERTIES))


@pytest.fixture(scope="module")
def headrace() -> Iterator[Broker]:
    subject = ApacheKafka if SUBJECT_IS_APACHE else Headrace
    yield from _crashed(subject.temporary(properties=PROPERTIES))


def test_a_crash_raises_the_epoch(apache: Broker, headrace: Broker) -> None:
    for broker in (apache, headrace):
        first, present = broker.epochs
        assert 0 == first < present


@pytest.mark.parametrize(("case", "version"), RUNS)
def test_answers_after_a_crash_are_the_same(case: Case, version: int, apache: Broker, headrace: Broker) -> None:
    name = f"{case.api}/{case.name}"
    found = [
        one
        for one in differences(case, version, apache, headrace)
        if SUBJECT_IS_APACHE or not any(accepted.covers(name, one.path) for accepted in ACCEPTED)
    ]
    assert not found, "\n" + "\n".join(map(str, found))
