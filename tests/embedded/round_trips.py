"""`python round_trips.py HOST:PORT COUNT`: how many of so many requests were answered, one after the other.

A process of its own, which a busy thread of the test's does not keep from asking: what it waits for is the broker.
"""

import socket
import struct
import sys
import time

_PAUSE_S = 0.002
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main(bootstrap: str, count: int) -> None:
    host, port = bootstrap.split(":")
    answered = 0
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as answers:
            for _ in range(count):
                # Of requests without a pause between them only the first would wait: the broker's thread has the
                # interpreter again before another has woken up.
                time.sleep(_PAUSE_S)
                connection.sendall(_API_VERSIONS)
                (size,) = struct.unpack(">i", answers.read(4))
                answered += len(answers.read(size)) == size
    print(answered)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
