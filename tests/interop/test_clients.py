"""Third-party clients produce, consume and administer; every hash must come out as computed here.

Each test runs against Headrace and against Apache Kafka: where both fail, the fault is the test's.
"""

import pytest

from tests.interop.clients import CLIENTS, Client
from tests.interop.exchange import Exchange, slow_records, topic_of
from tests.interop.records import SCENARIOS, Record, Scenario, hashes
from tests.oracle.toolbox import ToolMissing, without_tool

ADMINISTRATORS = [name for name, client in CLIENTS.items() if client.administers]


def usable(name: str) -> Client:
    try:
        CLIENTS[name].prepare()
    except ToolMissing as missing:
        without_tool(missing)
    return CLIENTS[name]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("consumer", CLIENTS)
@pytest.mark.parametrize("producer", CLIENTS)
def test_what_one_client_sends_another_reads(exchange: Exchange, producer: str, consumer: str, scenario: str) -> None:
    usable(producer)
    usable(consumer)
    expected = hashes(exchange.sent(producer)[scenario], timestamps=CLIENTS[producer].stamps)
    assert exchange.read(consumer, producer)[scenario] == expected


@pytest.mark.parametrize("producer", CLIENTS)
def test_a_restart_in_the_middle_loses_and_repeats_nothing(exchange: Exchange, producer: str) -> None:
    usable(producer)
    report, expected = exchange.read_after_restart(producer), hashes(slow_records(), timestamps=False)
    if exchange.broker.name == "apache" and report["0"]["count"] > expected["0"]["count"]:
        return  # It remembers one batch of each producer over a restart; where more were in flight, they come twice.
    assert report == expected


@pytest.mark.parametrize("consumer", CLIENTS)
def test_reading_begins_where_it_is_told_to(exchange: Exchange, consumer: str) -> None:
    """In the middle of a batch, which comes whole and is to be cut by the client."""
    client = usable(consumer)
    usable("franz-go")
    sent = [record for record in exchange.sent("franz-go")["codec-zstd"] if record.partition == 1]
    report = client.consume_from(exchange.broker.bootstrap, topic_of("franz-go", "codec-zstd"), partition=1, offset=7)
    expected = hashes(sent[7:], timestamps=True)["1"]
    assert report == expected | {"first": 7, "last": len(sent) - 1}


@pytest.mark.parametrize("client_name", CLIENTS)
def test_offsets_are_found_by_time(exchange: Exchange, client_name: str) -> None:
    client = usable(client_name)
    topic = f"times-{client_name}"
    records = [Record(partition=0, value=b"v", timestamp_ms=1_700_000_000_000 + 10 * index) for index in range(40)]
    exchange.create_topics(topic)
    writer = usable("franz-go")
    writer.produce(exchange.broker.bootstrap, {topic: Scenario(records=records, codec="gzip")})
    writer.produce(exchange.broker.bootstrap, {topic: Scenario(records=records)})
    asked = [1_600_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_390, 1_700_000_000_391]
    report = client.offsets(exchange.broker.bootstrap, topic, partition=0, timestamps_ms=asked)
    assert report == {"begin": 0, "end": 80, "at": [0, 0, 1, 39, client.offset_after_the_last(end=80)]}


@pytest.mark.parametrize("client_name", ADMINISTRATORS)
def test_topics_are_administered(exchange: Exchange, client_name: str) -> None:
    client = usable(client_name)
    topic = f"admin-{client_name}"
    records = [Record(partition=1, key=b"%d" % index, timestamp_ms=1_700_000_000_000) for index in range(10)]

    def do(*steps: dict[str, object]) -> list[dict[str, object]]:
        return client.administer(exchange.broker.bootstrap, [{"topic": topic, **step} for step in steps])

    do({"do": "create", "partitions": 2, "configs": {"segment.ms": "3600000", "cleanup.policy": "delete"}})
    client.produce(exchange.broker.bootstrap, {topic: Scenario(records=records)})
    described, listed, configs, trimmed, failures = do(
        {"do": "describe"},
        {"do": "list"},
        {"do": "configs", "names": ["segment.ms", "cleanup.policy"]},
        {"do": "trim", "partition": 1, "before": 4},
        {"do": "fails"},
    )
    assert described.pop("has_id", True) is True  # kafkajs knows no topic ids.
    assert described == {"partitions": 2, "leaders": 1, "brokers": 1}
    assert topic in listed["topics"]  # type: ignore[operator]
    assert configs == {"segment.ms": "3600000", "cleanup.policy": "delete"}
    assert trimmed == {"begin": 4}
    assert failures["errors"] == {
        "create again": "TOPIC_ALREADY_EXISTS",
        "delete unknown": "UNKNOWN_TOPIC_OR_PARTITION",
        "illegal name": "INVALID_TOPIC_EXCEPTION",
    }
    (remaining,) = client.consume(exchange.broker.bootstrap, [topic], timestamps=True)
    kept = hashes(records[4:], timestamps=True)["1"] | {"first": 4, "last": 9}
    assert remaining["1"] == kept

    do({"do": "grow", "partitions": 5}, {"do": "alter", "configs": {"segment.ms": "7200000"}})
    exchange.wait_until(lambda: do({"do": "describe"})[0]["partitions"] == 5)
    exchange.wait_until(lambda: do({"do": "configs", "names": ["segment.ms"]})[0]["segment.ms"] == "7200000")

    do({"do": "delete"})
    exchange.wait_until(lambda: topic not in do({"do": "list"})[0]["topics"])  # type: ignore[operator]
