"""Apache Kafka as the oracle: the lab's target, with the project's cache and the tools that read a broker's files."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import tests.oracle.toolbox  # noqa: F401  # Says where the cache is.
from headrace.lab.targets.apache_kafka import (
    BROKER_JVM_OPTIONS,
    KAFKA_VERSION,
    NODE_ID,
    TOOL_JVM_OPTIONS,
    ApacheKafka,
    java_command,
    kafka_jars,
    run_tool,
)

__all__ = [
    "BROKER_JVM_OPTIONS",
    "KAFKA_VERSION",
    "NODE_ID",
    "TOOL_JVM_OPTIONS",
    "ApacheKafka",
    "dump_log_segments",
    "java_command",
    "kafka_jars",
    "run_tool",
]


def dump_log_segments(
    files: Sequence[Path], *, deep: bool = True, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run DumpLogSegments; `deep` looks into compressed batches too.

    It complains on either output and exits with zero all the same, so both come together in `stdout`.
    """
    command = [*java_command(), "kafka.tools.DumpLogSegments", *(["--deep-iteration"] if deep else []), *options]
    command += ["--files", ",".join(map(str, files))]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
