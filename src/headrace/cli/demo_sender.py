"""An audited sender of web-log events, as a program of its own that can be killed. It stops on SIGTERM."""

import signal
import sys
import time

from confluent_kafka import KafkaException

from headrace.audit.producer import AuditedProducer
from headrace.lab import weblog

WINDOW_MS = 10_000
_TICK_S = 0.02


def send(bootstrap: str, topic: str, name: str, rate_per_s: int, journal: str) -> None:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
    lines = weblog.lines(sum(name.encode()))
    with AuditedProducer(settings, producer_id=name, journal=journal, window_ms=WINDOW_MS) as producer:
        began_s, sent = time.monotonic(), 0
        while not told:
            due = int((time.monotonic() - began_s) * rate_per_s)
            for line in (next(lines) for _ in range(due - sent)):
                producer.produce(topic, line, key=weblog.host_of(line))
            sent = due
            producer.poll(0)
            time.sleep(_TICK_S)


if __name__ == "__main__":
    bootstrap, topic, name, rate, journal = sys.argv[1:]
    try:
        send(bootstrap, topic, name, int(rate), journal)
    except KafkaException as error:
        sys.exit(str(error))
