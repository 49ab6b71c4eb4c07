"""`headrace.columnar` beside the Java client and the others, on Headrace and on Apache Kafka.

What each of them writes we read as the Java consumer does, field by field; what we write each of them reads; and keys
land where the Java producer's own partitioner puts them. Transactions are in `test_columnar_transactions.py`.
"""

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from headrace import columnar
from tests.clients.columnar_rows import Row, read_rows, table_of
from tests.clients.drivers import DRIVERS
from tests.clients.scenario import Message
from tests.interop import python_clients
from tests.interop.clients import CLIENTS
from tests.interop.exchange import Exchange, topic_of
from tests.interop.java_rows import java_rows, rows_sent
from tests.interop.records import PARTITIONS, SCENARIOS, Record, hashes
from tests.interop.test_clients import usable


@cache
def sent_by_us(exchange: Exchange) -> None:
    """Every scenario, in its codec and with its acknowledgements."""
    exchange.create_topics(*(topic_of("columnar", name) for name in SCENARIOS))
    for name, scenario in SCENARIOS.items():
        how: dict[str, Any] = {"compression": scenario.codec, "acks": scenario.acks}
        table = table_of(
            [_message(record) for record in scenario.records],
            partitions=[record.partition for record in scenario.records],
        )
        columnar.write(
            exchange.broker.bootstrap,
            topic_of("columnar", name),
            table,
            partition="partition",
            idempotent=scenario.acks == "all",
            batch_bytes=8192,  # Several batches of each.
            **how,
        )
    unacknowledged = topic_of("columnar", "acks-0")
    exchange.wait_until(lambda: _count(exchange, unacknowledged) == len(SCENARIOS["acks-0"].records))


def _count(exchange: Exchange, topic: str) -> int:
    return sum(python_clients.end_offset(exchange.broker.bootstrap, topic, number) for number in range(PARTITIONS))


@cache
def read_by_java(exchange: Exchange, producer: str) -> dict[str, list[Row]]:
    topics = [topic_of(producer, name) for name in SCENARIOS]
    return dict(zip(SCENARIOS, java_rows(exchange.broker.bootstrap, *topics), strict=True))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_java_writes_we_read_as_java_does(exchange: Exchange, scenario: str) -> None:
    usable("java")
    sent = exchange.sent("java")[scenario]
    ours = read_rows(exchange.broker.bootstrap, topic_of("java", scenario))
    assert ours == read_by_java(exchange, "java")[scenario]
    assert ours == rows_sent(sent)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_we_write_java_reads_as_we_do(exchange: Exchange, scenario: str) -> None:
    usable("java")
    sent_by_us(exchange)
    theirs = read_by_java(exchange, "columnar")[scenario]
    assert theirs == rows_sent(SCENARIOS[scenario].records)
    assert theirs == read_rows(exchange.broker.bootstrap, topic_of("columnar", scenario))


@pytest.mark.parametrize("producer", [*CLIENTS, *DRIVERS])
def test_what_any_client_writes_we_read(exchange: Exchange, producer: str) -> None:
    if producer in DRIVERS:
        sent, stamps = python_clients.sent(exchange, producer), True
    else:
        stamps = usable(producer).stamps
        sent = exchange.sent(producer)
    for scenario in SCENARIOS:
        rows = read_rows(exchange.broker.bootstrap, topic_of(producer, scenario))
        assert hashes([_record(row) for row in rows], timestamps=stamps) == hashes(sent[scenario], timestamps=stamps)


@pytest.mark.parametrize("consumer", CLIENTS)
def test_what_we_write_any_client_reads(exchange: Exchange, consumer: str) -> None:
    client = usable(consumer)
    sent_by_us(exchange)
    reports = client.consume(
        exchange.broker.bootstrap, [topic_of("columnar", name) for name in SCENARIOS], timestamps=True
    )
    for name, report in zip(SCENARIOS, reports, strict=True):
        assert report == hashes(SCENARIOS[name].records, timestamps=True), name


def test_the_time_of_the_append_is_the_one_that_java_sees(exchange: Exchange, topic_name: str) -> None:
    java = usable("java")
    exchange.create_topics(topic_name, message_timestamp_type="LogAppendTime")
    java.produce(exchange.broker.bootstrap, {topic_name: SCENARIOS["codec-lz4"]})
    (theirs,) = java_rows(exchange.broker.bootstrap, topic_name)
    assert read_rows(exchange.broker.bootstrap, topic_name) == theirs
    assert {row.timestamp_type for row in theirs} == {1}


def test_keys_land_where_java_puts_them(exchange: Exchange, topic_name: str) -> None:
    """By the Java producer's own choice: it is given no partition."""
    java = usable("java")
    theirs, ours = f"{topic_name}-theirs", f"{topic_name}-ours"
    chance = random.Random(1)
    keys = [b"", *(chance.randbytes(size) for size in range(1, 70)), *(b"user-%d" % number for number in range(3000))]
    records = [Record(partition=0, key=key, value=b"%d" % number).to_json() for number, key in enumerate(keys)]
    java.administer(
        exchange.broker.bootstrap,
        [
            *({"do": "create", "topic": topic, "partitions": 11, "configs": {}} for topic in (theirs, ours)),
            {
                "do": "produce", "topic": theirs, "codec": "none", "acks": "all",
                "records": [record | {"partition": None} for record in records],
            },
        ],
    )  # fmt: skip
    values = [b"%d" % number for number in range(len(keys))]
    columnar.write(exchange.broker.bootstrap, ours, pa.table({"key": keys, "value": values}))
    by_java, by_us = java_rows(exchange.broker.bootstrap, theirs, ours)
    assert [_placed(row) for row in by_us] == [_placed(row) for row in by_java]
    assert {row.partition for row in by_us} == set(range(11))


def _placed(row: Row) -> tuple[int, int, bytes | None, bytes | None]:
    return row.partition, row.offset, row.message.key, row.message.value


def _message(record: Record) -> Message:
    assert record.timestamp_ms is not None
    return Message(record.key, record.value, record.headers, record.timestamp_ms)


def _record(row: Row) -> Record:
    key, value, headers, timestamp_ms = row.message
    return Record(partition=row.partition, key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)
