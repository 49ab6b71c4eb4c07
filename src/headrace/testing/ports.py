"""Ports that can be come back to: free, and none that the kernel gives to an outgoing connection.

A broker that is to listen on its old port after a restart must not have got it by port 0. Such a port is of the range
that connections get theirs from, and a client that tries again and again to reach the broker will in the end be given
the broker's own port, and so be connected with itself.
"""

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError

_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_FIRST_ELSEWHERE: Final = 49152  # By the standard, which macOS follows.
_FIRST: Final = 10_000
_ATTEMPTS_MAX: Final = 1000


def lasting_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago, all different."""
    below = range(_FIRST, _ephemeral_first())
    # Some machines give away nearly all of them: there a port like any other has to do.
    candidates = random.SystemRandom().choices(below, k=_ATTEMPTS_MAX) if below else [0] * count
    ports: list[int] = []
    with ExitStack() as taken:
        for candidate in candidates:
            sock = taken.enter_context(socket.socket())
            try:
                sock.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            ports.append(sock.getsockname()[1])
            if len(ports) == count:
                return ports
    raise HeadraceError(f"found only {len(ports)} of {count} free ports from {below.start} to {below.stop}")


def _ephemeral_first() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except OSError:
        return _EPHEMERAL_FIRST_ELSEWHERE
