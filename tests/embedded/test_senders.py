"""Senders against a real broker: every message accounted for, and a stall that shows."""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.engines import Terms
from headrace.lab.scenario import Payload, Scenario
from headrace.lab.sender import Sender
from headrace.lab.senders import Outcome
from headrace.lab.sending import send
from headrace.lab.sent import Sent, quantiles_ms
from headrace.testing import Broker
from tests.lab_targets import target_at

ENGINES = ("librdkafka", "columnar")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


def scenario(**changes: Any) -> Scenario:
    payload = Payload(generator="random", size="100-300", in_ram=False)  # Which is sooner there.
    return Scenario(**{"rate_per_s": 20_000.0, "duration_s": 0.1, "payload": payload, **changes})


def sent_from_here(made: Scenario, broker: Broker, settings: Mapping[str, str] = {}) -> Sent:
    """By a sender in this process, which is soon there."""
    sender = Sender(made, 0, {"bootstrap.servers": broker.bootstrap, **settings})
    sent = Sent(made, target="broker")
    ending = sender.run(time.time_ns(), tell=lambda second, row: sent.add(row), is_stopped=lambda: False)
    sent.end(
        Outcome(
            elapsed_s=ending.elapsed_ns / 1e9,
            unsent=ending.unsent,
            lost_sight=ending.lost_sight,
            failures=dict(sender.failures),
        )
    )
    return sent


def p99_ms(sent: Sent, name: str) -> float:
    found = quantiles_ms(getattr(sent.total, name))
    assert found is not None
    return found["p99"]


def test_a_stall_of_2_s_shows_from_the_planned_send_and_not_from_the_actual_one(broker: Broker) -> None:
    def stalled(engine: str) -> Sent:
        topic = f"stalled-{engine}"
        broker.create_topic(topic)
        # Room for about ten messages: a sender that waits for answers, as so many do.
        made = scenario(
            engine=engine,
            topic=topic,
            rate_per_s=1_000.0,
            duration_s=2.5,
            payload=Payload(generator="random", size="200", in_ram=False),
            terms=Terms(acks="1", linger_ms=0, buffer_bytes=2048),
        )
        with broker.faults.delay(seconds=2, api="Produce", topic=topic) as fault:
            sent = sent_from_here(made, broker)
        assert fault.hits == 1
        return sent

    with ThreadPoolExecutor() as pool:
        for sent in pool.map(stalled, ENGINES):
            assert sent.total.planned == sent.total.sent + sent.outcome.unsent == 2_500
            assert sent.total.sent == sent.total.acknowledged
            assert p99_ms(sent, "latency_planned") > 1_800, sent.scenario.engine
            assert p99_ms(sent, "latency_sent") < 900, sent.scenario.engine
            # The sender was late because it was not answered, and says so.
            assert p99_ms(sent, "lateness") > 1_800


def test_two_processes_send_each_message_once(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("each-once", 3)
    lines = [b"%d " % number + b"x" * (number % 300) for number in range(1_777)]
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines))
    made = scenario(
        engine="columnar",
        topic="each-once",
        processes=2,
        rate_per_s=25_000.0,
        duration_s=0.2,
        payload=Payload(file=str(file)),
    )
    out = tmp_path / "out.jsonl"
    with out.open("w") as into:
        sent = send(made, target_at(broker.bootstrap), into=into)
    assert sent.total.planned == sent.total.sent == sent.total.acknowledged == 5_000
    assert sent.outcome.unsent == sent.total.failed == 0
    records = broker.records("each-once")
    assert sorted(record.value or b"" for record in records) == sorted(lines[n % len(lines)] for n in range(5_000))
    # A record's time is when it was planned: with it, whoever consumes can count from there.
    stamps_ms = [record.timestamp_ms for record in records]
    assert max(stamps_ms) - min(stamps_ms) in (199, 200)
    run, *seconds, summary = map(json.loads, out.read_text().splitlines())
    assert run["scenario"]["processes"] == 2
    assert sum(each["acknowledged"] for each in seconds) == summary["acknowledged"] == 5_000


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_arrive_in_order_and_are_counted_for_what_they_are(engine: str, acks: str, broker: Broker) -> None:
    topic = f"in-order-{engine}-{acks}"
    broker.create_topic(topic)
    made = scenario(engine=engine, topic=topic, terms=Terms(acks=acks, linger_ms=1))
    sent = sent_from_here(made, broker)
    assert sent.total.planned == sent.total.sent == sent.delivered == 2_000
    assert (sent.total.unanswered if acks == "0" else sent.total.acknowledged) == 2_000
    messages = made.payloads(0).take(2_000)
    assert [record.value for record in broker.wait_for_records(topic, 2_000)] == messages
    assert sent.total.sent_bytes == sent.total.answered_bytes == sum(map(len, messages))
    assert sent.total.latency_planned.count == sent.total.lateness.count == 2_000


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_stream_of_compressed_messages(engine: str, compression: str, broker: Broker) -> None:
    topic = f"stream-{engine}-{compression}"
    broker.create_topic(topic, 2)
    payload = Payload(generator="random", size="500", compressible=0.9, in_ram=False)
    made = scenario(engine=engine, topic=topic, payload=payload, terms=Terms(compression=compression))
    # It would stick to a partition for 10 ms, in which a sender that is late may send everything.
    spread = {"sticky.partitioning.linger.ms": "0"} if engine == "librdkafka" else {}
    assert sent_from_here(made, broker, spread).total.acknowledged == 2_000
    assert len(broker.records(topic)) == 2_000
    sizes = [broker.log(topic, partition).size_bytes for partition in range(2)]
    assert (sum(sizes) < 2_000 * 500 * 0.5) == (compression != "none")
    assert all(sizes)


def test_a_refused_batch_has_failed_and_is_not_sent_again(broker: Broker) -> None:
    broker.create_topic("refused")
    with broker.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", topic="refused", times=1):
        sent = sent_from_here(scenario(engine="columnar", topic="refused"), broker)
    assert sent.total.failed == sent.outcome.failures["NOT_ENOUGH_REPLICAS"] > 0
    assert sent.total.acknowledged + sent.total.failed == sent.total.sent == 2_000
    assert len(broker.records("refused")) == sent.total.acknowledged


def test_a_lost_connection_costs_what_was_under_way_and_is_made_again(broker: Broker) -> None:
    broker.create_topic("cut")
    with broker.faults.disconnect(api="Produce", topic="cut", times=1):
        sent = sent_from_here(scenario(engine="columnar", topic="cut", terms=Terms(linger_ms=1)), broker)
    assert sent.total.failed == sum(sent.outcome.failures.values()) > 0
    assert sent.total.acknowledged > 1_000
    assert sent.total.acknowledged + sent.total.failed == 2_000
