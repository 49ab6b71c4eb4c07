"""`headrace lab reproduce` as a command: a preset cut short enough for a test, and mistakes that are told in a line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.lab.findings import judge
from headrace.lab.presets import PRESETS
from headrace.lab.results import read_results


def reproduce(*words: str | Path, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["lab", "reproduce", *map(str, words)])
    assert result.exit_code == status, f"{words}: {result.exit_code}\n{result.output}"
    assert "Traceback" not in result.output
    return result


def test_a_preset_is_run_judged_and_reported(tmp_path: Path) -> None:
    shorter = ["--repeats", "1", "--set", "sweep={messages: [1000]}", "--no-figures"]
    told = json.loads(reproduce("s1-backlog", *shorter, "--out", tmp_path, "--json").stdout)
    [path] = told["results"]
    results = read_results(Path(path))
    assert (results.scenario.name, results.partial) == ("s1-backlog", None)
    assert [cell["messages"] for cell in results.cells] == [1000]
    assert all(line.metrics["consumed_per_s"] > 0 for line in results.repeats)
    assert told["findings"] == [judgement.to_json() for judgement in judge("s1-backlog", [results])]
    # A backlog alone is neither a small one nor a large one.
    assert [finding["verdict"] for finding in told["findings"]] == ["not measurable here"]
    page = Path(told["report"]).read_text()
    assert "Consuming is no slower out of a large backlog" in page


def test_presets_are_listed() -> None:
    listed = json.loads(reproduce("--json").stdout)
    assert [each["preset"] for each in listed] == [*PRESETS]
    assert all(name in reproduce().stdout for name in PRESETS)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["s9-fig1"], "there is no preset 's9-fig1': there are s0-fig5"),
        (["s0-fig5", "--scale", "huge"], "a scale is small, full or a number such as 0.1, not 'huge'"),
        (["s0-fig5", "--duration", "soon"], "duration: 'soon' is not a length of time"),
        (["s0-fig5", "--set", "rat=5"], "there is no key 'rat': did you mean 'rate'?"),
        (["s0-fig5", "--target", "kafke"], "there is no target 'kafke'"),
    ],
)
def test_mistakes_are_told_in_a_line(words: list[str], why: str, tmp_path: Path) -> None:
    told = reproduce(*words, "--out", tmp_path / "out", status=1)
    assert why in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
