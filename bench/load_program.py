"""Building the C load (`load/`), and which librdkafka it runs with.

The headers are the system's, whose librdkafka may be years old; the library is the one that the confluent-kafka
wheel brings, where it brings one: the newest, and the one that users of this environment run. librdkafka only ever
adds to its interface, so older headers are good for a newer library. The library is copied beside the program: a
build stays whole when the environment it came from is gone.
"""

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Final

import confluent_kafka

from bench.errors import LoadError
from tests.oracle.toolbox import ToolMissing, cached_build, require_tool, run_checked

_SOURCES: Final = Path(__file__).with_name("load")
_COMPILE: Final = "-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wpedantic -Werror".split()


@functools.cache
def c_load() -> Path:
    """The program that every row runs; looked for once, since to do so takes CPU that the measured need."""
    return build_load(bundled_librdkafka())


def build_load(library: Path | None) -> Path:
    """The C program, compiled once for these sources and this librdkafka; without one, for the system's."""
    compiler = require_tool("gcc", hint="the Debian package is gcc")
    _require_headers(compiler)
    sources, headers = sorted(_SOURCES.glob("*.c")), sorted(_SOURCES.glob("*.h"))

    def build(into: Path) -> None:
        link = ["-lrdkafka"]
        if library is not None:
            link = [str(shutil.copy(library, into)), "-Wl,-rpath,$ORIGIN"]
        try:
            run_checked([compiler, *_COMPILE, "-o", into / "load", *sources, *link, "-lpthread"])
        except RuntimeError as error:
            raise LoadError(f"the C load did not compile: {error}") from error

    return cached_build("bench-load", [*sources, *headers, *([library] if library else [])], build) / "load"


def librdkafka_version(load: Path) -> str:
    """As the library says that the program really runs with."""
    return run_checked([load, "version"]).decode().strip()


def bundled_librdkafka() -> Path | None:
    """The library inside the confluent-kafka wheel; none where that was built against the system's."""
    beside = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    found = sorted(beside.glob("librdkafka*.so*"))
    return found[0] if found else None


def _require_headers(compiler: str) -> None:
    program = b"#include <librdkafka/rdkafka.h>\n"
    tried = subprocess.run([compiler, "-E", "-"], input=program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if tried.returncode != 0:
        raise ToolMissing("librdkafka's headers are not installed (the Debian package is librdkafka-dev)")
