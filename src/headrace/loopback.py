"""Connections that stay on this machine.

No network is there to be kind to, yet Linux paces them like any other. Under BBR, the default of many servers, bulk
data from one process to another waits for timers: a reader of large answers is woken over and over, and both sides
pay twice the CPU. Reno, which every Linux has and lets everybody choose, sends what the window allows.
"""

import socket
from contextlib import suppress
from typing import Final

_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)


def hasten(connected: socket.socket) -> None:
    """Take the brakes off a TCP connection between two ends of one address; leave any other as it is."""
    if _CONGESTION is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # Whatever is wrong with the connection itself, its first use tells.
    with suppress(OSError):
        if connected.getpeername()[0] == connected.getsockname()[0]:
            connected.setsockopt(socket.IPPROTO_TCP, _CONGESTION, b"reno")
