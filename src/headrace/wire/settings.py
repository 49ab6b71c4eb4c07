"""What a client is told about a cluster: where it is, who we are there, and how patient to be.

`client_settings` makes a `ClientSettings` of whatever people have: librdkafka's names, Java's, or a properties file
such as Kafka's own tools take. Whoever holds one knows that it can be used. Times are in seconds from here on.

A setting that this client does not have is named in `not_in_force` and otherwise ignored: people share one file among
programs. Two kinds are errors instead, since ignoring them would be worse: one of security that nobody knows, and a
name that is nearly one of ours.
"""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from headrace.errors import ConfigError
from headrace.properties import read_properties
from headrace.wire.dialects import translate_java

DEFAULT_PORT: Final = 9092
TLS_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_TLS_PROTOCOLS_OLD: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")  # Known in Java, and not spoken here.

Config: TypeAlias = Mapping[str, Any] | str | os.PathLike[str] | None


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SecurityProtocol(Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class Mechanism(Enum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Whom to trust, and the certificate to show. Paths and PEM texts; nothing is read before it is needed."""

    ca_path: str | None = None  # A file or a directory; without it and `ca_pem`, whom the system trusts.
    ca_pem: str | None = None
    crl_path: str | None = None
    certificate_path: str | None = None
    certificate_pem: str | None = None
    key_path: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    ciphers: str | None = None
    protocols: tuple[str, ...] = TLS_PROTOCOLS  # Some of these, in their order.
    verifies: bool = True
    checks_host: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    mechanism: Mechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    bootstrap_answered: bool = False  # To somebody before: then these addresses are right, and worth waiting for.
    client_id: str = "headrace"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    connect_timeout_s: float = 10.0  # For TCP, TLS, ApiVersions and SASL together.
    request_timeout_s: float = 30.0  # For one answer.
    api_timeout_s: float = 60.0  # For what a caller asked for, with all the tries that it takes.
    delivery_timeout_s: float = 120.0  # For what is written, likewise.
    retry_backoff_s: float = 0.1
    retry_backoff_s_max: float = 1.0
    metadata_age_s_max: float = 300.0
    answer_bytes_max: int = 128 << 20
    not_in_force: tuple[str, ...] = ()  # Names of settings that were given and mean nothing here.


def client_settings(bootstrap: str | Sequence[str] | None = None, config: Config = None) -> ClientSettings:
    """From an address, and from settings in either dialect or the path of a properties file. The address wins."""
    given, objects = _read(config)
    # Java's alone, so that the translation to librdkafka's names would leave them out.
    own: dict[str, str] = {name: given.pop(name) for name in _JAVAS_AND_OURS if name in given}
    settings, left_out = translate_java(given)
    settings |= own
    servers = bootstrap if bootstrap is not None else settings.pop("bootstrap.servers", None)
    if servers is None:
        raise ConfigError("bootstrap.servers is not set: where is the cluster?")
    settings.pop("bootstrap.servers", None)
    taken: dict[str, Any] = {"bootstrap": parse_bootstrap(servers)}
    for name, setting in _PLAIN.items():
        if name in settings:
            taken[setting.field] = setting.parse(name, settings.pop(name))
    protocol = _choice(SecurityProtocol, "security.protocol", settings.pop("security.protocol", "PLAINTEXT"))
    if protocol.has_tls:
        taken["tls"] = _take_tls(settings)
    if protocol.has_sasl:
        taken["sasl"] = _take_sasl(settings)
    _refuse_misspelt(settings)
    return ClientSettings(**taken, not_in_force=tuple(sorted([*objects, *left_out, *settings])))


def librdkafka_config(bootstrap: str | Sequence[str] | None = None, config: Config = None) -> dict[str, Any]:
    """The same for librdkafka, which judges the values itself. Settings that only Java knows are left out."""
    return librdkafka_settings(bootstrap, config)[0]


def librdkafka_settings(
    bootstrap: str | Sequence[str] | None = None, config: Config = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same, and the names of those that were left out: they are not in force."""
    given, objects = _read(config)
    settings, left_out = translate_java(given)
    made: dict[str, Any] = {**settings, **objects}
    if bootstrap is not None:
        made["bootstrap.servers"] = ",".join(map(str, parse_bootstrap(bootstrap)))
    if "bootstrap.servers" not in made:
        raise ConfigError("bootstrap.servers is not set: where is the cluster?")
    return made, tuple(sorted(left_out))


def parse_bootstrap(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """`host:port,host:port`, as one text or several; IPv6 in brackets."""
    words = servers.split(",") if isinstance(servers, str) else [word for text in servers for word in text.split(",")]
    addresses = tuple(_parse_address(word.strip()) for word in words if word.strip())
    if not addresses:
        raise ConfigError("bootstrap.servers names no broker")
    return addresses


def _parse_address(word: str) -> Address:
    place = word.rpartition("://")[2]  # Some copy a listener, with its name in front.
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers: {word!r} is not HOST:PORT")
    return Address(host, int(port))


def _read(config: Config) -> tuple[dict[str, str], dict[str, Any]]:
    """Settings as texts; and those that cannot be one, such as a callback of librdkafka's."""
    if config is None:
        return {}, {}
    if not isinstance(config, Mapping):
        return read_properties(Path(config)), {}
    texts: dict[str, str] = {}
    objects: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            texts[name] = str(value)
        elif value is not None:
            objects[name] = value
    return texts, objects


# --- One setting ----------------------------------------------------------------------------------------------


class _Setting(NamedTuple):
    field: str
    parse: Callable[[str, str], Any]


def _text(name: str, text: str) -> str:
    return text


def _number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"{name}={text} is not a number from 0 on")
    return number


def _seconds(name: str, text: str) -> float:
    return _number(name, text) / 1000


def _flag(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ConfigError(f"{name}={text} is neither true nor false")
    return text.lower() == "true"


def _identification(name: str, text: str) -> bool:
    if text.lower() not in {"https", "none", ""}:
        raise ConfigError(f"{name}={text} is neither https nor none")
    return text.lower() == "https"


def _protocols(name: str, text: str) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in (*TLS_PROTOCOLS, *_TLS_PROTOCOLS_OLD):
            raise ConfigError(f"{name}={text}: {word} is none of {', '.join(TLS_PROTOCOLS)}")
    enabled = tuple(protocol for protocol in TLS_PROTOCOLS if protocol in words)
    if not enabled:
        raise ConfigError(f"{name}={text} enables nothing that is spoken here: {', '.join(TLS_PROTOCOLS)}")
    return enabled


def _choice(kind: Any, name: str, text: str) -> Any:
    try:
        return kind(text.upper())
    except ValueError:
        raise ConfigError(f"{name}={text} is none of {', '.join(one.value for one in kind)}") from None


# In librdkafka's names, where the dialects differ; of two with one meaning the later counts.
_PLAIN: Final = {
    "client.id": _Setting("client_id", _text),
    "socket.connection.setup.timeout.ms": _Setting("connect_timeout_s", _seconds),
    "socket.timeout.ms": _Setting("request_timeout_s", _seconds),
    "default.api.timeout.ms": _Setting("api_timeout_s", _seconds),
    "message.timeout.ms": _Setting("delivery_timeout_s", _seconds),
    "delivery.timeout.ms": _Setting("delivery_timeout_s", _seconds),
    "retry.backoff.ms": _Setting("retry_backoff_s", _seconds),
    "retry.backoff.max.ms": _Setting("retry_backoff_s_max", _seconds),
    "metadata.max.age.ms": _Setting("metadata_age_s_max", _seconds),
    "receive.message.max.bytes": _Setting("answer_bytes_max", _number),
}
_TLS: Final = {
    "ssl.ca.location": _Setting("ca_path", _text),
    "ssl.ca.pem": _Setting("ca_pem", _text),
    "ssl.crl.location": _Setting("crl_path", _text),
    "ssl.certificate.location": _Setting("certificate_path", _text),
    "ssl.certificate.pem": _Setting("certificate_pem", _text),
    "ssl.key.location": _Setting("key_path", _text),
    "ssl.key.pem": _Setting("key_pem", _text),
    "ssl.key.password": _Setting("key_password", _text),
    "ssl.cipher.suites": _Setting("ciphers", _text),
    "ssl.enabled.protocols": _Setting("protocols", _protocols),
    "enable.ssl.certificate.verification": _Setting("verifies", _flag),
    "ssl.endpoint.identification.algorithm": _Setting("checks_host", _identification),
}
_JAVAS_AND_OURS: Final = ("default.api.timeout.ms", "ssl.enabled.protocols")
_SASL: Final = ("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")


# --- Security -------------------------------------------------------------------------------------------------


def _take_tls(settings: dict[str, str]) -> TlsSettings:
    if "ssl.keystore.location" in settings:
        path = settings["ssl.keystore.location"]
        raise ConfigError(
            f"ssl.keystore.location={path}: PKCS12 cannot be read here. Convert it to PEM "
            f"(openssl pkcs12 -in {path} -out client.pem -nodes) and set ssl.certificate.location=client.pem"
        )
    taken = {
        setting.field: setting.parse(name, settings.pop(name)) for name, setting in _TLS.items() if name in settings
    }
    if taken.get("ca_path") == "probe":  # librdkafka's word for finding out where the system keeps its own.
        del taken["ca_path"]
    return TlsSettings(**taken)


def _take_sasl(settings: dict[str, str]) -> SaslSettings:
    taken = {name: settings.pop(name) for name in _SASL if name in settings}
    text = taken.get("sasl.mechanism", taken.get("sasl.mechanisms"))
    if text is None:
        raise ConfigError("security.protocol wants SASL, and sasl.mechanism is not set")
    mechanism = _choice(Mechanism, "sasl.mechanism", text)
    if not taken.get("sasl.username") or "sasl.password" not in taken:
        raise ConfigError(f"{mechanism.value} wants sasl.username and sasl.password, or sasl.jaas.config")
    return SaslSettings(mechanism=mechanism, username=taken["sasl.username"], password=taken["sasl.password"])


# Of mechanisms that we do not have, of Java's machinery and of OpenSSL's: without them everything is as secure.
_HARMLESS: Final = (
    *("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "sasl.aws.", "ssl.engine.", "ssl.keystore."),
    *("ssl.curves.list", "ssl.sigalgs.list", "ssl.providers", "ssl.ca.certificate.stores", "security.providers"),
    *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
)


def _is_security(name: str) -> bool:
    return name.startswith(("sasl.", "ssl.", "security.", "enable.ssl."))


def _refuse_misspelt(left: Mapping[str, str]) -> None:
    known = ["bootstrap.servers", "security.protocol", "sasl.jaas.config", "request.timeout.ms", *_PLAIN, *_TLS, *_SASL]
    for name in left:
        if name in known or name.startswith(_HARMLESS):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        if near:
            raise ConfigError(f"there is no setting {name}: is {near[0]} meant?")
        if _is_security(name):
            raise ConfigError(f"{name} is not supported here, and to ignore it would not be safe")
