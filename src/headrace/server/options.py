"""What the command line asks of a node, parsed but not yet merged with its configuration file.

Only what the caller said: None means 'not said', so that the configuration file and Kafka's defaults can
speak.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace.errors import ConfigError

LOG_LEVELS = ("debug", "info", "warning", "error")


class HostPort(NamedTuple):
    """Where to listen, or what to tell clients. Port 0 asks the kernel for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_host_port(text: str) -> HostPort:
    """`127.0.0.1:9092`, `[::1]:9092`, or `:9092` for every interface."""
    host, colon, port_text = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:9092")
    if not colon or not (port_text.isascii() and port_text.isdecimal()) or int(port_text) > 65535:
        raise ConfigError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
    return HostPort(host, int(port_text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    listen: HostPort | None = None
    advertise: HostPort | None = None
    data: Path | None = None
    config_file: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)  # Kafka's names; these win over the file.
    http: HostPort | None = None
    log_level: str = "info"
