"""Facts about the machine and the versions, without which a figure means nothing. Nothing that names the machine."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from headrace import __version__

_PACKAGES: Final = ("confluent-kafka", "numpy", "pyarrow")


def host_facts() -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.system(),
        "kernel": platform.release(),
        "load_1m": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    import confluent_kafka

    found = {"headrace": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"librdkafka": confluent_kafka.libversion()[0]}


def cpu_model() -> str:
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        model = None
    return model[1] if model else platform.processor() or platform.machine()
