"""An audited sender of web-log events at a set rate, for `bench.delay`; told to stop, it tells how many it sent.

    python -m bench.delay_sender BOOTSTRAP TOPIC NAME RATE_PER_S JOURNAL

An event's time is the moment at which it was due, not the one at which the sender came to it: what holds up the sender
is part of the delay.
"""

import json
import signal
import sys
import time
from typing import Final

from headrace.audit.producer import AuditedProducer
from headrace.lab import weblog

_TICK_S: Final = 0.01
_FULL_S: Final = 0.05  # How long a sender whose queue is full waits for room.


def due_ms(began_ms: int, number: int, rate_per_s: int) -> int:
    return began_ms + number * 1000 // rate_per_s


def send(bootstrap: str, topic: str, name: str, rate_per_s: int, journal: str) -> int:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 10, "log_level": 0}
    lines = weblog.lines(sum(name.encode()))
    with AuditedProducer(settings, producer_id=name, journal=journal) as producer:
        began_ms, sent = time.time_ns() // 1_000_000, 0
        is_last = False
        while not is_last:
            is_last = bool(told)  # Then all that is due by now goes out, too.
            due = (time.time_ns() // 1_000_000 - began_ms) * rate_per_s // 1000
            while sent < due:
                line = next(lines)
                stamp_ms = due_ms(began_ms, sent, rate_per_s)
                try:
                    producer.produce(topic, line, key=weblog.host_of(line), timestamp=stamp_ms)
                except BufferError:
                    producer.poll(_FULL_S)
                else:
                    sent += 1
            producer.poll(0)
            time.sleep(_TICK_S)
    return sent


if __name__ == "__main__":
    bootstrap, topic, name, rate, journal = sys.argv[1:]
    print(json.dumps({"sent": send(bootstrap, topic, name, int(rate), journal)}), flush=True)
