"""`headrace lab run` as a command: short runs on a node, mistakes that are told in a line, and runs that are shown."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
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
