"""Facts about the machine and the versions, without which a figure means nothing."""

import os
import platform
import subprocess

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
        "java": _java_version(),
        "librdkafka": librdkafka_version(c_load()),
        "allocator of the load": allocator_of(c_load()),
    }


def _java_version() -> str:
    java = require_tool("java", hint="the Debian package is default-jre-headless")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return said.splitlines()[0]
