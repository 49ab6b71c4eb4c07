"""One consumer with message streams as a process, which writes down everything that happens to it.

    python -m tests.proofs.stream_member BOOTSTRAP GROUP TOPIC STREAMS FILE

Each line of the file is one JSON object, written by one call, so that a kill leaves whole lines. `at` is the machine's
monotonic clock, the same in all processes:

    {"at", "change": "gained", "partitions": [...], "generation"}    also "released" and "lost"
    {"partition", "ownership", "offset", "value"}                    a message was delivered
    {"sent", "partition", "offset", "error": null or its name, "text"}    a commit, and what became of it
    {"tried": 4}                                                     so many commits were tried on SIGUSR1

SIGTERM: finish what is in hand, commit, leave. SIGUSR1: commit the last message of each partition, be it ours or not.
"""

import json
import os
import signal
import struct
import sys
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

import confluent_kafka

from headrace.client import Change, Consumer, MessageStream, Partition, Received
from headrace.client import consumer as consumer_module

SESSION_MS: Final = 3_000
COMMIT_EVERY_S: Final = 0.2
COMMIT_EVERY: Final = 50  # And by hand every so many messages.
CONFIG: Final = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 200,
    "max.poll.interval.ms": 10_000,
    "fetch.wait.max.ms": 50,
}
ORDERS: Final = {signal.SIGTERM, signal.SIGUSR1}
JOIN_S: Final = 20.0


class KnownConsumer(confluent_kafka.Consumer):
    """The library's consumer, where a listener can ask it for its generation."""

    made: "KnownConsumer"

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        KnownConsumer.made = self

    def generation(self) -> int:
        """Which the library tells only inside of what it would hand to a transaction."""
        metadata: bytes = self.consumer_group_metadata()
        assert metadata.startswith(b"CGMDv2:"), metadata
        (generation,) = struct.unpack_from("=i", metadata, len(b"CGMDv2:"))
        return int(generation)


class Diary:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, **event: Any) -> None:
        os.write(self._file, json.dumps(event).encode() + b"\n")


class Member:
    def __init__(self, bootstrap: str, group: str, diary: Diary) -> None:
        self._diary = diary
        self._held: dict[Partition, Received] = {}
        self.consumer = Consumer(
            bootstrap, group, commit_every_s=COMMIT_EVERY_S, config=CONFIG, listener=self._note_change
        )

    def _note_change(self, change: Change, partitions: frozenset[Partition]) -> None:
        self._diary.write(
            at=time.monotonic(),
            change=change.value,
            partitions=sorted(one.partition for one in partitions),
            generation=KnownConsumer.made.generation(),
        )

    def read(self, stream: MessageStream) -> None:
        for message in stream:
            self._diary.write(
                partition=message.partition,
                ownership=message.claim.ownership,
                offset=message.offset,
                value=(message.value or b"").decode(),
            )
            self._held[message.source] = message
            if message.offset % COMMIT_EVERY == 0:
                self.commit(message)

    def commit(self, message: Received) -> "Future[None]":
        sent_s = time.monotonic()
        answer = self.consumer.commit_async(message)
        answer.add_done_callback(partial(self._note_commit, message, sent_s))
        return answer

    def _note_commit(self, message: Received, sent_s: float, answer: "Future[None]") -> None:
        error = answer.exception()
        self._diary.write(
            sent=sent_s,
            partition=message.partition,
            offset=message.offset + 1,
            error=None if error is None else type(error).__name__,
            text=str(error),
        )

    def commit_all_held(self) -> None:
        answers = [self.commit(message) for message in list(self._held.values())]
        for answer in answers:
            answer.exception()
        self._diary.write(tried=len(answers))


def main() -> None:
    bootstrap, group, topic, streams, path = sys.argv[1:]
    consumer_module.RawConsumer = KnownConsumer  # type: ignore[attr-defined, assignment]
    signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)  # Orders wait until they are asked for.
    member = Member(bootstrap, group, Diary(path))
    made = member.consumer.create_message_streams({topic: int(streams)})[topic]
    readers = [threading.Thread(target=member.read, args=(stream,)) for stream in made]
    for reader in readers:
        reader.start()
    while signal.sigwait(ORDERS) is signal.SIGUSR1:
        member.commit_all_held()
    member.consumer.stop()
    for reader in readers:
        reader.join(JOIN_S)
    member.consumer.close()


if __name__ == "__main__":
    main()
