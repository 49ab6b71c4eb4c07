"""Sends numbered records at a steady rate until SIGTERM, whatever becomes of the broker, and then tells how many.

python -m tests.proofs.numbered_sender BOOTSTRAP TOPIC RECORDS_PER_S
"""

import signal
import sys
import threading
import time

import numpy as np

from headrace import columnar
from headrace.wire.errors import Unavailable
from tests.proofs.numbered import made_of

_TURNS_PER_S = 10


def send(bootstrap: str, topic: str, records_per_s: int, stop: threading.Event) -> int:
    sent, began_s = 0, time.monotonic()
    with open_writer(bootstrap, topic) as writer:
        while not stop.wait(began_s + sent / records_per_s - time.monotonic()):
            count = records_per_s // _TURNS_PER_S
            for batch in made_of(np.arange(sent, sent + count)).to_batches():
                writer.write(batch)
            writer.flush()  # Each turn, so that no partition falls far behind the others.
            sent += count
    return sent


def open_writer(bootstrap: str, topic: str) -> columnar.Writer:
    """Waits for a broker that is away; later the writer does so itself."""
    while True:
        try:
            return columnar.Writer(bootstrap, topic, partition="partition")
        except Unavailable:
            time.sleep(1 / _TURNS_PER_S)


if __name__ == "__main__":
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    bootstrap, topic, rate = sys.argv[1:]
    print(send(bootstrap, topic, int(rate), over))
