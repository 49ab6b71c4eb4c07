"""`headrace lab compare` on results in files."""

import json
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.app import app
from tests.result_values import of_rates


def run(*words: object) -> tuple[int, str, str]:
    shown = CliRunner().invoke(app, ["lab", "compare", *map(str, words)])
    return shown.exit_code, shown.stdout, shown.stderr


def test_a_table_of_ratios(tmp_path: Path) -> None:
    of_rates(tmp_path / "a", [100.0, 101.0, 99.0])
    of_rates(tmp_path / "b", [200.0, 201.0, 199.0])
    status, out, _ = run(tmp_path / "a", tmp_path / "b" / "results.jsonl")
    assert status == 0
    header, row = (line for line in out.splitlines() if line.strip())
    assert header.split() == ["metric", "unit", "A", "B", "B", "/", "A", "B", "is"]
    assert "100.0 ± 2.5" in row
    assert "2.000 [1.9" in row
    assert row.rstrip().endswith("better")


def test_runs_are_known_by_their_names(tmp_path: Path) -> None:
    of_rates(tmp_path / "runs" / "1-slow-node", [100.0, 101.0])
    of_rates(tmp_path / "runs" / "2-fast-node", [200.0, 202.0])
    status, out, _ = run("slow", "last", "--out", tmp_path / "runs")
    assert status == 0
    assert "2.000" in out


def test_the_same_as_json(tmp_path: Path) -> None:
    of_rates(tmp_path / "a", {"0": [1.0, 1.1], "1": [2.0, 2.1]})
    of_rates(tmp_path / "b", {"1": [4.0, 4.1], "2": [2.0, 2.1]})
    status, out, _ = run(tmp_path / "a", tmp_path / "b", "--json")
    assert status == 0
    found = json.loads(out)
    assert [row["cell"] for row in found["rows"]] == [{"acks": "1"}]
    assert found["only_a"] == [{"acks": "0"}]


def test_a_directory_without_results_is_one_clear_line(tmp_path: Path) -> None:
    of_rates(tmp_path / "a", [1.0])
    (tmp_path / "empty").mkdir()
    status, out, err = run(tmp_path / "a", tmp_path / "empty")
    assert (status, out) == (1, "")
    assert "no results in" in err
    assert len(err.splitlines()) == 1
