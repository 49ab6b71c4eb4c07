"""What the scripts of the perf tests have in common: where settings come from, and a cluster reached with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import COMMON, Flag, Misused, Takes, Words
from headrace.cli.output import note
from headrace.lab.perf.properties import ClientProperties

BROKER_LIST: Final = Flag("broker-list", Takes.VALUE, "The same as --bootstrap-server, in older scripts.")
PRINT_METRICS: Final = Flag("print-metrics", help="At the end, what librdkafka counted, under the Java clients' names.")
_TIMEOUT_S: Final = 30.0


def with_bootstrap_help(text: str) -> tuple[Flag, ...]:
    """The common flags, with another word about where the cluster is."""
    return tuple(flag._replace(help=text) if flag.name == "bootstrap-server" else flag for flag in COMMON)


def java_settings(words: Words, *, files: Sequence[str], pairs: Sequence[str]) -> dict[str, str]:
    """A file's, then those on the command line, then the address: the later wins."""
    settings: dict[str, str] = {}
    if (file := words.at_most_one(*files)) is not None:
        from headrace.properties import read_properties

        settings |= read_properties(Path(words.required(file)))
    for flag in pairs:
        settings |= words.pairs(flag)
    if (address := words.at_most_one("bootstrap-server", "broker-list")) is not None:
        settings["bootstrap.servers"] = words.required(address)
    if "bootstrap.servers" not in settings:
        raise Misused("--bootstrap-server is missing, and no bootstrap.servers is among the settings")
    return settings


def cluster_with(properties: ClientProperties, more: Mapping[str, str] | None = None) -> Connection:
    if properties.without_effect:
        note(f"without effect here: {', '.join(properties.without_effect)}")
    return Connection({**properties.librdkafka, **(more or {})}, _TIMEOUT_S)


def print_line(line: str) -> None:
    """At once: somebody may be waiting for it behind a pipe."""
    print(line, flush=True)
