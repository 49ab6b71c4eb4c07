"""What `headrace load` and `headrace lake` understand, before anything is asked of a cluster."""

from datetime import timedelta

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.lake import parse_age
from headrace.cli.load import parse_every


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("1.5m", 90), ("1h", 3600)])
def test_how_often(text: str, seconds: float) -> None:
    assert parse_every(text) == seconds


@pytest.mark.parametrize("text", ["10", "s", "-1s", "10 s", "1d"])
def test_what_is_no_time_is_mistyped(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not like 10s"):
        parse_every(text)


def test_ages_are_days_or_hours() -> None:
    assert (parse_age("7d"), parse_age("24h")) == (timedelta(days=7), timedelta(hours=24))
    with pytest.raises(typer.BadParameter, match="is not like 7d or 24h"):
        parse_age("7")


def test_where_to_load_has_to_be_said() -> None:
    shown = CliRunner().invoke(app, ["load", "clicks"])
    assert shown.exit_code == 2
    assert "--lake PATH_OR_URL is missing" in shown.output


@pytest.mark.parametrize("words", [["--format", "json"], ["--schema", __file__]])
def test_json_needs_a_schema_and_nothing_else_has_one(words: list[str]) -> None:
    shown = CliRunner().invoke(app, ["load", "clicks", "--lake", "nowhere", *words])
    assert shown.exit_code == 2
    assert "go together" in shown.output


def test_spark_has_every_processor_and_tries_a_task_again() -> None:
    shown = CliRunner().invoke(app, ["load", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert "[default: local[*,3]]" in shown.output
