"""The perf tests against a real node. What they print is compared with Kafka's own in tests/interop."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.kafka_scripts import consumer_perf, e2e_latency, producer_perf
from headrace.cli.kafka_scripts.script import status_of
from headrace.testing.node_process import NodeProcess

SCRIPTS = {module.SCRIPT.name: module.SCRIPT for module in (consumer_perf, e2e_latency, producer_perf)}
SUMMARY = (
    r"\d+ records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, \d+\.00 ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
WINDOW = r"\d+ records sent, \d+\.\d records/sec \(\d+\.\d\d MB/sec\), \d+\.\d ms avg latency, \d+\.0 ms max latency\."
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
RATES = r"\d+\.\d{4}, \d+\.\d{4}, \d+, \d+\.\d{4}, \d+, \d+, \d+\.\d{4}, \d+\.\d{4}"


class Shell:
    """Runs a line, and gives back the lines it printed."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap, self._capsys = bootstrap, capsys
        self.err = ""

    def __call__(self, line: str, *, status: int = 0) -> list[str]:
        name, *words = line.split()
        found = status_of(SCRIPTS[name], words)
        out, self.err = self._capsys.readouterr()
        assert found == status, f"{line}: {found}\n{out}\n{self.err}"
        return out.splitlines()


@pytest.fixture(scope="module")
def prompt_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """It does not wait for further members of a group."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with NodeProcess(tmp_path_factory.mktemp("prompt-node") / "data", settings=settings) as process:
        yield process


@pytest.fixture
def shell(prompt_node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(prompt_node.bootstrap, capsys)


def test_sent_and_consumed(shell: Shell, topic_name: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"bootstrap.servers={shell.bootstrap}\n")
    produce = f"kafka-producer-perf-test --topic {topic_name} --producer.config {tmp_path / 'config'}"
    lines = shell(
        f"{produce} --num-records 3000 --record-size 512 --throughput 6000 --reporting-interval 200 --print-metrics "
        "--producer-props acks=all linger.ms=10"
    )
    summary = next(line for line in lines if "99.9th" in line)
    windows = lines[: lines.index(summary)]
    assert re.fullmatch(SUMMARY, summary)
    assert windows
    assert all(re.fullmatch(WINDOW, line) for line in windows)
    # Half a second at that rate; no faster than asked.
    assert summary.startswith("3000 records sent, ")
    assert float(summary.split()[3]) < 6_600
    metrics = lines[lines.index(summary) + 1 :]
    assert metrics[0] == ""
    assert metrics[1].split() == ["Metric", "Name", "Value"]
    (counted,) = (line for line in metrics if line.startswith("producer-metrics:record-send-total"))
    assert re.fullmatch(r"producer-metrics:record-send-total:\{client-id=perf-producer-client\} +: 3000\.000", counted)

    consume = f"kafka-consumer-perf-test --broker-list {shell.bootstrap} --topic {topic_name} --timeout 5000"
    header, total = shell(f"{consume} --messages 3000 --threads 1")
    assert header.startswith("start.time, end.time, data.consumed.in.MB, ")
    assert re.fullmatch(f"{STAMP}, {STAMP}, {RATES}", total)
    assert total.split(", ")[2] == "1.4648"
    assert total.split(", ")[4] == "3000"
    assert "--threads changes nothing here" in shell.err

    detailed = shell(
        f"{consume} --num-records 3000 --group {topic_name} --show-detailed-stats --hide-header --reporting-interval 1 "
        "--date-format HH:mm"
    )
    assert detailed
    assert all(re.fullmatch(rf"\d\d:\d\d, 0, {RATES}", line) for line in detailed)


def test_payloads_of_a_file(shell: Shell, topic_name: str, tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    path.write_text("a;bb;ccc;")
    produce = f"kafka-producer-perf-test --bootstrap-server {shell.bootstrap} --topic {topic_name} --throughput -1"
    reading, count, summary = shell(f"{produce} --num-records 60 --payload-file {path} --payload-delimiter ;")
    assert (reading, count) == (f"Reading payloads from: {path}", "Number of messages read: 3")
    assert re.fullmatch(SUMMARY, summary)
    shell(f"{produce} --messages 40 --payload-monotonic --warmup-records 10")
    warning, total = shell(
        f"kafka-consumer-perf-test --bootstrap-server {shell.bootstrap} --include {topic_name[:-1]}. --messages 101 "
        "--timeout 500 --hide-header"
    )
    assert warning.startswith("WARNING: Exiting before consuming the expected number of messages: timeout (500 ms)")
    assert total.split(", ")[4] == "100"
    shell(f"{produce} --messages 1 --payload-file {tmp_path / 'missing'}", status=1)
    assert "missing" in shell.err


def test_end_to_end(shell: Shell, topic_name: str) -> None:
    created, first, mean, percentiles = shell(f"kafka-e2e-latency {shell.bootstrap} {topic_name} 20 all 64")
    assert created == (
        f'Topic "{topic_name}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    assert re.fullmatch(r"0\t\d+\.\d+", first)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", mean)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", percentiles)
    again = shell(
        f"kafka-e2e-latency --bootstrap-server {shell.bootstrap} --topic {topic_name} --num-records 5 "
        "--producer-acks 1 --record-size 8 --record-key-size 4 --num-headers 2 --record-header-key-size 3 "
        "--record-header-size -1"
    )
    assert len(again) == 3
    assert topic_name in AdminClient({"bootstrap.servers": shell.bootstrap}).list_topics(timeout=10).topics


def test_what_the_cluster_refuses_is_told_and_counted(shell: Shell, topic_name: str) -> None:
    """A record too large for the topic, and transactions, which a node does not serve."""
    admin = AdminClient({"bootstrap.servers": shell.bootstrap})
    admin.create_topics([NewTopic(topic_name, 1, 1, config={"max.message.bytes": "1000"})])[topic_name].result(10)
    # A hundred a second: without, they may all be refused within the millisecond, and a rate in no time is no number.
    produce = f"kafka-producer-perf-test --bootstrap-server {shell.bootstrap} --topic {topic_name} --throughput 100"
    (summary,) = shell(f"{produce} --num-records 3 --record-size 5000 --producer-props linger.ms=0", status=1)
    assert summary.startswith("0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max")
    assert "3 records were not sent: 3 x " in shell.err
    assert "MSG_SIZE_TOO_LARGE" in shell.err
    shell(f"{produce} --num-records 1 --record-size 5 --transactional-id t", status=1)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in shell.err


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell("127.0.0.1:1", capsys)
    lines = shell(f"kafka-consumer-perf-test --topic t --messages 1 --bootstrap-server {shell.bootstrap}", status=1)
    assert lines == []
    assert "cannot reach 127.0.0.1:1" in shell.err
