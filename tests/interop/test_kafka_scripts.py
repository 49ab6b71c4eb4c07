"""Kafka's command-line tools and ours of the same names, against one broker: the same words, the same output.

Both are run on Headrace and on Apache Kafka. Lines are compared field by field: how wide a column is padded is not
what anybody's awk looks at. Order is compared where Kafka's tools have one.
"""

import itertools
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.exchange import Exchange
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import ToolMissing, without_tool

JAVA = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
OURS = {
    "kafka-topics": "topics",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-configs": "configs",
    "kafka-console-producer": "console_producer",
    "kafka-console-consumer": "console_consumer",
}
_numbers = itertools.count()


class Ran(NamedTuple):
    out: str
    err: str
    status: int

    @property
    def rows(self) -> list[list[str]]:
        """Lines as lists of words; empty lines are ornament."""
        return [line.split() for line in self.out.splitlines() if line.strip()]


class Tools:
    """Kafka's tools and ours, pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def kafkas(self, line: str, *more: str, stdin: str = "") -> Ran:
        name, *words = line.split()
        return self._run([*java_command(), JAVA[name]], [*words, *more], stdin)

    def ours(self, line: str, *more: str, stdin: str = "") -> Ran:
        name, *words = line.split()
        code = f"from headrace.cli.kafka_scripts.main import {OURS[name]} as run; run()"
        return self._run([sys.executable, "-c", code], [*words, *more], stdin)

    def both(self, line: str, *more: str, stdin: str = "") -> tuple[Ran, Ran]:
        """At once: Java takes a second to get going."""
        with ThreadPoolExecutor(1) as other:
            kafkas = other.submit(self.kafkas, line, *more, stdin=stdin)
            ours = self.ours(line, *more, stdin=stdin)
            return kafkas.result(), ours

    def _run(self, command: list[str], words: list[str], stdin: str) -> Ran:
        done = subprocess.run(
            [*command, "--bootstrap-server", self.bootstrap, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        return Ran(done.stdout, done.stderr, done.returncode)


@pytest.fixture
def tools(exchange: Exchange) -> Tools:
    try:
        java_command()
    except ToolMissing as missing:
        without_tool(missing)
    return Tools(exchange.broker.bootstrap)


@pytest.fixture
def name(tools: Tools) -> str:
    """For topics and groups that nobody else has."""
    return f"scripts-{next(_numbers)}"


@pytest.fixture
def topic(tools: Tools, name: str) -> str:
    """Two partitions, five messages in the first and three in the second, a second apart."""
    admin = AdminClient({"bootstrap.servers": tools.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "-1"})])[name].result(30)
    producer = Producer({"bootstrap.servers": tools.bootstrap})
    for partition, count in ((0, 5), (1, 3)):
        for number in range(count):
            stamp_ms = 1_700_000_000_000 + number * 1_000
            value = f"{partition}.{number}"
            producer.produce(name, value, f"k{number}", partition, timestamp=stamp_ms, headers=[("h", b"1")])
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def deserted(tools: Tools, topic: str) -> str:
    """A group without members, which has read some of the topic."""
    consumer = Consumer({"bootstrap.servers": tools.bootstrap, "group.id": topic, "enable.auto.commit": False})
    commit(consumer, ClientPartition(topic, 0, 2), ClientPartition(topic, 1, 3))
    consumer.close()
    return topic


def commit(consumer: Consumer, *offsets: ClientPartition) -> None:
    """Patiently: the first group of a fresh broker waits for the topic of offsets to be made."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=list(offsets), asynchronous=False)
            return
        except KafkaException:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.fixture
def inhabited(tools: Tools, topic: str) -> Iterator[str]:
    """A group with a member that reads the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": tools.bootstrap,
            "group.id": topic,
            "client.id": "somebody",
            "group.instance.id": "static",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    deadline_s = time.monotonic() + 60
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
        assert time.monotonic() < deadline_s
    commit(consumer, ClientPartition(topic, 0, 4))
    yield topic
    consumer.close()


# --- kafka-topics ------------------------------------------------------------------------------------------------


def without_elr(text: str) -> str:
    """librdkafka is not told which replicas are eligible to lead."""
    return re.sub(r"\tElr: .*", "", text)


def test_topics_are_listed(tools: Tools, topic: str) -> None:
    kafkas, ours = tools.both("kafka-topics --list")
    assert ours == kafkas._replace(err="")
    assert topic in ours.out.splitlines()
    for words in (f"--topic {topic},nothing", "--topic scripts-.*", "--exclude-internal"):
        kafkas, ours = tools.both(f"kafka-topics --list {words}")
        assert ours.out == kafkas.out


def test_topics_are_described(tools: Tools, topic: str) -> None:
    kafkas, ours = tools.both("kafka-topics --describe --topic scripts-.*")
    assert sorted(without_elr(ours.out).splitlines()) == sorted(without_elr(kafkas.out).splitlines())
    for words in (f"--topic {topic}", f"--topic {topic} --topics-with-overrides"):
        kafkas, ours = tools.both(f"kafka-topics --describe {words}")
        assert without_elr(ours.out) == without_elr(kafkas.out)
    assert "\tElr: N/A\tLastKnownElr: N/A" in tools.ours(f"kafka-topics --describe --topic {topic}").out
    identity = re.search(r"TopicId: (\S+)", ours.out)
    assert identity is not None
    kafkas, ours = tools.both("kafka-topics --describe --topic-id", identity[1])
    assert without_elr(ours.out) == without_elr(kafkas.out)
    for report in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        kafkas, ours = tools.both(f"kafka-topics --describe --topic {topic} --{report}-partitions")
        assert without_elr(ours.out) == without_elr(kafkas.out), report


def test_topics_are_created_altered_and_deleted(tools: Tools, name: str) -> None:
    words = "--partitions 2 --replication-factor 1 --config retention.ms=5000 --config segment.bytes=1048576"
    for run, topic in ((tools.kafkas, f"{name}-kafkas"), (tools.ours, f"{name}-ours")):
        created = run(f"kafka-topics --create --topic {topic} {words}")
        assert (created.out, created.status) == (f"Created topic {topic}.\n", 0)
        again = run(f"kafka-topics --create --topic {topic} {words} --if-not-exists")
        assert (again.out, again.status) == ("", 0)
        assert run(f"kafka-topics --create --topic {topic}").status == 1
        altered = run(f"kafka-topics --alter --topic {topic} --partitions 3")
        assert (altered.out, altered.status) == ("", 0)
        described = tools.ours(f"kafka-topics --describe --topic {topic}").out
        assert "PartitionCount: 3" in described
        assert "retention.ms=5000" in described
        deleted = run(f"kafka-topics --delete --topic {topic}")
        assert (deleted.out, deleted.status) == ("", 0)
        assert run(f"kafka-topics --delete --topic {topic}").status == 1
        assert run(f"kafka-topics --delete --topic {topic} --if-exists").status == 0
        assert run(f"kafka-topics --describe --topic {topic}").status == 1
    colliding = f"{name}.dotted_{name}"
    assert "WARNING: Due to limitations" in tools.ours(f"kafka-topics --create --topic {colliding}").out


# --- kafka-consumer-groups ---------------------------------------------------------------------------------------

DESCRIBING = ("", "--offsets --verbose", "--members", "--members --verbose", "--state", "--state --verbose")


def test_patterns_are_judged_alike(tools: Tools) -> None:
    for pattern in (r"\pN+\Qa.b\E", "(?P<n>a)", "(a", "(?=a)"):
        kafkas, ours = tools.both("kafka-consumer-groups --validate-regex", pattern)
        _, _, judged = (ours.out or ours.err).partition(f"The regular expression `{pattern}` is ")
        assert judged.split(":")[0] == kafkas.out.partition("` is ")[2].split(":")[0]
        assert ours.status == judged.startswith("invalid")


def test_groups_are_listed(tools: Tools, deserted: str) -> None:
    kafkas, ours = tools.both("kafka-consumer-groups --list")
    assert sorted(ours.rows) == sorted(kafkas.rows)
    assert [deserted] in ours.rows
    for words in ("--state", "--state Empty", "--state stable,dead", "--type", "--type classic --state"):
        kafkas, ours = tools.both(f"kafka-consumer-groups --list {words}")
        assert ours.rows[0] == kafkas.rows[0]
        assert sorted(ours.rows) == sorted(kafkas.rows), words


def test_a_deserted_group_is_described(tools: Tools, deserted: str) -> None:
    for words in DESCRIBING:
        kafkas, ours = tools.both(f"kafka-consumer-groups --describe --group {deserted} {words}")
        assert ours.rows[0] == kafkas.rows[0]
        assert sorted(ours.rows) == sorted(kafkas.rows), words
        assert ours.err.split() == kafkas.err.split(), words
        assert ours.status == 0


def test_an_inhabited_group_is_described(tools: Tools, inhabited: str) -> None:
    for words in DESCRIBING:
        kafkas, ours = tools.both(f"kafka-consumer-groups --describe --group {inhabited} {words}")
        assert ours.rows[0] == kafkas.rows[0]
        assert sorted(ours.rows) == sorted(kafkas.rows), words
    assert len(tools.ours(f"kafka-consumer-groups --describe --group {inhabited}").rows) == 3


def test_a_group_that_is_not_there(tools: Tools, name: str) -> None:
    kafkas, ours = tools.both(f"kafka-consumer-groups --describe --group {name}-missing")
    assert f"{name}-missing not found" in kafkas.out  # And it exits with 0.
    assert f"Consumer group '{name}-missing' does not exist." in ours.err
    assert ours.status == 1


@pytest.mark.parametrize(
    "words",
    [
        "--to-earliest",
        "--to-latest",
        "--to-current",
        "--to-offset 1",
        "--to-offset 99",
        "--shift-by 1",
        "--shift-by -9",
        "--to-datetime 2023-11-14T22:13:22.000",
        "--by-duration P1D",
        "--to-earliest --export",
    ],
)
def test_offsets_are_reset(tools: Tools, deserted: str, words: str) -> None:
    line = f"kafka-consumer-groups --reset-offsets --group {deserted} --all-topics {words}"
    kafkas, ours = tools.both(f"{line} --dry-run")
    planned = sorted(row for row in kafkas.rows if row[0] != "Warn:")  # Which we tell beside the result.
    assert sorted(ours.rows) == planned
    assert len(planned) == (2 if "--export" in words else 3)
    assert sorted(tools.ours(f"{line} --execute").rows) == planned
    described = tools.ours(f"kafka-consumer-groups --describe --group {deserted}").rows[1:]
    reset = [row for row in planned if row[0] == deserted]
    assert "--export" in words or sorted(row[:4] for row in described) == reset


def test_some_partitions_of_a_new_group_are_reset(tools: Tools, topic: str) -> None:
    line = f"kafka-consumer-groups --reset-offsets --group {topic}-new --topic {topic}:1 --to-latest"
    kafkas, ours = tools.both(line)
    assert ours.rows == kafkas.rows
    assert ours.rows[1:] == [[f"{topic}-new", topic, "1", "3"]]
    assert "WARN: No action will be performed" in kafkas.err
    assert "WARN: No action will be performed" in ours.err
    executed = tools.kafkas(f"{line} --execute")
    assert executed.rows == ours.rows
    assert [row[:4] for row in tools.ours(f"kafka-consumer-groups --describe --group {topic}-new").rows[1:]] == [
        [f"{topic}-new", topic, "1", "3"]
    ]


def test_offsets_are_reset_from_a_file_that_the_other_tool_wrote(tools: Tools, deserted: str, tmp_path: Path) -> None:
    line = f"kafka-consumer-groups --reset-offsets --group {deserted}"
    exported = tools.kafkas(f"{line} --all-topics --to-earliest --dry-run --export").out
    (tmp_path / "plan").write_text(exported)
    kafkas, ours = tools.both(f"{line} --dry-run --from-file {tmp_path / 'plan'}")
    assert sorted(ours.rows) == sorted(kafkas.rows)
    assert {row[3] for row in ours.rows[1:]} == {"0"}


def test_a_group_with_members_is_not_reset(tools: Tools, inhabited: str) -> None:
    line = f"kafka-consumer-groups --reset-offsets --group {inhabited} --all-topics --to-latest --execute"
    kafkas, ours = tools.both(line)
    told, *rows = kafkas.rows
    assert ours.rows == rows
    assert " ".join(told) in ours.err
    assert f"'{inhabited}' is inactive, but the current state is Stable." in ours.err
    assert (kafkas.status, ours.status) == (0, 1)
    assert tools.ours(f"kafka-consumer-groups --delete --group {inhabited}").status == 1


def test_a_group_with_members_keeps_no_other_from_being_reset(tools: Tools, inhabited: str) -> None:
    groups = f"--group {inhabited} --group {inhabited}-new"
    line = f"kafka-consumer-groups --reset-offsets {groups} --topic {inhabited}:1 --to-latest --execute"
    for run in (tools.kafkas, tools.ours):
        reset = run(line)
        assert f"Error: Assignments can only be reset if the group '{inhabited}' is inactive" in reset.out + reset.err
        assert reset.rows[-1] == [f"{inhabited}-new", inhabited, "1", "3"]
        described = tools.ours(f"kafka-consumer-groups --describe --group {inhabited}-new").rows[1:]
        assert [row[:4] for row in described] == [reset.rows[-1]]
        tools.ours(f"kafka-consumer-groups --delete --group {inhabited}-new")
    assert reset.status == 1


def test_a_missing_topic_keeps_no_other_from_being_forgotten(tools: Tools, deserted: str) -> None:
    forgotten = f"--topic {deserted}:0 --topic {deserted}-missing --topic {deserted}-gone:3"
    line = f"kafka-consumer-groups --delete-offsets --group {deserted} {forgotten}"
    for run in (tools.ours, tools.kafkas):
        header, *rows = [row[:3] for row in run(line).rows[-4:]]
        assert header == ["TOPIC", "PARTITION", "STATUS"]
        assert sorted(rows) == [
            [deserted, "0", "Successful"],
            [f"{deserted}-gone", "3", "Error:"],
            [f"{deserted}-missing", "-", "Error:"],
        ]
    assert tools.ours(line).status == 1


def test_groups_and_offsets_are_deleted(tools: Tools, deserted: str) -> None:
    forgotten = tools.ours(f"kafka-consumer-groups --delete-offsets --group {deserted} --topic {deserted}:0")
    assert [deserted, "0", "Successful"] in forgotten.rows
    kafkas = tools.kafkas(f"kafka-consumer-groups --delete-offsets --group {deserted} --topic {deserted}:1")
    assert [row[:1] + row[2:] for row in forgotten.rows[1:]] == [row[:1] + row[2:] for row in kafkas.rows[1:]]
    assert forgotten.rows[:1] == kafkas.rows[:1]


def test_a_group_is_deleted(tools: Tools, deserted: str) -> None:
    deleted = tools.ours(f"kafka-consumer-groups --delete --group {deserted}")
    assert deleted.out == f"Deletion of requested consumer groups ('{deserted}') was successful.\n"
    kafkas, ours = tools.both(f"kafka-consumer-groups --delete --group {deserted}")
    assert f"* Group '{deserted}' could not be deleted due to:" in kafkas.out + kafkas.err
    assert f"* Group '{deserted}' could not be deleted due to:" in ours.err
    assert ours.status == 1


# --- kafka-configs -----------------------------------------------------------------------------------------------


def test_settings_are_described(tools: Tools, topic: str) -> None:
    for words in (f"--topic {topic}", f"--entity-type topics --entity-name {topic}"):
        kafkas, ours = tools.both(f"kafka-configs --describe {words}")
        assert ours.out == kafkas.out
        assert "retention.ms=-1" in ours.out
    kafkas, ours = tools.both(f"kafka-configs --describe --all --topic {topic}")
    assert ours.out == kafkas.out


def test_a_brokers_settings_are_described(tools: Tools) -> None:
    kafkas, ours = tools.both("kafka-configs --describe --entity-type brokers --entity-name 1 --all")
    assert [row[0] for row in ours.rows] == [row[0] for row in kafkas.rows]
    assert len(ours.rows) > 50


def test_settings_for_all_brokers(tools: Tools) -> None:
    """Nobody else's of the same broker is in the way of a cleaner that waits a little longer."""
    for run, default in ((tools.kafkas, "--broker-defaults"), (tools.ours, "--entity-type brokers --entity-default")):
        changed = run(f"kafka-configs --alter {default} --add-config log.cleaner.backoff.ms=16000")
        assert (changed.out, changed.status) == ("Completed updating default config for brokers in the cluster.\n", 0)
        for words in (default, "--entity-type brokers"):
            kafkas, ours = tools.both(f"kafka-configs --describe {words}")
            assert ours.out == kafkas.out
            assert "Default configs for brokers in the cluster are:\n  log.cleaner.backoff.ms=16000" in ours.out
        undone = run(f"kafka-configs --alter {default} --delete-config log.cleaner.backoff.ms")
        assert (undone.out, undone.status) == ("Completed updating default config for brokers in the cluster.\n", 0)
        refused = run(f"kafka-configs --alter {default} --delete-config log.cleaner.backoff.ms")
        assert "Invalid config(s): log.cleaner.backoff.ms" in refused.err
        assert refused.status == 1


def test_settings_are_changed(tools: Tools, topic: str) -> None:
    for run in (tools.kafkas, tools.ours):
        added = "cleanup.policy=[delete,compact],segment.ms=60000"
        changed = run(f"kafka-configs --alter --topic {topic} --add-config {added}")
        assert (changed.out, changed.status) == (f"Completed updating config for topic {topic}.\n", 0)
        described = tools.ours(f"kafka-configs --describe --topic {topic}").out
        assert "cleanup.policy=delete,compact" in described
        assert "segment.ms=60000" in described
        undone = run(f"kafka-configs --alter --topic {topic} --delete-config cleanup.policy,segment.ms")
        assert (undone.out, undone.status) == (f"Completed updating config for topic {topic}.\n", 0)
        assert "cleanup.policy" not in tools.ours(f"kafka-configs --describe --topic {topic}").out
        refused = run(f"kafka-configs --alter --topic {topic} --delete-config segment.ms")
        assert "Invalid config(s): segment.ms" in refused.err
        assert refused.status == 1


# --- The consoles ------------------------------------------------------------------------------------------------

LINES = "h1:a,h2:b\tkey\tvalue\nh1:NULL\tNULL\tNULL\nx:1\t\t\n"
READING = (*("--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=NULL"),)
PRINTING = (
    *("--property", "print.key=true", "--property", "print.headers=true", "--property", "print.partition=true"),
    *("--property", "print.offset=true", "--property", "null.literal=<null>"),
)


def test_what_either_producer_sends_either_consumer_prints(tools: Tools, name: str) -> None:
    printed = {}
    for run, topic in ((tools.kafkas, f"{name}-kafkas"), (tools.ours, f"{name}-ours")):
        tools.ours(f"kafka-topics --create --topic {topic} --partitions 1")
        sent = run(f"kafka-console-producer --topic {topic} --compression-codec zstd", *READING, stdin=LINES)
        assert (sent.out, sent.status) == ("", 0)
        consume = f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 3"
        kafkas, ours = tools.both(consume, *PRINTING)
        assert ours.out == kafkas.out
        assert "Processed a total of 3 messages" in ours.err
        assert "Processed a total of 3 messages" in kafkas.err
        printed[run] = ours.out
    first, second = printed.values()
    assert first == second
    assert first.splitlines()[0] == "Partition:0\tOffset:0\th1:a,h2:b\tkey\tvalue"


def test_a_line_without_what_it_shall_have_ends_the_producer(tools: Tools, topic: str) -> None:
    for run in (tools.kafkas, tools.ours):
        failed = run(f"kafka-console-producer --topic {topic} --property parse.key=true", stdin="no key\n")
        assert failed.status == 1
        assert "key separator" in failed.err


def test_a_partition_from_an_offset_until_nothing_comes(tools: Tools, topic: str) -> None:
    line = f"kafka-console-consumer --topic {topic} --partition 0 --offset 3 --timeout-ms 2000"
    kafkas, ours = tools.both(line, "--property", "print.timestamp=true")
    assert ours.out == kafkas.out == "CreateTime:1700000003000\t0.3\nCreateTime:1700000004000\t0.4\n"
    assert "Processed a total of 2 messages" in ours.err


def test_a_group_is_read_by_turns(tools: Tools, topic: str) -> None:
    """What one consumer has printed, the other does not print again."""
    line = f"kafka-console-consumer --topic {topic} --group {topic}-readers --from-beginning"
    first = tools.ours(f"{line} --max-messages 3").out.split()
    second = tools.kafkas(f"{line} --max-messages 3").out.split()
    third = tools.ours(f"{line} --max-messages 2").out.split()
    assert (len(first), len(second), len(third)) == (3, 3, 2)
    assert sorted(first + second + third) == ["0.0", "0.1", "0.2", "0.3", "0.4", "1.0", "1.1", "1.2"]


def test_topics_by_a_pattern(tools: Tools, topic: str) -> None:
    line = f"kafka-console-consumer --include {topic[:-1]}[{topic[-1]}] --from-beginning --max-messages 8"
    kafkas, ours = tools.both(line)
    assert sorted(ours.out.split()) == sorted(kafkas.out.split())
    assert len(ours.out.split()) == 8


def test_a_topic_that_is_not_there_is_made_by_asking_and_waited_for(tools: Tools, name: str) -> None:
    line = "--timeout-ms 3000 --from-beginning"
    for run, topic in ((tools.kafkas, f"{name}-kafkas"), (tools.ours, f"{name}-ours")):
        waited = run(f"kafka-console-consumer --topic {topic} {line}")
        assert (waited.out, waited.status) == ("", 0)
        assert "Processed a total of 0 messages" in waited.err
        assert topic in tools.ours("kafka-topics --list").out.split()
