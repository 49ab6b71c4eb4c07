"""Sender processes: killed, stopped, sent to nowhere, and as a command."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.lab.engines import Terms
from headrace.lab.null_sink import NullSink
from headrace.lab.scenario import Payload, Scenario
from headrace.lab.send_targets import find_send_target, ready
from headrace.lab.senders import Senders
from headrace.lab.sending import send
from headrace.lab.targets.running import Target
from headrace.testing import Broker
from tests.clients.command_line import Headrace, command
from tests.lab_targets import target_at

ENGINES = ("librdkafka", "columnar")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


def at(broker: Broker) -> Target:
    return target_at(broker.bootstrap)


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"rate_per_s": 20_000.0, "duration_s": 0.5, "payload": Payload(generator="weblog"), **changes})


@pytest.mark.parametrize("engine", ENGINES)
def test_batches_are_of_so_many_messages(engine: str, broker: Broker) -> None:
    topic = f"batches-{engine}"
    broker.create_topic(topic)
    terms = Terms(batch_messages=50, batch_bytes=1_000_000, linger_ms=1000)
    sent = send(scenario(engine=engine, topic=topic, messages=5_000, duration_s=None, terms=terms), at(broker))
    assert sent.total.acknowledged == 5_000
    segment = next((broker.data / f"{topic}-0").glob("*.log")).read_bytes()
    counts, position = [], 0
    while position < len(segment):
        counts.append(int.from_bytes(segment[position + 57 : position + 61], "big"))
        position += 12 + int.from_bytes(segment[position + 8 : position + 12], "big")
    assert sum(counts) == 5_000
    assert counts == [50] * 100


@pytest.mark.parametrize("engine", ENGINES)
def test_a_null_sink_takes_everything(engine: str) -> None:
    with NullSink(partitions=2) as sink:
        target = target_at(sink.bootstrap)
        made = scenario(
            engine=engine, messages=200_000, duration_s=None, schedule="unpaced", rate_per_s=None, processes=2
        )
        sent = send(made, target)
    assert sent.total.acknowledged == sent.total.sent == sink.messages == 200_000


@pytest.mark.parametrize("engine", ENGINES)
def test_a_topic_that_is_not_there_is_told_before_anything_starts(engine: str) -> None:
    with Broker({"auto.create.topics.enable": False}) as strict, pytest.raises(HeadraceError, match="no-such-topic"):
        send(scenario(engine=engine, topic="no-such-topic"), at(strict))


@pytest.mark.parametrize("engine", ENGINES)
def test_nobody_there_is_told_in_time(engine: str) -> None:
    nowhere = target_at("127.0.0.1:1")
    began_s = time.monotonic()
    with pytest.raises(HeadraceError, match=r"cannot reach|127\.0\.0\.1:1"):
        send(scenario(engine=engine), nowhere, timeout_s=3)
    assert time.monotonic() - began_s < 20


def test_a_sender_that_is_killed_leaves_a_partial_result(broker: Broker) -> None:
    broker.create_topic("killed")
    made = scenario(topic="killed", engine="columnar", processes=2, rate_per_s=1_000.0, duration_s=2.5)
    with Senders(made, at(broker).settings) as senders:
        senders.connect()
        senders.start()
        rows = []
        for second, row in senders.rows():
            rows.append(row)
            if second == 0:
                os.kill(senders.pids[1], signal.SIGKILL)
    assert len(senders.outcome.troubles) == 1
    assert "sender 1" in senders.outcome.troubles[0]
    assert rows[0].sent == pytest.approx(1_000, abs=20)
    assert rows[1].sent == pytest.approx(500, abs=20)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_broker_that_dies_leaves_a_result_that_says_so(engine: str) -> None:
    with Broker() as mortal:
        mortal.create_topic("dying")
        made = scenario(
            topic="dying", engine=engine, duration_s=3.0, rate_per_s=2_000.0, terms=Terms(buffer_bytes=100_000)
        )
        rows = []

        def watch(second: int, row: object) -> None:
            rows.append(row)
            if second == 0:
                mortal.kill()

        sent = send(made, at(mortal), watch=watch)
    assert sent.total.sent < sent.total.planned == 6_000
    assert sent.total.acknowledged + sent.total.failed + sent.outcome.lost_sight == sent.total.sent
    assert sent.total.acknowledged < sent.total.sent
    assert sent.outcome.unsent == sent.total.planned - sent.total.sent


def test_stopped_senders_tell_what_they_did(broker: Broker) -> None:
    broker.create_topic("stopped")
    began_s = time.monotonic()
    made = scenario(topic="stopped", engine="columnar", duration_s=60.0)
    sent = send(made, at(broker), is_stopped=lambda: True)
    assert time.monotonic() - began_s < 20
    assert sent.is_partial
    assert sent.total.planned == sent.total.sent + sent.outcome.unsent
    assert sent.total.sent == sent.total.acknowledged


def test_a_node_is_started_for_it_and_gone_after_it() -> None:
    with ready(find_send_target("node", {}), topic="t", partitions=2) as target:
        sent = send(scenario(topic="t", engine="columnar"), target)
        (pid,) = target.pids
    assert sent.total.acknowledged == 10_000
    assert not Path(f"/proc/{pid}").exists()


# --- As a command ------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_and_writes_lines(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("shown")
    out = tmp_path / "run.jsonl"
    shown = Headrace(broker.bootstrap)(
        *("lab", "send", "shown", "--rate", "5K", "--duration", "1s", "--profile", "s0", "--acks", "1", "--out", out)
    )
    assert "planned to acknowledged" in shown.stdout
    assert "5,000" in shown.stdout
    assert "MiB/s" in shown.stderr
    run, *_, summary = map(json.loads, out.read_text().splitlines())
    assert run["scenario"]["terms"] == {
        "acks": "1",
        "batch_bytes": 16_384,
        "batch_messages": None,
        "linger_ms": 0.0,
        "buffer_bytes": 33_554_432,
        "compression": "none",
    }
    assert summary["acknowledged"] == 5_000


def test_ctrl_c_gives_what_there_is(broker: Broker) -> None:
    broker.create_topic("interrupted")
    with command(
        broker.bootstrap, *("lab", "send", "interrupted", "--rate", "1K", "--duration", "60s", "--json")
    ) as running:
        broker.wait_for_records("interrupted", 500, timeout_s=20)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
    summary = json.loads(out)
    assert summary["is_partial"]
    assert summary["sent"] == summary["acknowledged"] >= 500
    assert running.returncode == 130


def test_ceilings_are_printed_for_every_engine() -> None:
    shown = Headrace("127.0.0.1:1")("lab", "send", "--ceiling", "--duration", "1s")
    for engine in ENGINES:
        assert engine in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rate fast", "'fast' is not a rate such as"),
        ("--rate 10 --duration 5", "'5' is not a length of time such as"),
        ("--rate 10 --batch-size 10", "a batch of 10 bytes"),
        ("--rate 10 --payload random --size big", "size 'big' is none of"),
        ("--schedule replay --payload random", "has no time to replay it by"),
        ("--schedule replay --stream", "a log that ends"),
    ],
)
def test_what_cannot_be_is_one_line(words: str, said: str, broker: Broker) -> None:
    result = Headrace(broker.bootstrap)("lab", "send", *words.split(), status=1)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
