"""Glances: what cannot be counted and must be seen, some times a second at moments that chance chooses.

The kernel counts how long a thread ran and waited for a CPU, but neither how long it was stopped (by a signal, as
`kill -STOP` does) nor how long it waited for a disk, nor for how long bytes waited in a socket. A glance sees who does
so now; the share of glances is the share of time. Glances at regular moments would see nothing of what is as regular.

Here is what glances come to; `thread_states` and `Queues.now` look.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.lab.readings import sockets

STOPPED: Final = "T"  # A process that is traced has a 't' of its own: that is not it.
ON_DISK: Final = "D"


class Queues(NamedTuple):
    """What waits in sockets."""

    client: sockets.Waiting
    broker: sockets.Waiting | None  # None where its sockets are not to be seen: it is elsewhere, or somebody else's.

    @classmethod
    def now(cls, pids: Iterable[int], *, client_inodes: set[int], broker_inodes: set[int]) -> Self:
        found = sockets.in_namespaces_of(pids)
        broker = sockets.waiting(found, broker_inodes) if broker_inodes else None
        return cls(sockets.waiting(found, client_inodes), broker)

    @property
    def is_underway(self) -> bool:
        return self.client.unsent_bytes > 0 and self.broker is not None and not self.broker.unread_bytes

    @property
    def unread_bytes(self) -> int:
        return 0 if self.broker is None else self.broker.unread_bytes


class Glance(NamedTuple):
    states: Mapping[int, Mapping[int, str]]  # By process and thread.
    queues: Queues | None = None  # Not always looked at: the kernel goes through a table of all connections for it.


def thread_states(pid: int) -> dict[int, str]:
    """Of one process; none where it is gone."""
    found = {}
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found[int(name)] = parse_state(Path(f"/proc/{pid}/task/{name}/stat").read_text())
    return found


def parse_state(stat: str) -> str:
    return stat[stat.rindex(")") + 2]


class Seen(NamedTuple):
    """Shares of the glances of a while."""

    stopped: Mapping[int, float]  # By process.
    on_disk: Mapping[int, float]  # By thread.
    client_unsent_bytes: float  # In the mean.
    broker_unread_bytes: float
    underway_share: float  # Bytes waited to leave the client while the broker had nothing left to read.
    unread_share: float  # Bytes had reached the broker, which did not read them.


def seen(glances: Sequence[Glance]) -> Seen:
    stopped: Counter[int] = Counter()
    on_disk: Counter[int] = Counter()
    looks: Counter[int] = Counter()  # Of processes and of threads: their ids are of one kind, and a process's is that
    # of its first thread, which lives as long.
    for glance in glances:
        for pid, threads in glance.states.items():
            looks.update({pid, *threads})
            stopped[pid] += threads.get(pid) == STOPPED
            on_disk.update(thread for thread, state in threads.items() if state == ON_DISK)
    queues = [glance.queues for glance in glances if glance.queues is not None]
    count = len(queues) or 1
    return Seen(
        stopped={pid: times / looks[pid] for pid, times in stopped.items()},
        on_disk={thread: times / looks[thread] for thread, times in on_disk.items()},
        client_unsent_bytes=sum(one.client.unsent_bytes for one in queues) / count,
        broker_unread_bytes=sum(one.unread_bytes for one in queues) / count,
        underway_share=sum(one.is_underway for one in queues) / count,
        unread_share=sum(one.unread_bytes > 0 for one in queues) / count,
    )
