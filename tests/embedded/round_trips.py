"""`python round_trips.py HOST:PORT`: how many milliseconds the middle one of a hundred requests takes.

A process of its own, which a busy thread of the test's does not keep from asking: what it waits for is the broker.
"""

import socket
import struct
import sys
import time
from statistics import median

REQUESTS = 100
PAUSE_S = 0.002
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main(bootstrap: str) -> None:
    host, port = bootstrap.split(":")
    took_ms = []
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as answers:
            for _ in range(REQUESTS):
                # Of requests without a pause between them only the first would wait: the broker's thread has the
                # interpreter again before another has woken up.
                time.sleep(PAUSE_S)
                began_s = time.perf_counter()
                connection.sendall(_API_VERSIONS)
                (size,) = struct.unpack(">i", answers.read(4))
                assert len(answers.read(size)) == size
                took_ms.append((time.perf_counter() - began_s) * 1000)
    print(median(took_ms))


if __name__ == "__main__":
    main(sys.argv[1])
