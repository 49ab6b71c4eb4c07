"""The librdkafka engine: confluent-kafka's producer, a call and a callback for each message.

A message counts as sent when `produce` has taken it, and as answered when its callback runs: both as an application
sees them. librdkafka batches, sends and tries again as it was told. With acks=0 the callback says that the message was
given to the network, and no more.
"""

import time
from array import array
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from headrace.lab.client_statistics import parse_statistics
from headrace.lab.engines import Terms
from headrace.lab.errors import LabError
from headrace.lab.payloads import Payloads
from headrace.lab.sender_clock import SenderClock
from headrace.lab.timeline import Timeline

Int64s = npt.NDArray[np.int64]

_TOPIC_WAIT_S: Final = 5.0  # For a topic that the broker creates when first asked for it.
_MILLISECOND_NS: Final = 1_000_000
_ANY_PARTITION: Final = -1


def producer_settings(terms: Terms) -> dict[str, Any]:
    """The terms in librdkafka's words."""
    settings: dict[str, Any] = {
        "acks": terms.acks,
        "batch.size": terms.batch_bytes,
        "linger.ms": terms.linger_ms,
        "compression.type": terms.compression,
        "queue.buffering.max.kbytes": -(-terms.buffer_bytes // 1024),
        "queue.buffering.max.messages": 0,  # Bytes alone are the limit.
    }
    if terms.batch_messages is not None:
        settings["batch.num.messages"] = terms.batch_messages
    return settings


class LibrdkafkaEngine:
    offer_max = 256  # About half a millisecond.

    def __init__(
        self,
        settings: Mapping[str, str],
        topic: str,
        terms: Terms,
        payloads: Payloads,
        timeline: Timeline,
        clock: SenderClock,
        *,
        partition: int | None,
        timeout_s: float,
    ) -> None:
        """`settings` are librdkafka's, and win over the terms."""
        self._topic = topic
        self._partition = _ANY_PARTITION if partition is None else partition
        self._payloads = payloads
        self._timeline = timeline
        self._clock = clock
        self._record = timeline.unanswered if terms.acks == "0" else timeline.acknowledged
        self._held: list[bytes] = []  # Taken from the payloads, and there was no room for them.
        self._answered = array("q")  # Planned, sent, answered, bytes; planned, ...
        self._trouble: KafkaError | None = None
        self.throttled_ns = 0
        self._statistics: list[dict[str, Any]] = []
        heard = {
            "error_cb": self._note_trouble,
            "throttle_cb": self._note_throttle,
            "stats_cb": self._note_statistics,  # Where the settings ask for statistics.
        }
        try:
            self._producer = Producer({"log_level": 0, **heard, **producer_settings(terms), **settings})
        except KafkaException as error:
            raise LabError(f"librdkafka does not take these settings: {error.args[0].str()}") from error
        self._wait_topic(timeout_s)

    def _note_trouble(self, error: KafkaError) -> None:
        self._trouble = error

    def _note_statistics(self, text: str) -> None:
        self._statistics.append(parse_statistics(text))

    def pop_statistics(self) -> list[dict[str, Any]]:
        told, self._statistics = self._statistics, []
        return told

    def _note_throttle(self, event: ThrottleEvent) -> None:
        self.throttled_ns += round(event.throttle_time * 1e9)

    def _wait_topic(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + min(timeout_s, _TOPIC_WAIT_S)
        while True:
            try:
                error = self._producer.list_topics(self._topic, timeout=timeout_s).topics[self._topic].error
            except KafkaException as failure:
                raise LabError(f"cannot reach the cluster: {self._trouble or failure.args[0]}") from failure
            if error is None:
                return
            missing = error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}
            if not missing or time.monotonic() > deadline_s:
                hint = f" (headrace topics create {self._topic})" if missing else ""
                raise LabError(f"topic {self._topic!r}: {error.str()}{hint}")
            time.sleep(0.1)

    def offer(self, planned: Int64s, now_ns: int) -> int:
        if len(self._held) < len(planned):
            self._held += self._payloads.take(len(planned) - len(self._held))
        stamps_ms = self._clock.utc_ms(planned).tolist()
        produce, monotonic_ns, sent = self._producer.produce, time.monotonic_ns, array("q")
        done, topic, partition = self._done, self._topic, self._partition
        try:
            for planned_ns, value, stamp_ms in zip(planned.tolist(), self._held, stamps_ms, strict=False):
                sent_ns = monotonic_ns()
                answered = partial(done, planned_ns, sent_ns)
                produce(topic, value, partition=partition, on_delivery=answered, timestamp=stamp_ms)
                sent.append(sent_ns)
        except BufferError:
            pass  # The rest stays due.
        except KafkaException as error:
            raise LabError(f"a message of {len(self._held[len(sent)])} bytes: {error.args[0].str()}") from error
        taken = len(sent)
        if taken:
            sent_at = np.array(sent, np.int64) - self._clock.start_ns
            self._timeline.sent(planned[:taken], sent_at, sum(map(len, self._held[:taken])))
            del self._held[:taken]
        return taken

    def _done(self, planned_ns: int, sent_ns: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._answered.extend((planned_ns, sent_ns, time.monotonic_ns(), len(message)))
        else:
            self._timeline.failed(1, self._clock.now_ns(), error.name())

    def poll(self, now_ns: int) -> None:
        self._producer.poll(0)
        if self._answered:
            rows = np.array(self._answered, np.int64).reshape(-1, 4)
            self._answered = array("q")
            start_ns = self._clock.start_ns
            self._record(rows[:, 0], rows[:, 1] - start_ns, rows[:, 2] - start_ns, int(rows[:, 3].sum()))

    def wait(self, timeout_ns: int) -> None:
        """Its own way of waiting counts whole milliseconds."""
        if timeout_ns < _MILLISECOND_NS:
            time.sleep(timeout_ns / 1e9)
        else:
            self._producer.poll(timeout_ns / 1e9)

    @property
    def deadline_ns(self) -> int | None:
        return None  # Its own thread's business.

    @property
    def outstanding(self) -> int:
        return len(self._producer)

    def hasten(self) -> None:
        self._producer.flush(0)

    def close(self) -> None:
        self._producer.purge()
