"""Kafka's command names against a real node. What they print is compared with Kafka's own in tests/interop."""

import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts import configs, console_consumer, console_producer, groups, topics
from headrace.cli.kafka_scripts.script import status_of
from headrace.protocol.messages.metadata import API as METADATA
from headrace.testing import Broker
from headrace.testing.node_process import NodeProcess
from headrace.wire.errors import Unreachable
from headrace.wire.settings import Address

SCRIPTS = {
    module.SCRIPT.name: module.SCRIPT for module in (configs, console_consumer, console_producer, groups, topics)
}


class Shell:
    """Runs a line, and gives back what it printed."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._bootstrap, self._capsys, self._monkeypatch = bootstrap, capsys, monkeypatch
        self.err = ""

    def __call__(self, line: str, *, stdin: str = "", status: int = 0) -> str:
        name, *words = line.split()
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        found = status_of(SCRIPTS[name], ["--bootstrap-server", self._bootstrap, *words])
        out, self.err = self._capsys.readouterr()
        assert found == status, f"{line}: {found}\n{out}\n{self.err}"
        return out


@pytest.fixture
def shell(shared_node: NodeProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(shared_node.bootstrap, capsys, monkeypatch)


def test_a_morning_with_kafkas_fingers(shell: Shell, topic_name: str, tmp_path: Path) -> None:
    created = shell(f"kafka-topics --create --topic {topic_name} --partitions 2 --config retention.ms=-1")
    assert created == f"Created topic {topic_name}.\n"
    assert topic_name in shell("kafka-topics --list").splitlines()
    first, *partitions = shell(f"kafka-topics --describe --topic {topic_name}").splitlines()
    assert first.split("\t")[2:] == ["PartitionCount: 2", "ReplicationFactor: 1", "Configs: retention.ms=-1"]
    assert [line.split("\t")[2:4] for line in partitions] == [
        ["Partition: 0", "Leader: 1"],
        ["Partition: 1", "Leader: 1"],
    ]

    (tmp_path / "client.properties").write_text(f"client.id=me\ngroup.id={topic_name}-readers\n")
    keyed = f"kafka-console-producer --topic {topic_name} --property parse.key=true --property key.separator=:"
    assert shell(keyed, stdin="a:1\nb:2\na:3\n") == ""
    consume = f"kafka-console-consumer --topic {topic_name} --from-beginning --max-messages"
    with_keys = "--property print.key=true --property key.separator=-"
    assert sorted(shell(f"{consume} 3 {with_keys}").splitlines()) == ["a-1", "a-3", "b-2"]
    assert "Processed a total of 3 messages" in shell.err

    # The group is named by the file of settings.
    read = shell(f"{consume} 2 --consumer.config {tmp_path / 'client.properties'}").split()
    described = shell(f"kafka-consumer-groups --describe --group {topic_name}-readers")
    rows = [line.split() for line in described.splitlines()]
    assert rows[1][:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert sum(int(row[3]) for row in rows[2:]) == len(read) == 2
    assert "has no active members" in shell.err
    reset = f"kafka-consumer-groups --reset-offsets --group {topic_name}-readers --topic {topic_name} --to-earliest"
    assert "NEW-OFFSET" in shell(f"{reset} --execute")
    assert sorted(shell(f"{consume} 3 --group {topic_name}-readers").split()) == ["1", "2", "3"]

    changed = shell(f"kafka-configs --alter --topic {topic_name} --add-config segment.ms=60000")
    assert changed == f"Completed updating config for topic {topic_name}.\n"
    assert "segment.ms=60000 sensitive=false" in shell(f"kafka-configs --describe --topic {topic_name}")
    described = shell("kafka-configs --describe --entity-type brokers").splitlines()
    assert described == ["Dynamic configs for broker 1 are:", "Default configs for brokers in the cluster are:"]
    assert "was successful" in shell(f"kafka-consumer-groups --delete --group {topic_name}-readers")
    assert shell(f"kafka-topics --delete --topic {topic_name}") == ""


def test_failures_are_one_line_and_status_1(shell: Shell, topic_name: str) -> None:
    for line, reason in {
        f"kafka-topics --describe --topic {topic_name}": "does not exist as expected",
        f"kafka-topics --create --topic {topic_name} --replication-factor 3": "INVALID_REPLICATION_FACTOR",
        f"kafka-consumer-groups --describe --group {topic_name}": "does not exist",
        f"kafka-configs --alter --topic {topic_name} --add-config a=b": "UNKNOWN_TOPIC_OR_PARTITION",
        "kafka-configs --describe --broker 9": "The broker '9' doesn't exist",
        "kafka-console-consumer --topic no/topic --max-messages 1": "Invalid topic",
        f"kafka-topics --list --command-config {os.devnull}-missing": "No such file",
    }.items():
        assert shell(line, status=1) == ""
        assert reason in shell.err.splitlines()[-1]
        assert shell.err.splitlines()[-1].startswith(line.split()[0])


def test_what_one_group_or_topic_refuses_keeps_no_other_from_it(shell: Shell, topic_name: str) -> None:
    shell(f"kafka-topics --create --topic {topic_name} --partitions 1")
    reset = "kafka-consumer-groups --reset-offsets --to-latest --execute"
    shell(f"{reset} --group {topic_name}-one --topic {topic_name}")
    groups = " ".join(f"--group {topic_name}-{name}" for name in ("missing", "one"))
    rows = [line.split() for line in shell(f"{reset} {groups} --all-topics", status=1).splitlines()]
    assert rows[1:] == [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [f"{topic_name}-one", topic_name, "0", "0"]]
    assert shell.err.splitlines()[-1] == f"kafka-consumer-groups: Error: group '{topic_name}-missing' does not exist"

    forget = f"kafka-consumer-groups --delete-offsets --group {topic_name}-one --topic"
    rows = [line.split() for line in shell(f"{forget} {topic_name}-gone --topic {topic_name}", status=1).splitlines()]
    assert rows[2:] == [
        [topic_name, "0", "Successful"],
        [f"{topic_name}-gone", "-", "Error:", "UNKNOWN_TOPIC_OR_PARTITION"],
    ]


def test_another_broker_is_asked_where_one_cannot_be_reached(headrace_broker: Broker) -> None:
    host, port = headrace_broker.bootstrap.split(":")
    cluster = Connection({"bootstrap.servers": headrace_broker.bootstrap}, timeout_s=20)
    with socket.socket() as silent:
        silent.bind((host, 0))  # Nobody listens there.
        away, here = Address(host, silent.getsockname()[1]), Address(host, int(port))
        (broker,) = cluster.ask_one_of((away, here), METADATA, {"topics": []})["brokers"]
        assert broker["port"] == here.port
        with pytest.raises(Unreachable):
            cluster.ask_one_of((away,), METADATA, {"topics": []})


def test_a_commit_that_fails_keeps_no_other_group_from_being_told(
    headrace_broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(headrace_broker.bootstrap, capsys, monkeypatch)
    headrace_broker.clear()
    headrace_broker.create_topic("orders")
    headrace_broker.produce("orders", b"1")
    reset = "kafka-consumer-groups --reset-offsets --execute --group one --group two --topic orders"
    shell(f"{reset} --to-earliest")
    with headrace_broker.faults.error("INVALID_COMMIT_OFFSET_SIZE", api="OffsetCommit"):
        rows = [line.split() for line in shell(f"{reset} --to-latest", status=1).splitlines()]
    assert rows[1:] == [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], ["two", "orders", "0", "1"]]
    assert "group 'one'" in shell.err
    assert "INVALID_COMMIT_OFFSET_SIZE" in shell.err
    offsets = {name: group.offsets["orders", 0].offset for name, group in headrace_broker.groups().items()}
    assert offsets == {"one": 0, "two": 1}


@pytest.fixture(scope="module")
def stern_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Topics are there when somebody has made them, and groups form at once."""
    settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    with NodeProcess(tmp_path_factory.mktemp("stern") / "data", settings=settings) as node:
        yield node
        node.stop()


@contextmanager
def console_consumer_of(node: NodeProcess, words: str) -> Iterator[subprocess.Popen[str]]:
    code = "from headrace.cli.kafka_scripts.main import console_consumer as run; run()"
    command = [sys.executable, "-c", code, "--bootstrap-server", node.bootstrap, *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("is_pattern", [False, True])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_consumer_that_was_started_first_waits_for_its_topic(
    stern_node: NodeProcess,
    topic_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    in_group: bool,
    is_pattern: bool,
) -> None:
    shell = Shell(stern_node.bootstrap, capsys, monkeypatch)
    words = f"--include {topic_name}.*" if is_pattern else f"--topic {topic_name}"
    # Without a group all of it is new, and read from its beginning anyway.
    words += f" --max-messages 2 --group {topic_name} --from-beginning" if in_group else " --max-messages 2"
    with console_consumer_of(stern_node, words) as consumer:
        assert consumer.stderr is not None
        warning = consumer.stderr.readline()
        assert warning.startswith("WARN: ")
        assert warning.endswith("is not there yet; waiting for it\n")
        shell(f"kafka-topics --create --topic {topic_name} --partitions 1")
        shell(f"kafka-console-producer --topic {topic_name}", stdin="one\ntwo\n")
        out, err = consumer.communicate(timeout=60)
    assert (out, err, consumer.returncode) == ("one\ntwo\n", "Processed a total of 2 messages\n", 0)


def test_partitions_that_come_later_are_read(
    stern_node: NodeProcess, topic_name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(stern_node.bootstrap, capsys, monkeypatch)
    shell(f"kafka-topics --create --topic {topic_name} --partitions 1")
    shell(f"kafka-console-producer --topic {topic_name}", stdin="first\n")
    with console_consumer_of(stern_node, f"--topic {topic_name} --from-beginning") as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "first\n"
        shell(f"kafka-topics --alter --topic {topic_name} --partitions 2")
        producer = Producer({"bootstrap.servers": stern_node.bootstrap})
        producer.produce(topic_name, b"second", partition=1)
        assert producer.flush(60) == 0
        assert consumer.stdout.readline() == "second\n"


def test_waiting_for_a_topic_ends_when_nothing_came_for_long_enough(
    stern_node: NodeProcess, topic_name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(stern_node.bootstrap, capsys, monkeypatch)
    for words in ("", "--group g", "--partition 0 --offset 5"):
        assert shell(f"kafka-console-consumer --topic {topic_name} --timeout-ms 10 {words}") == ""
        assert shell.err.splitlines()[-1] == "Processed a total of 0 messages"


def test_asking_for_a_topic_has_it_made_where_the_broker_makes_topics(shell: Shell, topic_name: str) -> None:
    consume = f"kafka-console-consumer --topic {topic_name} --timeout-ms 10"
    assert shell(f"{consume} --consumer-property allow.auto.create.topics=false") == ""
    assert topic_name not in shell("kafka-topics --list").split()
    assert shell(consume) == ""
    assert topic_name in shell("kafka-topics --list").split()


LINES = {
    "kafka-topics": "--list",
    "kafka-consumer-groups": "--list",
    "kafka-configs": "--describe --topic orders",
    "kafka-console-producer": "--topic orders",
    "kafka-console-consumer": "--topic orders --from-beginning --max-messages 1",
}


@pytest.mark.parametrize("name", LINES)
def test_the_settings_of_a_file_are_in_force(
    headrace_broker: Broker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    """The broker meets the client's name that the file tells, and a protocol that it does not speak gets nowhere."""
    shell = Shell(headrace_broker.bootstrap, capsys, monkeypatch)
    headrace_broker.clear()
    headrace_broker.create_topic("orders")
    headrace_broker.produce("orders", b"1")
    file = tmp_path / "client.properties"
    line = f"{name} {LINES[name]} --command-config {file}"

    file.write_text("client.id=told-by-a-file\n")
    with headrace_broker.faults.delay(seconds=0, client_id="told-by-a-file", times=None) as met:
        shell(f"{name} {LINES[name]}", stdin="2\n")
        assert met.hits == 0
        shell(line, stdin="3\n")
        assert met.hits > 0

    file.write_text("security.protocol=SSL\nsocket.connection.setup.timeout.ms=1000\nmessage.timeout.ms=1000\n")
    shell(line, stdin="4\n", status=1)
    assert shell.err.splitlines()[-1].startswith(name)
