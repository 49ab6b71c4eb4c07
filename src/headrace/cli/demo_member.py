"""A member of the demo's consumer group, as a program of its own: a stock client that can be killed.

It writes a line for every message that it read, and commits only what it has written. It stops on SIGTERM.
"""

import signal
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

SESSION_TIMEOUT_MS: Final = 1_500  # As soon as that somebody who was killed is missed.
_COMMIT_EVERY_MESSAGES: Final = 500


def digest_of(key: bytes, value: bytes) -> str:
    return blake2b(key + b"\0" + value, digest_size=8).hexdigest()


def read(bootstrap: str, group: str, topic: str, name: str, report: Path) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    consumer.subscribe([topic])
    uncommitted = 0
    with report.open("wb", buffering=0) as out:
        while not told:
            polled: list[Any] = consumer.consume(200, 0.05)
            lines = []
            for message in polled:
                if message.error() is not None:
                    raise KafkaException(message.error())
                entry = f"{message.partition()} {message.offset()} {digest_of(message.key(), message.value())}\n"
                lines.append(entry.encode())
            if lines:
                out.write(b"".join(lines))
                uncommitted += len(lines)
            if uncommitted >= _COMMIT_EVERY_MESSAGES:
                consumer.commit(asynchronous=True)
                uncommitted = 0
    consumer.close()


if __name__ == "__main__":
    bootstrap, group, topic, name, report = sys.argv[1:]
    read(bootstrap, group, topic, name, Path(report))
