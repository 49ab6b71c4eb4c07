"""The command line, pointed at a broker: within the test's process, or as a process that signals and pipes can meet."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from headrace.cli.app import app


class Headrace:
    """The command, pointed at a broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str | Path, stdin: str | bytes = "", status: int = 0) -> Result:
        environment = {"HEADRACE_BOOTSTRAP": self.bootstrap}
        result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, env=environment)
        assert result.exit_code == status, f"{arguments}: {result.exit_code}\n{result.output}"
        assert "Traceback" not in result.output
        return result

    def json(self, *arguments: str | Path, stdin: str | bytes = "") -> Any:
        return json.loads(self(*arguments, "--json", stdin=stdin).stdout)

    def consumed(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("consume", *arguments, "--json").stdout.splitlines()]


def command(bootstrap: str, *arguments: str) -> subprocess.Popen[bytes]:
    """The command as a process of its own, for what only signals and pipes can do to it."""
    return subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", *arguments],
        env={**os.environ, "HEADRACE_BOOTSTRAP": bootstrap},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
