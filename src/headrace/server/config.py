"""A node's configuration from where people keep it: defaults, a file, `-o` words and flags, the later winning.

The file is Java properties, as Kafka's `server.properties` is. Flags are short spellings of settings, and become
them here: from then on nobody can tell who said what. Reads that one file and nothing else; which settings there
are, and what is legal for each, is `headrace.node.configs`'s to know.
"""

import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Final, NamedTuple

from headrace.errors import ConfigError
from headrace.node.configs import BrokerConfig
from headrace.properties import read_properties
from headrace.server.options import HostPort, ServeOptions, parse_host_port

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*)")
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_NAME: Final = "PLAINTEXT"
_WILDCARDS: Final = ("0.0.0.0", "::")


class ListenerConfig(NamedTuple):
    """Where clients of one kind connect, and what they are told to connect to."""

    name: str
    listen: HostPort
    advertise: HostPort | None  # None: where it really listens. Port 0: the port that it really has.


class ServerConfig(NamedTuple):
    broker: BrokerConfig
    listeners: tuple[ListenerConfig, ...]
    data: Path
    http: HostPort | None
    connections_per_address: Mapping[str, int]  # Where they differ from max.connections.per.ip.


def load_config(options: ServeOptions) -> ServerConfig:
    """All that was said, merged and checked; ConfigError where it cannot be used."""
    texts = {} if options.config_file is None else read_properties(options.config_file)
    texts.update(options.overrides)
    _apply_flags(options, texts)
    broker = BrokerConfig.resolve(texts)
    controllers = {name.upper() for name in _split(texts.get("controller.listener.names", ""))}
    return ServerConfig(
        broker=broker,
        listeners=parse_listeners(broker, left_out=controllers),
        data=_data_directory(broker),
        http=None if broker.http_listen is None else _host_port("http.listen", broker.http_listen),
        connections_per_address=parse_connection_limits(broker.max_connections_per_ip_overrides),
    )


def _apply_flags(options: ServeOptions, texts: dict[str, str]) -> None:
    if options.listen is not None:
        texts["listeners"] = f"{_DEFAULT_NAME}://{options.listen}"
        texts.pop("advertised.listeners", None)  # It belonged to the listeners that are gone.
    if options.advertise is not None:
        listeners = _split(texts.get("listeners") or _DEFAULT_NAME)
        if len(listeners) > 1:
            raise ConfigError("--advertise names one address; with several listeners set advertised.listeners")
        texts["advertised.listeners"] = f"{listeners[0].partition('://')[0]}://{options.advertise}"
    if options.data is not None:
        texts["log.dirs"] = str(options.data)
    if options.http is not None:
        texts["http.listen"] = str(options.http)


# --- Listeners ------------------------------------------------------------------------------------------------


def parse_listeners(broker: BrokerConfig, *, left_out: Set[str]) -> tuple[ListenerConfig, ...]:
    """The listeners to open. `left_out` are those of a Kafka controller, which this node does not have."""
    protocols = _parse_protocols(broker.listener_security_protocol_map)
    advertised = dict(_parse_addresses("advertised.listeners", broker.advertised_listeners or ""))
    listeners = []
    for name, listen in _parse_addresses("listeners", broker.listeners):
        if name in left_out:
            advertised.pop(name, None)
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"No security protocol defined for listener {name}")
        if protocol != "PLAINTEXT":
            raise ConfigError(f"listener {name} is {protocol}, and only PLAINTEXT is served yet")
        listeners.append(ListenerConfig(name, listen, advertised.pop(name, None)))
    if not listeners:
        raise ConfigError("listeners names no place for clients to connect to")
    if advertised:
        raise ConfigError(f"advertised.listeners has {', '.join(advertised)}, which is not in listeners")
    _refuse_shared_ports(listeners)
    return tuple(listeners)


def _parse_addresses(setting: str, text: str) -> Iterator[tuple[str, HostPort]]:
    seen = set()
    for item in _split(text):
        match = _LISTENER.fullmatch(item)
        if match is None:
            raise ConfigError(f"{setting}: {item!r} is not NAME://HOST:PORT")
        name = match[1].upper()  # As in Kafka, names are the same in any case.
        if name in seen:
            raise ConfigError(f"Each listener must have a different name, {setting}: {text}")
        seen.add(name)
        address = _host_port(setting, match[2])
        if setting == "advertised.listeners" and address.host in ("", *_WILDCARDS):
            raise ConfigError(f"advertised.listeners: clients cannot connect to {item}; name an address they can reach")
        yield name, address


def _parse_protocols(text: str) -> dict[str, str]:
    protocols = {}
    for item in _split(text):
        name, colon, protocol = item.partition(":")
        if not colon or protocol.upper() not in _SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {item!r} is not NAME:PROTOCOL, "
                f"with one of {', '.join(_SECURITY_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def _refuse_shared_ports(listeners: list[ListenerConfig]) -> None:
    """Two may share a port only on two addresses; the kernel would refuse them later, in harder words."""
    taken: dict[int, list[ListenerConfig]] = {}
    for listener in listeners:
        for other in taken.get(listener.listen.port, []) if listener.listen.port else []:
            hosts = {listener.listen.host, other.listen.host}
            if len(hosts) == 1 or hosts & {"", *_WILDCARDS}:
                raise ConfigError(
                    f"Each listener must have a different port, but {other.name} and {listener.name} "
                    f"share {listener.listen.port}"
                )
        taken.setdefault(listener.listen.port, []).append(listener)


# --- Other settings that have a language of their own ---------------------------------------------------------


def _data_directory(broker: BrokerConfig) -> Path:
    directories = _split(broker.log_dirs or broker.log_dir)
    if len(directories) != 1:
        raise ConfigError(f"log.dirs has {len(directories)} directories; a node keeps its logs in one")
    return Path(directories[0])


def parse_connection_limits(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: ADDRESS:COUNT, with commas between."""
    limits = {}
    for item in _split(text):
        address, colon, count = item.rpartition(":")
        if not colon or not address or not (count.strip().isascii() and count.strip().isdecimal()):
            raise ConfigError(f"max.connections.per.ip.overrides: {item!r} is not ADDRESS:COUNT")
        limits[address.strip().removeprefix("[").removesuffix("]")] = int(count)
    return limits


def _host_port(setting: str, text: str) -> HostPort:
    try:
        return parse_host_port(text)
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from error


def _split(text: str) -> list[str]:
    return [item for item in map(str.strip, text.split(",")) if item]
