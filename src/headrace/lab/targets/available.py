"""Which targets can be had here, and how to get the rest."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace import __version__
from headrace.lab.targets.apache_kafka import KAFKA_VERSION, has_jars
from headrace.lab.targets.spec import BUILT_IN, parse_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    name: str
    what: str
    is_here: bool
    how: str  # To get it, or what it will take; where it is here, from where.


_TOOLS: Final[Mapping[str, str]] = {
    "java": "Java 17 or newer (the Debian package is default-jre-headless)",
    "mvn": "Maven (the Debian package is maven)",
}


def _kafka(name: str, brokers: int) -> Availability:
    what = f"Apache Kafka {KAFKA_VERSION}, KRaft, {brokers} broker{'s' if brokers > 1 else ''} on this machine"
    needed = [tool for tool in _TOOLS if tool != "mvn" or not has_jars()]
    missing = [_TOOLS[tool] for tool in needed if shutil.which(tool) is None]
    if missing:
        return Availability(name=name, what=what, is_here=False, how=f"install {' and '.join(missing)}")
    how = "its jars are here" if has_jars() else "its jars are fetched by Maven when it is first used, some 100 MB"
    return Availability(name=name, what=what, is_here=True, how=how)


def available() -> list[Availability]:
    found = []
    for name, given in BUILT_IN.items():
        spec = parse_target(given, name=name)
        match spec.kind:
            case "node":
                what = f"a node of Headrace {__version__} in a process of its own"
                found.append(Availability(name=name, what=what, is_here=True, how="of this very package"))
            case "null":
                what = "a sink that keeps nothing: what senders themselves can do"
                found.append(Availability(name=name, what=what, is_here=True, how="of this very package"))
            case _:
                found.append(_kafka(name, spec.brokers))
    found.append(
        Availability(
            name="HOST:PORT",
            what="a cluster that is there: any broker that speaks Kafka's protocol",
            is_here=True,
            how="for TLS or SASL a file with kind: cluster, bootstrap: HOST:PORT and client: {...}",
        )
    )
    return found
