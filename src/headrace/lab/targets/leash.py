"""A directory for brokers that are started here, and the promise that neither they nor it outlive whoever started them.

    with leashed_directory() as directory:
        ... start brokers whose command names the directory ...

Whoever can still do so ends its brokers itself. But one that is killed cannot, and a broker left behind would spoil
whatever is measured next. So a small process of its own watches: when its standard input ends without a word of
farewell, it kills every process whose command names the directory, and removes the directory. It needs to know of no
process, and so also ends those that were about to start. Without /proc it removes the directory alone.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_FAREWELL: Final = b"."
_PROC: Final = Path("/proc")
_ROUNDS: Final = 50  # Of looking for those that are still there: one may be starting another.
_ROUND_S: Final = 0.1


@contextlib.contextmanager
def leashed_directory(prefix: str = "headrace-lab-") -> Iterator[Path]:
    directory = tempfile.mkdtemp(prefix=prefix)
    try:
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.lab.targets.leash", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is not for it.
        ) as watcher:
            assert watcher.stdin is not None
            try:
                yield Path(directory)
            finally:
                with contextlib.suppress(BrokenPipeError):  # Somebody has killed it.
                    watcher.stdin.write(_FAREWELL)
                    watcher.stdin.close()
                watcher.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def processes_naming(directory: str) -> list[int]:
    """All but this one."""
    found = []
    for each in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (each / "cmdline").read_bytes().split(b"\0")
            if any(directory.encode() in word for word in words) and int(each.name) != os.getpid():
                found.append(int(each.name))
    return found


def watch(incoming: BinaryIO, directory: str) -> None:
    if incoming.read() == _FAREWELL:
        return
    for _ in range(_ROUNDS):
        named = processes_naming(directory)
        for pid in named:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not named:
            break
        time.sleep(_ROUND_S)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    watch(sys.stdin.buffer, sys.argv[1])
