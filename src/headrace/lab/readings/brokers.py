"""Which processes of this machine are the brokers that a run sends to."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from headrace.lab.readings import sockets

_DEFAULT_PORT = 9092


def local_brokers(bootstrap: str, *, metrics: Sequence[str] = ()) -> tuple[int, ...]:
    """Those that listen where metrics are read, or else where clients begin; none of a cluster that is elsewhere.

    Metrics come first because they are a broker's own: at the address where clients begin there may be a proxy.
    """
    return _listening(map(_metrics_address, metrics)) or _listening(map(_broker_address, bootstrap.split(",")))


def _listening(addresses: Iterable[tuple[str, int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(pid for host, port in addresses for pid in sockets.listeners(host, port)))


def _metrics_address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _broker_address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text.strip().rpartition('://')[2]}")
    return parts.hostname or "", parts.port or _DEFAULT_PORT
