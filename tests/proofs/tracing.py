"""strace on a running process, which makes its system calls fail or kills it inside one.

The n-th call is counted for each thread apart. An injected error is not the device's: the call does not happen at all.
"""

import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.oracle.toolbox import ToolMissing, require_tool

_HINT: Final = "the Debian package is strace"
_PATH: Final = re.compile(r"\(\d+<([^>]*)>")


class Tracer:
    """Tampers from the moment it is entered until it is left, or until the process ends."""

    def __init__(self, pid: int, injection: str, *, output: Path, threads: bool = False) -> None:
        """`injection` as strace reads it: `write:signal=SIGKILL:when=7`, `fsync,fdatasync:error=EIO:when=1+`."""
        self._output = output
        calls = injection.partition(":")[0]
        self._command = [
            require_tool("strace", hint=_HINT),
            *(["-f"] if threads else []),
            *("-p", str(pid), "-y", "-o", str(output), "-e", f"trace={calls}", "-e", f"inject={injection}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        if b"attached" not in line:
            self._end()
            raise ToolMissing(f"strace cannot attach here: {line.decode(errors='replace').strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.communicate()

    def paths_hit(self) -> list[Path]:
        """The files whose calls were made to fail, in order; complete once the tracer was left."""
        if not self._output.exists():
            return []
        hits = (line for line in self._output.read_text().splitlines() if "(INJECTED)" in line)
        return [Path(found[1]) for line in hits if (found := _PATH.search(line))]


def check_strace() -> None:
    """ToolMissing where strace is not installed, or may not look at other processes."""
    require_tool("strace", hint=_HINT)
    sleeper = subprocess.Popen(["sleep", "30"])
    try:
        with Tracer(sleeper.pid, "write:error=EIO:when=1", output=Path("/dev/null")):
            pass
    finally:
        sleeper.kill()
        sleeper.wait()


def helper_pid(pid: int) -> int:
    """The disk helper of a node that has already needed it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(children) == 1, f"{len(children)} children of the node instead of its helper"
    return int(children[0])
