"""`headrace lab send` before anything is sent."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from tests.left_running import Marked


def test_help_waits_for_no_numpy() -> None:
    code = (
        "import sys; sys.argv = ['headrace', 'lab', 'send', '--help']\n"
        "from headrace.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: print(bool({'numpy', 'pyarrow', 'confluent_kafka'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


def test_a_rate_has_to_be_said() -> None:
    shown = CliRunner().invoke(app, ["lab", "send"])
    assert shown.exit_code == 2
    assert "how many messages a second" in shown.output


@pytest.mark.parametrize("to", ["node", "null", "127.0.0.1:1"])
def test_an_impossible_rate_is_one_line_and_starts_nothing(monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    marked = Marked(monkeypatch)
    shown = CliRunner().invoke(app, ["lab", "send", "--to", to, "--rate", "900M", "--processes", "2"])
    assert shown.exit_code == 1
    assert shown.output.strip().splitlines() == [
        "headrace: rate: 900,000,000 messages a second from 2 process(es) is impossible: no process sends 20,000,000"
    ]
    marked.check_none_left()


@pytest.mark.parametrize("words", ["--rate 10 --acks 7", "--rate 10 --engine warp", "--rate 10 --file /nowhere"])
def test_what_is_mistyped_is_status_2(words: str) -> None:
    assert CliRunner().invoke(app, ["lab", "send", *words.split()]).exit_code == 2
