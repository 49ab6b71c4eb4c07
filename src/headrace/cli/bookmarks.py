"""How far a command has come, in a small file that survives whatever happens to the command.

A bookmark is replaced as a whole: whoever reads it finds the last one that was kept, never half of one, also after a
power failure. What it says must be true by then: whoever keeps one has synced first what it speaks of.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from headrace.cli.output import CommandError


def read_bookmark(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        kept = json.loads(text)
    except ValueError:
        kept = None
    if not isinstance(kept, dict):
        raise CommandError(f"{path} is not what an interrupted command left: remove it, or say --restart")
    return kept


def keep_bookmark(path: Path, kept: dict[str, Any]) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w") as file:
        json.dump(kept, file)
        file.flush()
        os.fsync(file.fileno())
    put_in_place(beside, path)


def put_in_place(path: Path, target: Path) -> None:
    """Give a synced file its name, for good."""
    path.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def open_alone(path: Path, *, create: bool) -> Iterator[IO[bytes]]:
    """A file to be changed by one process at a time. The lock ends with the process, however it ends."""
    with open(os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have given it another name.
            is_ours = path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
        except BlockingIOError:
            is_ours = False
        if not is_ours:
            raise CommandError(f"another process is writing {path}")
        yield file
