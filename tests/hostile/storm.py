"""A storm of mutated frames against one node, many connections at a time.

python -m tests.hostile.storm --count 100000 [--first SEED]
"""

import argparse
import select
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headrace.testing.node_process import NodeProcess
from tests.hostile.mutations import honest_bodies, mutated
from tests.hostile.target import resident_mb, under_attack

CONNECTIONS = 32
# A frame that promises more than it brings is waited for by the node; the attacker leaves after this long.
PATIENCE_S = 0.05
MEMORY_MB_MAX = 220.0


class Outcome(NamedTuple):
    frames: int
    answered: int
    closed: int
    left_waiting: int
    honest_rounds: int
    honest_slowest_s: float
    memory_mb: float
    seconds: float


def storm(*, first: int, count: int, progress: Callable[[int], None] = lambda done: None) -> Outcome:
    """Every seed from `first` on, each on a connection of its own; AssertionError if anybody else noticed."""
    bodies = honest_bodies()
    answered = closed = waiting = 0
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-storm-") as directory:
        node = NodeProcess(Path(directory) / "data")
        with node:
            host, port = node.bootstrap.rsplit(":", 1)
            with under_attack(node) as honest:
                for start in range(first, first + count, CONNECTIONS):
                    seeds = range(start, min(start + CONNECTIONS, first + count))
                    sockets = [_attack(host, int(port), mutated(seed, bodies)) for seed in seeds]
                    for ended in _outcomes(sockets):
                        answered += ended == "answered"
                        closed += ended == "closed"
                        waiting += ended == "waiting"
                    assert honest.failure is None, f"seeds {seeds}: {honest.failure}"
                    progress(len(seeds))
            memory_mb = resident_mb(node.pid)
            node.stop()
    assert memory_mb < MEMORY_MB_MAX, f"{memory_mb:.0f} MB resident after the storm"
    return Outcome(
        count, answered, closed, waiting, honest.rounds, honest.slowest_s, memory_mb, time.monotonic() - began_s
    )


def _attack(host: str, port: int, frame: bytes) -> socket.socket:
    sock = socket.create_connection((host, port), 5)
    sock.setblocking(False)
    with suppress(OSError):  # Closed before it was all sent: also an answer.
        sock.send(frame)
    return sock


def _outcomes(sockets: list[socket.socket]) -> list[str]:
    open_sockets = set(sockets)
    outcomes = []
    deadline_s = time.monotonic() + PATIENCE_S
    while open_sockets and (left_s := deadline_s - time.monotonic()) > 0:
        for sock in select.select(list(open_sockets), [], [], left_s)[0]:
            try:
                outcomes.append("answered" if sock.recv(1 << 16) else "closed")
            except OSError:
                outcomes.append("closed")
            open_sockets.discard(sock)
    outcomes += ["waiting"] * len(open_sockets)
    for sock in sockets:
        sock.close()
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    print(storm(first=arguments.first, count=arguments.count))


if __name__ == "__main__":
    main()
