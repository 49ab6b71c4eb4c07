"""kafka-configs: show and change settings of topics and brokers.

librdkafka knows no quotas, and reaches a broker's settings only through that broker: clients, users, addresses
and defaults for all brokers are refused by name.
"""

import re
from pathlib import Path
from typing import Any, Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of
from headrace.cli.output import CommandError
from headrace.cli.topic_facts import answer_about

_NO_QUOTAS: Final = "librdkafka has no quotas"
_NO_DEFAULTS: Final = "librdkafka reaches only one broker's settings, not those for all"
# Between pairs of --add-config, but not inside the brackets that hold a value with commas.
_COMMA: Final = re.compile(r",(?=[^\]]*(?:\[|$))")

FLAGS: Final = (
    Flag("describe", help="Show settings."),
    Flag("alter", help="Change settings."),
    Flag("all", help="With --describe, those that nobody has set as well."),
    Flag("entity-type", Takes.VALUE, "topics or brokers."),
    Flag("entity-name", Takes.VALUE, "The topic's name or the broker's number."),
    Flag("entity-default", refused=_NO_DEFAULTS),
    Flag("add-config", Takes.VALUE, "Settings to set: k1=v1,k2=[v1,v2],k3=v3."),
    Flag("add-config-file", Takes.VALUE, "A properties file of settings to set."),
    Flag("delete-config", Takes.VALUE, "Settings to unset: k1,k2."),
    Flag("force", ignored="nothing is ever asked"),
    Flag("topic", Takes.VALUE, "A topic: short for --entity-type topics --entity-name."),
    Flag("broker", Takes.VALUE, "A broker: short for --entity-type brokers --entity-name."),
    Flag("broker-defaults", refused=_NO_DEFAULTS),
    Flag("broker-logger", Takes.VALUE, refused="librdkafka does not reach a broker's log levels"),
    Flag("client", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("client-defaults", refused=_NO_QUOTAS),
    Flag("user", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("user-defaults", refused=_NO_QUOTAS),
    Flag("ip", Takes.VALUE, refused=_NO_QUOTAS),
    Flag("ip-defaults", refused=_NO_QUOTAS),
    Flag("client-metrics", Takes.VALUE, refused="librdkafka has no settings for metrics of clients"),
    Flag("group", Takes.VALUE, refused="groups of the classic protocol have no settings"),
    Flag("bootstrap-controller", Takes.VALUE, refused="ask a broker with --bootstrap-server"),
)
_DYNAMIC: Final = {"topics": "DYNAMIC_TOPIC_CONFIG", "brokers": "DYNAMIC_BROKER_CONFIG"}


def run(words: Words) -> None:
    action = words.only("describe", "alter")
    kind, name = _entity(words)
    if action == "describe":
        if any(flag in words for flag in ("add-config", "add-config-file", "delete-config")):
            raise Misused("--describe changes nothing: --add-config and --delete-config go with --alter")
        describe(cluster_of(words), kind, name, is_all="all" in words)
    else:
        if name is None:
            raise Misused("--alter needs --entity-name")
        added, deleted = _changes(words)
        if not added and not deleted:
            raise Misused("--alter needs --add-config, --add-config-file or --delete-config")
        alter(cluster_of(words), kind, name, added=added, deleted=deleted)


def describe(cluster: Connection, kind: str, name: str | None, *, is_all: bool) -> None:
    for one in [name] if name is not None else _names(cluster, kind):
        print(f"{'All' if is_all else 'Dynamic'} configs for {kind.removesuffix('s')} {one} are:")
        for entry in _entries(cluster, kind, one, is_all=is_all):
            print(entry_line(entry))


def alter(cluster: Connection, kind: str, name: str, *, added: dict[str, str], deleted: list[str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    own = {entry.name for entry in _entries(cluster, kind, name, is_all=False)}
    if strange := [key for key in deleted if key not in own]:
        raise CommandError(f"Invalid config(s): {','.join(strange)}")
    changes = [
        *(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in added.items()),
        *(ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in deleted),
    ]
    resource = ConfigResource(_resource_type(kind), name, incremental_configs=changes)
    for future in cluster.admin().incremental_alter_configs([resource], request_timeout=cluster.timeout_s).values():
        answer_about(name, future)
    print(f"Completed updating config for {kind.removesuffix('s')} {name}.")


def entry_line(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource

    synonyms = ", ".join(
        f"{ConfigSource(one.source).name}:{one.name}={_value_text(one.value)}" for one in entry.synonyms.values()
    )
    is_sensitive = str(bool(entry.is_sensitive)).lower()
    return f"  {entry.name}={_value_text(entry.value)} sensitive={is_sensitive} synonyms={{{synonyms}}}"


def _value_text(value: str | None) -> str:
    return "null" if value is None else value


def _entries(cluster: Connection, kind: str, name: str, *, is_all: bool) -> list[Any]:
    from confluent_kafka.admin import ConfigResource, ConfigSource

    asked = [ConfigResource(_resource_type(kind), name)]
    (future,) = cluster.admin().describe_configs(asked, request_timeout=cluster.timeout_s).values()
    entries = sorted(answer_about(name, future).values(), key=lambda entry: str(entry.name))
    return [entry for entry in entries if is_all or ConfigSource(entry.source).name == _DYNAMIC[kind]]


def _resource_type(kind: str) -> Any:
    from confluent_kafka.admin import ResourceType

    return {"topics": ResourceType.TOPIC, "brokers": ResourceType.BROKER}[kind]


def _names(cluster: Connection, kind: str) -> list[str]:
    metadata = cluster.cluster_metadata(cluster.admin())
    return sorted(metadata.topics) if kind == "topics" else [str(number) for number in sorted(metadata.brokers)]


def _entity(words: Words) -> tuple[str, str | None]:
    short = words.at_most_one("topic", "broker")
    if short is not None:
        if "entity-type" in words or "entity-name" in words:
            raise Misused(f"--{short} already says what --entity-type and --entity-name do")
        kind, name = f"{short}s", words.one(short)
    else:
        kind, name = words.required("entity-type"), words.one("entity-name")
    if kind not in _DYNAMIC:
        raise Misused(f"--entity-type {kind} is not supported here, only {' and '.join(_DYNAMIC)}")
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
