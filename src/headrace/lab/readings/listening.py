"""Which process of this machine listens on a port: of a broker that somebody else has started."""

from contextlib import suppress
from pathlib import Path
from typing import Final

from headrace.lab.readings.process_tree import everyone, sockets

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING: Final = "0A"


def parse_listening(table: str, port: int) -> set[int]:
    """The inodes of sockets that listen on a port, by a table of /proc/net."""
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        local, state, inode = fields[1], fields[3], fields[9]
        if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
            found.add(int(inode))
    return found


def process_listening_on(port: int) -> int | None:
    """None where nobody does whom this process may see."""
    inodes: set[int] = set()
    for table in _TABLES:
        with suppress(OSError):
            inodes |= parse_listening(table.read_text(), port)
    if not inodes:
        return None
    return next((process.pid for process in everyone() if inodes & sockets(process.pid)), None)
