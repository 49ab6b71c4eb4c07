"""`headrace lab report` on results in files."""

import csv
import json
from pathlib import Path

from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.lab.results import EndLine
from tests.result_values import latencies, of_rates, repeat, scenario, seconds, write


def run(*words: object) -> tuple[int, str, str]:
    shown = CliRunner().invoke(app, ["lab", "report", *map(str, words)])
    return shown.exit_code, shown.stdout, shown.stderr


def a_run(directory: Path, *, partial: str | None = None) -> Path:
    one = repeat({"rate_per_s": 42.5}, cell={"acks": "1"}, histograms={"planned_latency": latencies(1.0)})
    return write(directory, [scenario(), *seconds([40, 45], cell={"acks": "1"}), one, EndLine(partial=partial)])


def test_a_page_figures_and_tables(tmp_path: Path) -> None:
    status, out, err = run(a_run(tmp_path / "a"))
    assert status == 0, err
    page = tmp_path / "a" / "report" / "report.html"
    assert out.strip() == str(page)
    assert page.read_text().startswith("<!doctype html>")
    assert "![rates](figures/rates.png)" in page.with_suffix(".md").read_text()
    figures = {path.name: path.read_bytes() for path in (page.parent / "figures").iterdir()}
    assert {"rates.png", "lateness.png", "percentiles.png"} == figures.keys()
    assert all(drawn.startswith(b"\x89PNG") for drawn in figures.values())


def test_tables_hold_what_the_results_do(tmp_path: Path) -> None:
    assert run(a_run(tmp_path / "a"), "--out", tmp_path / "out", "--no-figures")[0] == 0
    assert not (tmp_path / "out" / "figures").exists()
    rows = {
        name: [*csv.DictReader((tmp_path / "out" / f"{name}.csv").read_text().splitlines())]
        for name in ("metrics", "means", "seconds")
    }
    [metric] = rows["metrics"]
    assert (metric["acks"], metric["metric"], metric["value"], metric["gate"]) == ("1", "rate_per_s", "42.5", "passed")
    assert [row["acknowledged"] for row in rows["seconds"]] == ["40", "45"]
    assert rows["means"][0]["mean"] == "42.5"
    assert rows["means"][0]["low"] == ""


def test_a_directory_of_runs_is_all_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        of_rates(tmp_path / "runs" / name, [1.0, 2.0])
    status, out, _ = run(tmp_path / "runs", "--out", tmp_path / "out", "--no-figures", "--json")
    assert status == 0
    text = Path(json.loads(out)["page"]).read_text()
    assert "2 runs" in text


def test_a_run_is_known_by_its_name(tmp_path: Path) -> None:
    for name in ("1-slow-node", "2-fast-node"):
        a_run(tmp_path / "runs" / name)
    for named, directory in {"slow": "1-slow-node", "last": "2-fast-node"}.items():
        status, out, err = run(named, "--runs", tmp_path / "runs", "--no-figures")
        assert status == 0, err
        assert out.strip() == str(tmp_path / "runs" / directory / "report" / "report.html")
    status, _, err = run("quick", "--runs", tmp_path / "runs")
    assert status == 1
    assert "there is no run 'quick'" in err


def test_a_partial_run_is_reported_and_said(tmp_path: Path) -> None:
    status, _, err = run(a_run(tmp_path / "a", partial="the broker died"), "--no-figures")
    assert status == 0
    assert "the broker died" in err


def test_no_results_is_one_clear_line(tmp_path: Path) -> None:
    status, out, err = run(tmp_path)
    assert (status, out) == (1, "")
    assert "no results in" in err
    assert len(err.splitlines()) == 1


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, _, err = run(a_run(tmp_path / "a"), "--out", tmp_path / "file" / "out", "--no-figures")
    assert status == 1
    assert "cannot write a report" in err
