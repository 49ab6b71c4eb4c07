"""Building the C load (`load/`), and which librdkafka and which allocator it runs with.

The headers are the system's, whose librdkafka may be years old; the library is the one that the confluent-kafka
wheel brings, where it brings one: the newest, and the one that users of this environment run. librdkafka only ever
adds to its interface, so older headers are good for a newer library. The library is copied beside the program: a
build stays whole when the environment it came from is gone.

librdkafka makes each message in a thread of its own and leaves it to the reader's to free. Of glibc's allocator both
then want the same lock, and a broker that answers faster only makes them meet more often: the row tells of the
load, not of the broker. jemalloc, where the machine has it, has no such lock.
"""

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Final

import confluent_kafka

from headrace.lab.errors import LabError
from tests.oracle.toolbox import ToolMissing, cached_build, require_tool, run_checked

_SOURCES: Final = Path(__file__).with_name("load")
_COMPILE: Final = "-std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wpedantic -Werror".split()


@functools.cache
def c_load() -> Path:
    """The program that every row runs; looked for once, since to do so takes CPU that the measured need."""
    return build_load(bundled_librdkafka(), jemalloc())


def build_load(library: Path | None, allocator: Path | None) -> Path:
    """The C program, compiled once for these sources and libraries; without one, for the system's."""
    compiler = require_tool("gcc", hint="the Debian package is gcc")
    _require_headers(compiler)
    sources, headers = sorted(_SOURCES.glob("*.c")), sorted(_SOURCES.glob("*.h"))

    def build(into: Path) -> None:
        link = ["-lrdkafka"]
        if library is not None:
            link = [str(shutil.copy(library, into)), "-Wl,-rpath,$ORIGIN"]
        if allocator is not None:
            link.append(str(allocator))
        try:
            run_checked([compiler, *_COMPILE, "-o", into / "load", *sources, *link, "-lpthread"])
        except RuntimeError as error:
            raise LabError(f"the C load did not compile: {error}") from error

    libraries = [found for found in (library, allocator) if found is not None]
    return cached_build("bench-load", [*sources, *headers, *libraries], build) / "load"


def librdkafka_version(load: Path) -> str:
    """As the library says that the program really runs with."""
    return run_checked([load, "version"]).decode().strip()


def allocator_of(load: Path) -> str:
    """As the program says."""
    return run_checked([load, "allocator"]).decode().strip()


def jemalloc() -> Path | None:
    """The system's, if it has one (the Debian package is libjemalloc2)."""
    compiler = require_tool("gcc", hint="the Debian package is gcc")
    name = "libjemalloc.so.2"
    found = run_checked([compiler, f"-print-file-name={name}"]).decode().strip()
    return None if found == name else Path(found)  # What is not found is printed as it was asked.


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
