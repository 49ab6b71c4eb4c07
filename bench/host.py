"""Facts about the machine and the versions, without which a figure means nothing."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from bench.load_program import allocator_of, c_load, librdkafka_version
from headrace.lab.facts import cpu_model
from tests.oracle.toolbox import require_tool


def host_facts() -> dict[str, str | int]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 0,
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10**6,
        "kernel": platform.release(),
        "python": platform.python_version(),
        **load_facts(),
    }


def load_facts() -> dict[str, str | int]:
    """What loads run with, beside what the lab knows of a machine."""
    return {
        "java": _java_version(),
        "librdkafka": librdkafka_version(c_load()),
        "allocator of the load": allocator_of(c_load()),
    }


def headrace_version() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    commit = f" ({described.stdout.strip()})" if described.returncode == 0 else ""
    return importlib.metadata.version("headrace") + commit


def _java_version() -> str:
    java = require_tool("java", hint="the Debian package is default-jre-headless")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return said.splitlines()[0]
