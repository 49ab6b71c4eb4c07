"""A real producer, confluent-kafka's, whose every message and every answer goes into a ledger."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from tests.proofs.ledger import Anomaly, Ledger, Place, encode_message

CLIENT: Final = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,  # The node is back in a moment; no need to wait ten seconds for it.
}
_PRODUCER: Final = {
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.timeout.ms": 0,  # Never give up: what is sent must in the end be there.
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "queue.buffering.max.messages": 20_000,
}
_POLL_EVERY: Final = 64
QUIET_S_MAX: Final = 90.0  # With nothing acknowledged for so long, something is stuck.


class Writer:
    """Idempotent: however often the node dies, each message is to be there once and in order."""

    def __init__(self, number: int, bootstrap: str, ledger: Ledger, settings: Mapping[str, Any]) -> None:
        self._number = number
        self._ledger = ledger
        self._failures: list[str] = []
        self._sent_since_poll = 0
        self.outstanding = 0
        self.acknowledged = 0
        self._producer = Producer(
            {**CLIENT, **_PRODUCER, **settings, "bootstrap.servers": bootstrap, "error_cb": self._on_error}
        )

    def send(self, place: Place, *, size: int) -> bool:
        """False where the producer holds all that it wants to hold; poll, and try again."""
        message = self._ledger.send(self._number, place)

        def on_delivery(error: KafkaError | None, delivered: Any) -> None:
            self.outstanding -= 1
            if error is not None:
                self._failures.append(f"{message} to {place}: {error.str()}")
            else:
                self.acknowledged += 1
                self._ledger.acknowledge(message, place, delivered.offset())

        value = encode_message(message, size=size)
        try:
            self._producer.produce(place.topic, value, partition=place.partition, on_delivery=on_delivery)
        except BufferError:
            self._ledger.unsend(message, place)
            return False
        self.outstanding += 1
        self._sent_since_poll += 1
        if self._sent_since_poll >= _POLL_EVERY:
            self.poll(0)
        return True

    def poll(self, wait_s: float) -> None:
        self._sent_since_poll = 0
        self._producer.poll(wait_s)
        if self._failures:
            raise Anomaly(f"an idempotent producer was refused for good: {self._failures[0]}")

    def _on_error(self, error: KafkaError) -> None:
        # A node that is away is what these proofs are about; what the producer cannot recover from is not.
        if error.fatal():
            self._failures.append(error.str())


def wait_delivered(writers: list[Writer], *, hear: Callable[[], None] = lambda: None) -> None:
    """Until everything sent is acknowledged. `hear` is called between polls."""
    watch = Watch("acknowledged")
    while any(writer.outstanding for writer in writers):
        for writer in writers:
            writer.poll(0.01)
        hear()
        watch.saw(sum(writer.acknowledged for writer in writers))


class Watch:
    """Nothing waits for ever: a number that stands still for too long ends the proof."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = -1
        self._since_s = time.monotonic()

    def saw(self, count: int) -> None:
        now_s = time.monotonic()
        if count != self._count:
            self._count, self._since_s = count, now_s
        elif now_s - self._since_s > QUIET_S_MAX:
            raise Anomaly(f"stuck for {QUIET_S_MAX:.0f} s with {count:,} messages {self._what}")
