"""What waits in the TCP sockets of processes, and who listens on a port, from /proc/net.

Bytes that wait tell two slownesses apart that look alike from both ends. What a sender's kernel holds has not reached
the other side; what a receiver's kernel holds has, and its process does not read it.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from headrace.lab.readings import process_tree

_TABLES: Final = ("tcp", "tcp6")
_ESTABLISHED: Final = "01"
_LISTENING: Final = "0A"


class TcpSocket(NamedTuple):
    inode: int
    local_port: int
    is_listening: bool
    unsent_bytes: int  # Given to the kernel, and not acknowledged by the other side's.
    unread_bytes: int  # Acknowledged, and not read by the process.


def parse_tcp(table: str) -> Iterator[TcpSocket]:
    """Those that listen or are connected, of /proc/net/tcp or tcp6."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        state = fields[3]
        if state in (_ESTABLISHED, _LISTENING):
            unsent, unread = fields[4].split(":")
            yield TcpSocket(
                inode=int(fields[9]),
                local_port=int(fields[1].rpartition(":")[2], 16),
                is_listening=state == _LISTENING,
                unsent_bytes=int(unsent, 16),
                unread_bytes=int(unread, 16),
            )


def now(process: int | str = "self") -> list[TcpSocket]:
    """Of the network namespace that a process is in; none off Linux, or where it is gone."""
    found: list[TcpSocket] = []
    for name in _TABLES:
        with suppress(OSError):
            found += parse_tcp(Path(f"/proc/{process}/net/{name}").read_text())
    return found


def in_namespaces_of(pids: Iterable[int]) -> list[TcpSocket]:
    """Of all network namespaces that these are in: a broker may be in another than its client and this process."""
    members: dict[str, int | str] = {}
    asked: list[int | str] = ["self", *pids]
    for pid in asked:
        with suppress(OSError):  # Gone, or somebody else's.
            members.setdefault(os.readlink(f"/proc/{pid}/ns/net"), pid)
    return [one for member in members.values() for one in now(member)]


class Waiting(NamedTuple):
    unsent_bytes: int
    unread_bytes: int


def waiting(sockets: Iterable[TcpSocket], inodes: set[int]) -> Waiting:
    """In the connections among these."""
    ours = [one for one in sockets if one.inode in inodes and not one.is_listening]
    return Waiting(sum(one.unsent_bytes for one in ours), sum(one.unread_bytes for one in ours))


def listeners(host: str, port: int) -> list[int]:
    """The processes of this machine that listen there, as far as one may see."""
    if not is_here(host):
        return []
    inodes = {one.inode for one in now() if one.is_listening and one.local_port == port}
    if not inodes:
        return []
    return [process.pid for process in process_tree.everyone() if process_tree.sockets(process.pid) & inodes]


def is_here(host: str) -> bool:
    """Whether a name or an address is this machine's: one can bind to it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(address)
            return True
    return False
