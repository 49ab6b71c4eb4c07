"""`headrace lab send` before anything is sent."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app


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


@pytest.mark.parametrize("words", ["--rate 10 --acks 7", "--rate 10 --engine warp", "--rate 10 --file /nowhere"])
def test_what_is_mistyped_is_status_2(words: str) -> None:
    assert CliRunner().invoke(app, ["lab", "send", *words.split()]).exit_code == 2
