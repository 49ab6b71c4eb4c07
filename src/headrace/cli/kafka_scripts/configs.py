"""kafka-configs: show and change settings of topics and brokers.

Brokers are asked in their own words: librdkafka reaches no defaults for all of them, and keeps one synonym of each
name. Quotas, of clients, users and addresses, are not known here and refused by name.
"""

import re
from pathlib import Path
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of
from headrace.cli.output import CommandError
from headrace.errors import ErrorCode
from headrace.protocol.messages.alter_configs import INCREMENTAL_API
from headrace.protocol.messages.describe_configs import API as DESCRIBE_API
from headrace.protocol.schema import Value
from headrace.wire.settings import Address

_NO_QUOTAS: Final = "quotas are not known here"
# Between pairs of --add-config, but not inside the brackets that hold a value with commas.
_COMMA: Final = re.compile(r",(?=[^\]]*(?:\[|$))")

FLAGS: Final = (
    Flag("describe", help="Show settings."),
    Flag("alter", help="Change settings."),
    Flag("all", help="With --describe, those that nobody has set as well."),
    Flag("entity-type", Takes.VALUE, "topics or brokers."),
    Flag("entity-name", Takes.VALUE, "The topic's name or the broker's number."),
    Flag("entity-default", help="With --entity-type brokers, what holds for all of them."),
    Flag("add-config", Takes.VALUE, "Settings to set: k1=v1,k2=[v1,v2],k3=v3."),
    Flag("add-config-file", Takes.VALUE, "A properties file of settings to set."),
    Flag("delete-config", Takes.VALUE, "Settings to unset: k1,k2."),
    Flag("force", ignored="nothing is ever asked"),
    Flag("topic", Takes.VALUE, "A topic: short for --entity-type topics --entity-name."),
    Flag("broker", Takes.VALUE, "A broker: short for --entity-type brokers --entity-name."),
    Flag("broker-defaults", help="What holds for all brokers: short for --entity-type brokers --entity-default."),
    Flag("broker-logger", Takes.VALUE, refused="a broker's log levels are not known here"),
    Flag("client", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("client-defaults", refused=_NO_QUOTAS),
    Flag("user", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("user-defaults", refused=_NO_QUOTAS),
    Flag("ip", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("ip-defaults", refused=_NO_QUOTAS),
    Flag("client-metrics", Takes.VALUE, refused="metrics of clients are not known here"),
    Flag("group", Takes.VALUE, refused="groups of the classic protocol have no settings"),
    Flag("bootstrap-controller", Takes.VALUE, refused="ask a broker with --bootstrap-server"),
)
# Kafka's numbers, and the words that its tool has for them.
_RESOURCE_TYPES: Final = {"topics": 2, "brokers": 4}
_OF_TOPIC: Final = 1
_OF_BROKER: Final = 2
_OF_ALL_BROKERS: Final = 3
_SOURCES: Final = {
    _OF_TOPIC: "DYNAMIC_TOPIC_CONFIG",
    _OF_BROKER: "DYNAMIC_BROKER_CONFIG",
    _OF_ALL_BROKERS: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
_DEFAULTS: Final = ""  # The name of what holds for all brokers.
_SET: Final = 0
_DELETE: Final = 1


def run(words: Words) -> None:
    action = words.only("describe", "alter")
    kind, name = _entity(words)
    if action == "describe":
        if any(flag in words for flag in ("add-config", "add-config-file", "delete-config")):
            raise Misused("--describe changes nothing: --add-config and --delete-config go with --alter")
        describe(cluster_of(words), kind, name, is_all="all" in words)
    else:
        if name is None:
            raise Misused("--alter needs --entity-name or --entity-default")
        added, deleted = _changes(words)
        if not added and not deleted:
            raise Misused("--alter needs --add-config, --add-config-file or --delete-config")
        alter(cluster_of(words), kind, name, added=added, deleted=deleted)


def describe(cluster: Connection, kind: str, name: str | None, *, is_all: bool) -> None:
    names = [name] if name is not None else _names(cluster, kind)
    for one, entries in _entries(cluster, kind, names, is_all=is_all).items():
        if one == _DEFAULTS:
            print(f"Default configs for {kind} in the cluster are:")
        else:
            print(f"{'All' if is_all else 'Dynamic'} configs for {kind.removesuffix('s')} {one} are:")
        for entry in entries:
            print(entry_line(entry))


def alter(cluster: Connection, kind: str, name: str, *, added: dict[str, str], deleted: list[str]) -> None:
    own = {entry["name"] for entry in _entries(cluster, kind, [name], is_all=False)[name]}
    if strange := [key for key in deleted if key not in own]:
        raise CommandError(f"Invalid config(s): {','.join(strange)}")
    changes = [
        *({"name": key, "config_operation": _SET, "value": value} for key, value in added.items()),
        *({"name": key, "config_operation": _DELETE, "value": None} for key in deleted),
    ]
    resource = {"resource_type": _RESOURCE_TYPES[kind], "resource_name": name, "configs": changes}
    body = {"resources": [resource], "validate_only": False}
    (response,) = cluster.ask_one_of(_tellers(cluster, kind, name), INCREMENTAL_API, body)["responses"]
    _check(response)
    if name == _DEFAULTS:
        print(f"Completed updating default config for {kind} in the cluster.")
    else:
        print(f"Completed updating config for {kind.removesuffix('s')} {name}.")


def entry_line(entry: Value) -> str:
    synonyms = ", ".join(
        f"{_SOURCES.get(one['source'], 'UNKNOWN')}:{one['name']}={_value_text(one['value'])}"
        for one in entry["synonyms"]
    )
    is_sensitive = str(entry["is_sensitive"]).lower()
    return f"  {entry['name']}={_value_text(entry['value'])} sensitive={is_sensitive} synonyms={{{synonyms}}}"


def _value_text(value: str | None) -> str:
    return "null" if value is None else value


def _entries(cluster: Connection, kind: str, names: list[str], *, is_all: bool) -> dict[str, list[Value]]:
    """By name. Those that somebody has set for just that, or all."""
    asked: dict[tuple[Address, ...], list[str]] = {}
    for name in names:
        asked.setdefault(_tellers(cluster, kind, name), []).append(name)
    found: dict[str, list[Value]] = {}
    for addresses, some in asked.items():
        resources = [
            {"resource_type": _RESOURCE_TYPES[kind], "resource_name": name, "configuration_keys": None} for name in some
        ]
        body = {"resources": resources, "include_synonyms": True, "include_documentation": False}
        for result in cluster.ask_one_of(addresses, DESCRIBE_API, body)["results"]:
            _check(result)
            found[result["resource_name"]] = sorted(result["configs"], key=lambda entry: str(entry["name"]))
    return {
        name: [entry for entry in found[name] if is_all or entry["config_source"] == _own_source(kind, name)]
        for name in names
    }


def _own_source(kind: str, name: str) -> int:
    return _OF_TOPIC if kind == "topics" else _OF_ALL_BROKERS if name == _DEFAULTS else _OF_BROKER


def _check(answer: Value) -> None:
    code = ErrorCode(answer["error_code"])
    if code is not ErrorCode.NONE:
        name = answer["resource_name"]
        raise CommandError(": ".join(text for text in (name, answer["error_message"], code.name) if text))


def _tellers(cluster: Connection, kind: str, name: str) -> tuple[Address, ...]:
    """A broker tells of itself; any tells of topics, and of what holds for all."""
    is_one = kind == "brokers" and name != _DEFAULTS
    found = tuple(
        Address(str(broker.host), broker.port)
        for broker in cluster.cluster_metadata(cluster.admin()).brokers.values()
        if not is_one or broker.id == int(name)
    )
    if not found:
        raise CommandError(f"The broker '{name}' doesn't exist and doesn't have dynamic config.")
    return found


def _names(cluster: Connection, kind: str) -> list[str]:
    metadata = cluster.cluster_metadata(cluster.admin())
    return sorted(metadata.topics) if kind == "topics" else [*map(str, sorted(metadata.brokers)), _DEFAULTS]


def _entity(words: Words) -> tuple[str, str | None]:
    short = words.at_most_one("topic", "broker", "broker-defaults")
    if short is not None:
        if any(flag in words for flag in ("entity-type", "entity-name", "entity-default")):
            raise Misused(f"--{short} already says what --entity-type, --entity-name and --entity-default do")
        if short == "broker-defaults":
            return "brokers", _DEFAULTS
        kind, name = f"{short}s", words.one(short)
    else:
        kind, name = words.required("entity-type"), words.one("entity-name")
    if kind not in _RESOURCE_TYPES:
        raise Misused(f"--entity-type {kind} is not supported here, only {' and '.join(_RESOURCE_TYPES)}")
    if "entity-default" in words:
        if kind != "brokers" or name is not None:
            raise Misused("--entity-default goes with --entity-type brokers, and in place of --entity-name")
        return kind, _DEFAULTS
    if kind == "brokers" and name is not None and not name.isdecimal():
        raise Misused(f"The entity name for brokers must be a valid integer broker id, but it is: {name}")
    return kind, name


def _changes(words: Words) -> tuple[dict[str, str], list[str]]:
    from headrace.properties import read_properties

    file = words.one("add-config-file")
    added = {} if file is None else dict(read_properties(Path(file)))
    for text in words.all("add-config"):
        added |= parse_added(text)
    deleted = [key.strip() for text in words.all("delete-config") for key in text.split(",") if key.strip()]
    return added, deleted


def parse_added(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]` as settings; brackets hold together a value that has commas."""
    settings = {}
    for pair in _COMMA.split(text):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise Misused('Invalid entity config: all configs to be added must be in the format "key=val".')
        settings[key.strip()] = re.sub(r"[\[\]]", "", value).strip()
    return settings


SCRIPT: Final = Script("kafka-configs", "show and change settings of topics and brokers", FLAGS, run)
