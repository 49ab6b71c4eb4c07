"""The command tree, and failures told in one line."""

import subprocess
import sys
from typing import NoReturn

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner

from headrace import __version__
from headrace.cli.app import CommandGroup, app
from headrace.cli.output import CommandError


def failing(error: BaseException) -> typer.Typer:
    """A command tree like ours, whose command fails."""
    tree = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)

    @tree.callback()
    def root() -> None: ...

    @tree.command()
    def fail() -> NoReturn:
        raise error

    return tree


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CommandError("no such thing"), "headrace: no such thing\n"),
        (FileNotFoundError(2, "No such file", "x"), "headrace: [Errno 2] No such file: 'x'\n"),
        (
            KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")),
            "headrace: Topic 'a' already exists. (TOPIC_ALREADY_EXISTS)\n",
        ),
    ],
)
def test_the_worlds_failures_are_one_line_and_status_1(error: Exception, line: str) -> None:
    shown = CliRunner().invoke(failing(error), ["fail"])
    assert (shown.exit_code, shown.stdout, shown.stderr) == (1, "", line)


def test_our_own_failures_keep_their_traceback() -> None:
    shown = CliRunner().invoke(failing(AssertionError("impossible")), ["fail"])
    assert isinstance(shown.exception, AssertionError)


def test_an_interrupt_is_quiet() -> None:
    shown = CliRunner().invoke(failing(KeyboardInterrupt()), ["fail"])
    assert (shown.exit_code, shown.output) == (130, "")


def test_version() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"headrace {__version__}\n")


def test_every_command_has_help() -> None:
    commands = [
        *("topics list", "topics create", "topics describe", "topics alter", "topics delete", "topics configs"),
        *("groups list", "groups describe", "groups reset", "groups delete", "groups delete-offsets"),
        *("produce", "consume", "log dump", "log verify", "log repair", "demo"),
    ]
    for command in commands:
        shown = CliRunner().invoke(app, [*command.split(), "--help"])
        assert shown.exit_code == 0, command
        assert "--json" in shown.stdout, command


def test_help_waits_for_no_client_library() -> None:
    code = (
        "import sys; sys.argv = ['headrace', 'topics', '--help']\n"
        "from headrace.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: print('confluent_kafka' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_serve_is_listed_and_reached_through_the_tree_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert "serve" in CliRunner().invoke(app, ["--help"]).stdout
    shown = CliRunner().invoke(app, ["serve", "--listen", "nowhere"])
    assert shown.exit_code == 2
    assert "HOST:PORT" in shown.output
