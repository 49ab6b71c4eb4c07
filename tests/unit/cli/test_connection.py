"""Which setting wins, and how commands come by their connection."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.connection import DEFAULT_BOOTSTRAP, Connection, connected
from headrace.cli.topics import parse_assignment


def settings_of(*arguments: str, env: dict[str, str] | None = None) -> tuple[dict[str, str], str]:
    """The settings that a command is given for these words, and what was said beside."""
    given: list[Connection] = []
    tree = typer.Typer()

    @tree.command()
    @connected
    def look(cluster: Connection, extra: Annotated[int, typer.Option()] = 1) -> None:
        given.append(cluster)

    shown = CliRunner().invoke(tree, arguments, env={"HEADRACE_BOOTSTRAP": "", **(env or {})})
    assert shown.exit_code == 0, shown.output
    return given[0].settings, shown.stderr


def test_nothing_said_is_the_local_node() -> None:
    assert settings_of() == ({"bootstrap.servers": DEFAULT_BOOTSTRAP}, "")


def test_the_environment_and_the_option_above_it() -> None:
    env = {"HEADRACE_BOOTSTRAP": "env:1"}
    assert settings_of(env=env)[0]["bootstrap.servers"] == "env:1"
    assert settings_of("--bootstrap", "said:2", env=env)[0]["bootstrap.servers"] == "said:2"


def test_a_file_of_settings_below_everything_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:3\nclient.id=me\nkey.serializer=x\n")
    settings, beside = settings_of("--command-config", str(file))
    assert settings == {"bootstrap.servers": "file:3", "client.id": "me"}
    assert "not used here: key.serializer" in beside
    words = ("--command-config", str(file), "-b", "said:4", "-X", "client.id=you", "--extra", "2")
    assert settings_of(*words)[0] == {"bootstrap.servers": "said:4", "client.id": "you"}


@pytest.mark.parametrize(("text", "nodes"), [("1", [[1]]), ("1:2,2:3", [[1, 2], [2, 3]])])
def test_replica_assignments(text: str, nodes: list[list[int]]) -> None:
    assert parse_assignment(text) == nodes


@pytest.mark.parametrize("text", ["", "a", "1:", "1,,2", "1:1"])
def test_what_is_no_replica_assignment(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_assignment(text)
