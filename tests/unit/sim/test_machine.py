"""A machine, its network, and the clients around it."""

from typing import Any

import pytest

from headrace.protocol.messages import MESSAGES, create_topics, metadata
from headrace.sim.checker import Checker, Kind, Promise
from headrace.sim.clients import Ledger, Target, Topic
from headrace.sim.disk import Operation, Survival
from headrace.sim.machine import Connection, Machine
from headrace.sim.requests import encode_fetch, encode_produce, parse_fetched, parse_produced
from headrace.sim.tables import ask
from headrace.sim.world import World

METADATA = MESSAGES[metadata.API.key]


def started(seed: int = 1) -> Machine:
    machine = Machine(World(seed), settings={"auto.create.topics.enable": "false"})
    machine.start()
    machine.world.run_until_true(lambda: machine.is_up)
    return machine


def connected(machine: Machine) -> Connection:
    connection = machine.connect()
    assert connection is not None
    return connection


def with_topic(machine: Machine) -> None:
    made: list[Any] = []
    topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
    ask(connected(machine), MESSAGES[create_topics.API.key], 7, {"topics": [topic], "timeout_ms": 1}, made.append)
    machine.world.run_until_true(lambda: bool(made))
    assert made[0]["topics"][0]["error_code"] == 0


def test_requests_are_answered_in_order() -> None:
    machine = started()
    with_topic(machine)
    connection = connected(machine)
    answers: list[tuple[int, bool]] = []
    for number in range(30):
        # The first waits for records that do not come; those behind it are ready long before.
        wait_ms = 200 if number == 0 else 0
        frame = encode_fetch(topic=b"orders", partition=0, offset=0, wait_ms=wait_ms, bytes_min=1, bytes_max=100)
        connection.send(frame, lambda answer, number=number: answers.append((number, answer is not None)))  # type: ignore[misc]
    machine.world.run_until_true(lambda: len(answers) == 30)
    assert answers == [(number, True) for number in range(30)]


@pytest.mark.parametrize("how", ["kill", "lose_power", "stop", "cut_connections"])
def test_whoever_waits_when_it_ends_is_told_that_nothing_comes(how: str) -> None:
    machine = started()
    connection = connected(machine)
    answers: list[Any] = []
    ask(connection, METADATA, 12, {"topics": None}, answers.append)
    getattr(machine, how)()
    assert not connection.is_open
    machine.world.run_until_true(lambda: bool(answers))
    assert answers == [None]


def test_nobody_is_accepted_until_it_is_up_again() -> None:
    machine = started()
    for end in (machine.kill, machine.lose_power, machine.stop):
        end()
        assert machine.connect() is None
        machine.world.run_until_true(lambda: machine.is_up)
        connected(machine)
    assert machine.starts == 4


def test_a_second_blow_before_the_restart_makes_one_start() -> None:
    machine = started()
    machine.kill()
    machine.lose_power()
    machine.lose_power()
    machine.world.run_until_true(lambda: machine.is_up)
    machine.world.run_until(machine.world.mono_us() + 10_000_000)
    assert machine.starts == 2


def test_a_start_that_the_disk_does_not_allow_is_tried_again() -> None:
    machine = started()
    with_topic(machine)  # Whose leader epoch must be raised.
    machine.kill()
    machine.disk.fail(Operation.SYNC)
    machine.world.run_until_true(lambda: machine.is_up)
    assert machine.starts == 3
    machine.kill()
    machine.disk.fail(Operation.APPEND)
    machine.world.run_until_true(lambda: machine.is_up)
    assert machine.starts == 5


@pytest.mark.parametrize("survives", [True, False])
def test_a_kill_keeps_what_power_loss_takes(survives: bool) -> None:
    machine = started()
    with_topic(machine)
    ledger = Ledger(machine, Checker())
    data, _ = ledger.make_batch(2, pad_bytes=3)
    answers: list[bytes | None] = []
    connected(machine).send(encode_produce(acks=1, topic=b"orders", partition=0, records=data), answers.append)
    machine.world.run_until_true(lambda: bool(answers))
    assert answers[0] is not None
    assert parse_produced(answers[0]) == (0, 0)
    if survives:
        machine.kill()
    else:
        machine.lose_power(Survival.NOTHING)
    machine.world.run_until_true(lambda: machine.is_up)
    frame = encode_fetch(topic=b"orders", partition=0, offset=0, wait_ms=0, bytes_min=0, bytes_max=1000)
    connected(machine).send(frame, answers.append)
    machine.world.run_until_true(lambda: len(answers) == 2)
    assert answers[1] is not None
    fetched = parse_fetched(answers[1])
    assert len(ledger.open(fetched.records, "orders-0")) == fetched.high_watermark == (2 if survives else 0)


def test_bytes_that_nobody_sent_are_noticed() -> None:
    ledger = Ledger(started(), Checker())
    data, values = ledger.make_batch(2, pad_bytes=3)
    assert [record.value for record in ledger.open(data, "here")] == list(values)
    assert ledger.open(data[:-1], "here") == []
    assert ledger.checker.anomalies == []
    for byte in range(16, len(data)):
        torn = bytearray(data)
        torn[byte] ^= 1
        ledger.open(bytes(torn), "here")
    assert {anomaly.kind for anomaly in ledger.checker.anomalies} == {Kind.TORN}
    assert len(ledger.checker.anomalies) == len(data) - 16


def test_places_tell_topics_apart_that_had_one_name() -> None:
    old, new = Topic("orders", b"1" * 16, 1), Topic("orders", b"2" * 16, 1)
    assert Target(old, 0).place != Target(new, 0).place
    assert str(Target(old, 0)) == str(Target(new, 0)) == "orders-0"
    assert Promise(acknowledged_stays=True, read_stays=False).expires is False
