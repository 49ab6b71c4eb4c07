"""The perf tests under names of our own: the same scripts, and nothing heavy before one runs."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app


@pytest.mark.parametrize("command", ["producer-perf", "consumer-perf", "e2e-latency"])
def test_arguments_go_to_the_script_as_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = CliRunner().invoke(app, ["lab", command, "--help"])
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"headrace lab {command}: measure how ")
    assert "--bootstrap-server VALUE" in shown.stdout
    mistyped = CliRunner().invoke(app, ["lab", command, "--no-such", "-1", "a=b"])
    assert mistyped.exit_code == 1
    assert mistyped.stderr == f"headrace lab {command}: --no-such is not a flag of this command (see --help)\n"


def test_the_list_of_commands_names_kafkas_scripts() -> None:
    shown = CliRunner().invoke(app, ["lab", "--help"]).stdout
    for name in ("producer-perf", "kafka-producer-perf-test", "consumer-perf", "e2e-latency"):
        assert name in shown


@pytest.mark.parametrize("arguments", ["lab --help", "lab producer-perf --help", "lab e2e-latency --help"])
def test_help_waits_for_nothing_heavy(arguments: str) -> None:
    code = (
        f"import sys; sys.argv = ['headrace', *{arguments.split()!r}]\n"
        "from headrace.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: print({'confluent_kafka', 'numpy', 'pyarrow'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "set()"
