"""Kafka's perf tests and ours, against one broker: the same words, lines of the same shape; and others' script on ours.

Numbers differ from run to run, so lines are compared with every number replaced by how many decimals it has.
"""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.exchange import Exchange
from tests.oracle.kafka import java_command

JAVA = {
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-e2e-latency": "EndToEndLatency",
}
OURS = {
    "kafka-topics": "topics",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-e2e-latency": "e2e_latency",
}
PRODUCER = "kafka-producer-perf-test --topic t --throughput 1"
NOBODY = "bootstrap.servers=127.0.0.1:1"
_numbers = itertools.count()


class Ran:
    def __init__(self, command: list[str], words: list[str]) -> None:
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
        self.status, self.lines, self.err = done.returncode, done.stdout.splitlines(), done.stderr
        assert "Traceback" not in done.stderr

    @property
    def shapes(self) -> list[str]:
        return [shape(line) for line in self.lines]


def shape(line: str) -> str:
    return re.sub(r"\d+(?:\.(\d+))?", lambda match: "N" if match[1] is None else f"N.{'n' * len(match[1])}", line)


class Tools:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def kafkas(self, line: str) -> Ran:
        name, *words = line.split()
        return Ran([*java_command(), f"org.apache.kafka.tools.{JAVA[name]}"], words)

    def ours(self, line: str) -> Ran:
        name, *words = line.split()
        code = f"from headrace.cli.kafka_scripts.main import {OURS[name]} as run; run()"
        return Ran([sys.executable, "-c", code], words)

    def both(self, line: str) -> tuple[Ran, Ran]:
        return self.kafkas(line), self.ours(line)


@pytest.fixture
def tools(exchange: Exchange) -> Tools:
    java_command()
    return Tools(exchange.broker.bootstrap)


@pytest.fixture
def topic(tools: Tools) -> str:
    name = f"perf-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": tools.bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    return name


def test_a_producers_lines(tools: Tools, topic: str) -> None:
    line = (
        f"kafka-producer-perf-test --topic {topic} --num-records 700 --record-size 512 --throughput 100 "
        f"--producer-props bootstrap.servers={tools.bootstrap} acks=all linger.ms=10"
    )
    kafkas, ours = tools.both(line)
    assert kafkas.status == ours.status == 0
    assert len(kafkas.lines) == len(ours.lines) == 2
    window, summary = ours.shapes
    assert window == kafkas.shapes[0]
    # 4.0 and 4.1 print this one rate with one decimal; all before and after them with six.
    six_decimals = kafkas.shapes[1].replace("N.n records/sec", "N.nnnnnn records/sec")
    assert summary == six_decimals
    for ran in (kafkas, ours):
        assert ran.lines[1].startswith("700 records sent, ")
        assert float(ran.lines[1].split()[3]) == pytest.approx(100, rel=0.05)


def test_payloads_of_a_file_are_counted_alike(tools: Tools, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    for text, delimiter in (("a\n\nbb\nccc\n", r"\n"), ("\na\n\n", r"\n"), ("a1b22c", r"\d+"), ("ä|ö|", r"\|")):
        path.write_text(text)
        line = (
            f"kafka-producer-perf-test --topic {topic} --num-records 10 --payload-file {path} --throughput -1 "
            f"--payload-delimiter {delimiter} --producer-props bootstrap.servers={tools.bootstrap}"
        )
        kafkas, ours = tools.both(line)
        assert kafkas.status == ours.status == 0
        assert kafkas.lines[:2] == ours.lines[:2], (text, delimiter)
        assert kafkas.lines[2].split()[0] == ours.lines[2].split()[0] == "10"


def test_a_consumers_lines(tools: Tools, topic: str) -> None:
    sent = tools.ours(
        f"kafka-producer-perf-test --topic {topic} --num-records 20000 --record-size 512 --throughput -1 "
        f"--producer-props bootstrap.servers={tools.bootstrap}"
    )
    assert sent.status == 0
    consume = f"kafka-consumer-perf-test --bootstrap-server {tools.bootstrap} --topic {topic}"
    kafkas, ours = tools.both(f"{consume} --messages 20000")
    assert kafkas.status == ours.status == 0
    assert kafkas.lines[0] == ours.lines[0]
    assert kafkas.shapes == ours.shapes
    assert kafkas.lines[1].split(", ")[2] == ours.lines[1].split(", ")[2] == "9.7656"
    assert kafkas.lines[1].split(", ")[4] == ours.lines[1].split(", ")[4] == "20000"

    kafkas, ours = tools.both(
        f"{consume} --messages 20000 --show-detailed-stats --reporting-interval 1 "
        "--date-format yyyy/MM/dd'T'HH:mm:ss.SSSXXX"
    )
    assert kafkas.status == ours.status == 0
    assert kafkas.lines[0] == ours.lines[0]
    assert len({*ours.shapes[1:]}) == 1
    assert {*kafkas.shapes[1:]} == {*ours.shapes[1:]}

    kafkas, ours = tools.both(f"{consume} --from-latest --messages 1 --timeout 100 --hide-header")
    assert kafkas.status == ours.status == 0
    assert kafkas.lines[0].startswith("WARNING: Exiting before consuming the expected number of messages")
    assert kafkas.lines[0] == ours.lines[0]
    assert kafkas.shapes == ours.shapes


def test_end_to_end_lines(tools: Tools) -> None:
    for name, words in (("kafkas", tools.kafkas), ("ours", tools.ours)):
        ran = words(f"kafka-e2e-latency {tools.bootstrap} perf-{name}-{next(_numbers)} 30 1 20")
        assert ran.status == 0, ran.err
        created, first, mean, percentiles = ran.lines
        assert re.fullmatch(
            rf'Topic "perf-{name}-\d+" does not exist. '
            r"Will create topic with 1 partition\(s\) and replication factor = 1",
            created,
        )
        assert re.fullmatch(r"0\t\d+\.\d+", first)
        assert shape(mean) == "Avg latency: N.nnnn ms"
        assert shape(percentiles) == "Percentiles: Nth = N, Nth = N, N.nth = N"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"{PRODUCER} --num-records 1 --record-size 1", "producer-props|bootstrap"),
        (f"{PRODUCER} --record-size 1 --producer-props {NOBODY}", "num-records"),
        (f"{PRODUCER} --num-records 1 --producer-props {NOBODY}", "record-size"),
        (f"{PRODUCER} --num-records 0 --record-size 1 --producer-props {NOBODY}", "num-records"),
        (f"{PRODUCER} --no-such-flag", "no-such-flag|num-records"),
        ("kafka-consumer-perf-test --bootstrap-server 127.0.0.1:1 --topic t", "messages"),
        ("kafka-consumer-perf-test --bootstrap-server 127.0.0.1:1 --messages 1", "topic"),
        ("kafka-consumer-perf-test --no-such-flag", "no-such-flag"),
        ("kafka-consumer-perf-test --bootstrap-server 127.0.0.1:1 --topic t --messages x", "messages"),
        ("kafka-e2e-latency a b c", "num.(messages|records)"),
        ("kafka-e2e-latency 127.0.0.1:1 t 1 0 1", "acknowledgement"),
    ],
)
def test_mistyped_lines_are_refused_by_both_for_the_same_reason(line: str, named: str) -> None:
    java_command()
    kafkas, ours = Tools("").both(line)
    assert kafkas.status == ours.status == 1
    for ran in (kafkas, ours):
        assert re.search(named, ran.err), ran.err


# --- a script of others' -----------------------------------------------------------------------------------------

# Section "Execute Benchmark", "AWS and Azure", of Confluent's paper on benchmarking dedicated clusters (2020), line by
# line. The printing lost the `.*` in the expression of sed and the bars before one tee and one awk, and has \setminus
# for two backslashes: these stand here again.
SCRIPT = r"""
kafka-producer-perf-test \
    --topic perf-test \
    --record-size 512 \
    --producer.config config \
    --throughput 60000 \
    --num-records 54000000 \
    --producer-props acks=all linger.ms=10 \
    | tee /tmp/producer &
kafka-consumer-perf-test \
    --broker-list <BOOTSTRAP SERVER>:<PORT> \
    --consumer.config /config \
    --topic perf-test \
    --messages 53950000 \
    --group=perf-test-1 \
    --show-detailed-stats \
    --hide-header \
    --timeout 60000 \
    | tee /tmp/consumer1 &
kafka-consumer-perf-test \
    --broker-list <BOOTSTRAP SERVER>:<PORT> \
    --consumer.config /config \
    --topic perf-test \
    --messages 53950000 \
    --group=perf-test-2 \
    --show-detailed-stats \
    --hide-header \
    --timeout 60000 \
    | tee /tmp/consumer2 &
kafka-consumer-perf-test \
    --broker-list <BOOTSTRAP SERVER>:<PORT> \
    --consumer.config /config \
    --topic perf-test \
    --messages 53950000 \
    --group=perf-test-3 \
    --show-detailed-stats \
    --hide-header \
    --timeout 60000 \
    | tee /tmp/consumer3 &
wait
echo "Test Results:"
tail -n 1 /tmp/producer | sed 's|.*(\(.*\))|Producer: \1|g'
echo "Consumer 1:" \
    `cat /tmp/consumer1 \
     | awk -F"," '{if($8>0){msec+=$8};mb=$3}END{print mb*1000/msec}'`\
    "MB/sec"
echo "Consumer 2:" \
    `cat /tmp/consumer2 \
     | awk -F"," '{if($8>0){msec+=$8};mb=$3}END{print mb*1000/msec}'`\
    "MB/sec"
echo "Consumer 3:" \
    `cat /tmp/consumer3 \
     | awk -F"," '{if($8>0){msec+=$8};mb=$3}END{print mb*1000/msec}'`\
    "MB/sec"
"""
# Section "Create Topic" and section "Topic Cleanup", of the same.
CREATE = r"""
kafka-topics \
    --bootstrap-server <BOOTSTRAP SERVER>:<PORT> \
    --command-config /config \
    --create \
    --topic perf-test \
    --partitions 108 \
    --replication-factor 3
"""
CLEAN_UP = r"""
kafka-topics \
    --bootstrap-server <BOOTSTRAP SERVER>:<PORT> \
    --command-config /config \
    --topic perf-test \
    --delete
"""
# A fifteenth of the rate for twelve seconds: long enough for two lines of five seconds of each consumer.
SCALED = {
    "--throughput 60000": "--throughput 4000",
    "--num-records 54000000": "--num-records 48000",
    "--messages 53950000": "--messages 47956",
    "--replication-factor 3": "--replication-factor 1",
}


def test_the_script_of_a_paper(exchange: Exchange, tmp_path: Path) -> None:
    """Nothing in it is changed but how much, and where: addresses, and the places of files."""
    bootstrap = exchange.broker.bootstrap
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, function in OURS.items():
        path = commands / name
        path.write_text(f"#!{sys.executable}\nfrom headrace.cli.kafka_scripts.main import {function}\n{function}()\n")
        path.chmod(0o755)
    (tmp_path / "config").write_text(f"# Kafka\nbootstrap.servers={bootstrap}\nsecurity.protocol=PLAINTEXT\n")
    places = {"/tmp/": f"{tmp_path}/", " /config": f" {tmp_path}/config", "<BOOTSTRAP SERVER>:<PORT>": bootstrap}

    def run(script: str) -> list[str]:
        for before, after in {**SCALED, **places}.items():
            script = script.replace(before, after)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    assert run(CREATE) == ["Created topic perf-test."]
    try:
        lines = run(SCRIPT)
    finally:
        run(CLEAN_UP)
    producer, *consumers = lines[lines.index("Test Results:") + 1 :]
    assert shape(producer) == (
        "Producer: N.nn MB/sec, N.nn ms avg latency, N.nn ms max latency, N ms Nth, N ms Nth, N ms Nth, N ms N.nth."
    )
    rate_mb_per_s = 4_000 * 512 / (1 << 20)
    # Paced by its plan, and held up by half of it at most: a machine with much else to do is late, not idle.
    assert 0.5 * rate_mb_per_s < float(producer.split()[1]) < 1.05 * rate_mb_per_s
    assert [line.split(":")[0] for line in consumers] == ["Consumer 1", "Consumer 2", "Consumer 3"]
    for line in consumers:
        assert line.endswith(" MB/sec")
        # More than the rate by as much as a consumer has waited for its partitions: fetch.time.ms leaves that out.
        assert 0.5 * rate_mb_per_s < float(line.split()[2]) < 3 * rate_mb_per_s, line
