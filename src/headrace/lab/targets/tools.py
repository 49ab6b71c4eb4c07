"""Programs that a target needs and that pip does not bring, and the cache where what they fetched is kept.

A missing tool is told apart from a failing one: the first is for the person to install.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.lab.errors import LabError

CACHE_VARIABLE = "HEADRACE_CACHE"


class ToolMissing(Exception):
    """A program that is not installed; the text says which, and how to get it."""


class ToolFailed(LabError, RuntimeError):
    """A program that did not do as told; the text ends with what it said."""


def cache_dir() -> Path:
    """Where `HEADRACE_CACHE` says, or where programs keep what they can fetch again."""
    if told := os.environ.get(CACHE_VARIABLE):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def require_tool(name: str, *, hint: str) -> str:
    """The path of a program on PATH."""
    path = shutil.which(name)
    if path is None:
        raise ToolMissing(f"{name} is not installed ({hint})")
    return path


def run_checked(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float = 60,
) -> bytes:
    """Standard output of a command that must succeed; its standard error goes into the complaint."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=None if env is None else os.environ | env,
        input=stdin if stdin is not None else b"",
        capture_output=True,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        raise ToolFailed(
            f"{' '.join(map(str, command))} exited with {done.returncode}\n"
            f"{done.stderr.decode(errors='replace')[-4000:]}\n{done.stdout.decode(errors='replace')[-2000:]}"
        )
    return done.stdout


def cached_place(name: str, sources: Sequence[Path]) -> Path:
    """Where what is built of these very sources is, or will be: an edit makes another place."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache_dir() / f"{name}-{digest.hexdigest()[:12]}"


def cached_build(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """A directory that `build` filled once. It appears by a rename: an interrupted build leaves nothing that looks
    finished."""
    finished = cached_place(name, sources)
    if not finished.is_dir():
        finished.parent.mkdir(parents=True, exist_ok=True)
        unfinished = finished.with_name(f"{finished.name}.{os.getpid()}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            build(unfinished)
            unfinished.rename(finished)
        except OSError:
            # Another run may have finished the same build first; its result is as good as ours.
            if not finished.is_dir():
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return finished
