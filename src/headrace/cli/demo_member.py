"""A member of the demo's consumer group, as a program of its own: a stock client that can be killed.

It writes a line for every message that it read, and commits only what it has written: now and then, and whenever a
partition is taken away, so that only who follows one that was killed reads anything again. It stops on SIGTERM.
"""

import signal
import sys
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

_HEARTBEAT_MS: Final = 300
_COMMIT_EVERY_MESSAGES: Final = 500


def digest_of(key: bytes, value: bytes) -> str:
    return blake2b(key + b"\0" + value, digest_size=8).hexdigest()


def read(bootstrap: str, group: str, topic: str, name: str, report: Path, *, session_timeout_ms: int) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    # The group took it for dead a moment ago: at least once is what it promises.
    moved_on = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    written: dict[int, int] = {}  # Up to here, in the partitions that are its own.
    uncommitted = 0

    def due(partitions: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(topic, number, written[number]) for number in partitions if number in written]

    def on_revoke(_: Consumer, taken: list[Any]) -> None:
        try:
            if offsets := due(one.partition for one in taken):
                consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() not in moved_on:
                raise
        on_lost(consumer, taken)

    def on_lost(_: Consumer, lost: list[Any]) -> None:
        """Others go on from where it last committed."""
        for one in lost:
            written.pop(one.partition, None)

    consumer.subscribe([topic], on_revoke=on_revoke, on_lost=on_lost)
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
                written |= {message.partition(): message.offset() + 1 for message in polled}
                uncommitted += len(lines)
            if written and uncommitted >= _COMMIT_EVERY_MESSAGES:
                consumer.commit(offsets=due(written), asynchronous=True)
                uncommitted = 0
    consumer.close()


if __name__ == "__main__":
    bootstrap, group, topic, name, report, session_timeout_ms = sys.argv[1:]
    read(bootstrap, group, topic, name, Path(report), session_timeout_ms=int(session_timeout_ms))
