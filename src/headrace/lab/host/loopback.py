"""How much goes from one process to another over loopback: TCP, one connection, as a client on a broker's host has it.

The receiver is a process of its own and looks at nothing. Run as a module it is that process: it prints its port, takes
one connection, and tells how many bytes came over it.
"""

import contextlib
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from headrace.lab.errors import LabError
from headrace.loopback import hasten

_HOST: Final = "127.0.0.1"
_BLOCK_BYTES: Final = 256 << 10
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """MB are 10^6 bytes."""

    size_bytes: int
    elapsed_s: float

    @property
    def mb_per_s(self) -> float:
        return self.size_bytes / self.elapsed_s / 1e6

    def to_json(self) -> dict[str, Any]:
        return {"mb_per_s": round(self.mb_per_s, 1), "seconds": round(self.elapsed_s, 3)}


def measure_loopback(*, duration_s: float) -> Bandwidth:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace.lab.host.loopback"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        process_group=0,
    ) as receiver:
        assert receiver.stdout is not None
        try:
            port = receiver.stdout.readline()
            if not port:
                raise LabError("the receiver of the loopback measurement did not start")
            began_s = time.monotonic()
            _send(int(port), until_s=began_s + duration_s)
            received = int(receiver.stdout.readline() or 0)
            return Bandwidth(size_bytes=received, elapsed_s=time.monotonic() - began_s)
        finally:
            receiver.kill()


def _send(port: int, *, until_s: float) -> None:
    block = bytes(_BLOCK_BYTES)
    with socket.create_connection((_HOST, port), timeout=_TIMEOUT_S) as connection:
        hasten(connection)
        while time.monotonic() < until_s:
            connection.sendall(block)


def main() -> None:
    with socket.create_server((_HOST, 0)) as listener:
        listener.settimeout(_TIMEOUT_S)
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        connection, _ = listener.accept()
    total, buffer = 0, bytearray(_BLOCK_BYTES * 4)
    with connection, contextlib.suppress(ConnectionResetError):
        connection.settimeout(_TIMEOUT_S)
        while received := connection.recv_into(buffer):
            total += received
    sys.stdout.write(f"{total}\n")


if __name__ == "__main__":
    main()
