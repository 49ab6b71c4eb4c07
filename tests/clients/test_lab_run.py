"""`headrace lab run` as a command: short runs on a node, mistakes that are told in a line, and runs that are shown."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.lab.report.writing import PAGE_NAME, SHORT_NAME, write_report
from headrace.lab.results import read_results
from tests.left_running import Marked


def lab(*words: str | Path, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["lab", *map(str, words)])
    assert result.exit_code == status, f"{words}: {result.exit_code}\n{result.output}"
    assert "Traceback" not in result.output
    return result


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither a broker nor a sender, whatever became of the command."""
    marked = Marked(monkeypatch)
    yield
    marked.check_none_left()


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    file = tmp_path / "short.yaml"
    file.write_text("rate: 2K\nduration: 1s\nwarm_up: 0s\nrepeats: 1\npayload: weblog\npartitions: 2\n")
    return file


def test_a_sweep_on_a_node_with_a_group_and_what_is_shown_of_it(workload: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = json.loads(
        lab("run", workload, "--out", out, "--json", "--set", "groups=1", "--set", "sweep={acks: [all]}").stdout
    )
    assert told["partial"] is None
    assert [cell["cell"] for cell in told["cells"]] == [{"acks": "all"}]
    (directory,) = out.iterdir()
    results = read_results(directory)
    assert results.partial is None
    for cell in results.cells:
        (line,) = results.repeats_of(cell)
        assert line.metrics["rate_per_s"] == pytest.approx(2000, rel=0.5)
        assert sum(count for _, count in line.histograms["planned_latency"]) == 2000
        assert sum(count for _, count in line.histograms["end_to_end"]) == 2000
        seconds = results.seconds_of(cell, repeat=0)
        assert sum(second.sent for second in seconds) == sum(second.consumed for second in seconds) == 2000
    assert directory.name in lab("ls", "--out", out).stdout
    assert "acks" in lab("show", "last", "--out", out).stdout
    assert "end_to_end_p999_ms" in lab("show", "short", "--all", "--out", out).stdout
    (listed,) = json.loads(lab("ls", "--out", out, "--json").stdout)
    assert (listed["workload"], listed["target"], listed["cells"], listed["repeats"]) == ("short", "node", 1, 1)


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_messages_that_are_refused_are_counted_with_the_reason(workload: Path, tmp_path: Path, engine: str) -> None:
    """More than a third of them are larger than their topic takes; each is a batch, so that it alone is refused."""
    out = tmp_path / "out"
    changes = {
        "engine": engine, "duration": "2s", "rate": 500, "payload": "random", "size": "100-1000", "batch_messages": 1,
        "topic_config": "{max.message.bytes: 600}", "groups": 1,
    }  # fmt: skip
    assignments = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    shown = lab("run", workload, "--out", out, *assignments).output
    (directory,) = out.iterdir()
    results = read_results(directory)
    assert results.partial is None  # Consumers got all that was acknowledged.
    (line,) = results.repeats
    failed = line.metrics["failed"]
    assert 300 < failed < 700
    acknowledged, planned = (
        sum(getattr(each, name) for each in results.seconds) for name in ("acknowledged", "planned")
    )
    others = sum(line.metrics.get(name, 0) for name in ("never_sent", "not_answered"))  # Where it has no CPU for long.
    assert sum(each.failed for each in results.seconds) == failed == planned - acknowledged - others
    why = f"{failed:,.0f} messages failed: "
    (event,) = line.events
    assert event.startswith(why)
    assert event.endswith(("MSG_SIZE_TOO_LARGE", "MESSAGE_TOO_LARGE"))
    assert line.gate["failed"] == line.gate["rate_per_s"]
    for name in ("planned_latency_p50_ms", "send_latency_p99_ms", "end_to_end_p50_ms"):
        assert f" messages have no latency: {failed:,.0f} failed" in line.gate[name]
    assert line.bottleneck is not None
    assert " a second failed" in line.bottleneck.evidence[0]
    assert "which is on time" not in line.bottleneck.evidence[0]
    assert line.bottleneck.is_held_up
    for told in (shown, lab("show", "last", "--out", out).output):
        assert why in told
        assert "failed" in told.splitlines()[1]
    write_report([results], tmp_path / "report", with_figures=False)
    for name in (PAGE_NAME, SHORT_NAME):
        assert event in (tmp_path / "report" / name).read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--set", "rat=5"], "there is no key 'rat': did you mean 'rate'?"),
        (["--set", "rate=-5"], "is not a rate"),
        (["--set", "rate=900M"], "is impossible"),
        (["--target", "kafke"], "there is no target 'kafke'"),
        (["--target", "127.0.0.1:1"], "target 127.0.0.1:1 is not there"),
        (["--set", "replication=3"], "replication: 3 replicas need as many brokers"),
        (["--set", "broker=broker7"], "there is no broker 'broker7'; there are node"),
        (["--fault", "kill:node@20s"], "comes after the end"),
        (["--fault", "kill:broker3@100ms"], "there is no broker 'broker3'"),
        (["--target", "null", "--set", "groups=1"], "a null sink keeps nothing"),
        (["--target", "null", "--fault", "kill@100ms"], "nothing can be done to it"),
        (["--target", "null", "--max-rate", "--set", "messages=5"], "a search goes by time"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(workload: Path, tmp_path: Path, words: list[str], why: str) -> None:
    out = tmp_path / "out"
    output = lab("run", workload, "--out", out, *words, status=1).output
    assert why in output
    assert len(output.strip().splitlines()) == 1
    assert not out.exists()


def test_a_run_that_there_is_not(tmp_path: Path) -> None:
    assert "there are no runs in" in lab("show", "--out", tmp_path, status=1).output


def test_what_can_be_run_on() -> None:
    names = [each["name"] for each in json.loads(lab("targets", "--json").stdout)]
    assert names == ["node", "kafka", "kafka-3", "null", "HOST:PORT"]
