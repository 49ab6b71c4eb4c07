"""What a client is told about a cluster: where it is, who we are there, and how patient to be.

`client_settings` makes a `ClientSettings` of whatever people have: librdkafka's names, Java's, or a properties file
such as Kafka's own tools take. Whoever holds one knows that it can be used. Times are in seconds from here on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from headrace.errors import ConfigError

DEFAULT_PORT: Final = 9092


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
    def tls(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = "headrace"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    connect_timeout_s: float = 10.0  # For TCP, TLS, ApiVersions and SASL together.
    request_timeout_s: float = 30.0  # For one answer.
    api_timeout_s: float = 60.0  # For what a caller asked for, tries over and over included.
    delivery_timeout_s: float = 120.0
    retry_backoff_s: float = 0.1
    retry_backoff_s_max: float = 1.0
    metadata_age_s_max: float = 300.0
    answer_bytes_max: int = 128 << 20


def parse_bootstrap(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """`host:port,host:port`, as one text or several; IPv6 in brackets."""
    words = servers.split(",") if isinstance(servers, str) else [word for text in servers for word in text.split(",")]
    addresses = tuple(_parse_address(word.strip()) for word in words if word.strip())
    if not addresses:
        raise ConfigError("bootstrap.servers names no broker")
    return addresses


def _parse_address(word: str) -> Address:
    place = word.rpartition("://")[2]
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers: {word!r} is not HOST:PORT")
    return Address(host, int(port))
