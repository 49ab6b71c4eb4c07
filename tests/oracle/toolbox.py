"""Finding the tools that a comparison needs, and the cache where what they fetched is kept.

A missing tool is told apart from a failing one: only the first may skip a test, and not even that where
`HEADRACE_REQUIRE=all` says that this machine is meant to have everything.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

CACHE_DIR = Path(__file__).resolve().parents[2] / ".cache"
REQUIRE_ALL = os.environ.get("HEADRACE_REQUIRE") == "all"


class ToolMissing(Exception):
    """A program that is not installed; the text says which, and how to get it."""


def without_tool(missing: ToolMissing) -> NoReturn:
    """Leave a test that cannot run here: skipped with the reason, or failed where everything is required."""
    import pytest  # The bench uses this module too, and has no need of it.

    if REQUIRE_ALL:
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing), allow_module_level=True)


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
        raise RuntimeError(
            f"{' '.join(map(str, command))} exited with {done.returncode}\n"
            f"{done.stderr.decode(errors='replace')[-4000:]}\n{done.stdout.decode(errors='replace')[-2000:]}"
        )
    return done.stdout


def cached_build(name: str, sources: Sequence[Path], build: Callable[[Path], None]) -> Path:
    """A directory that `build` filled once for these very sources.

    The directory is named after a digest of the sources, so an edit makes a new one, and it appears by a
    rename, so an interrupted build leaves nothing that looks finished.
    """
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    finished = CACHE_DIR / f"{name}-{digest.hexdigest()[:12]}"
    if not finished.is_dir():
        CACHE_DIR.mkdir(exist_ok=True)
        unfinished = CACHE_DIR / f"{finished.name}.{os.getpid()}.part"
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
