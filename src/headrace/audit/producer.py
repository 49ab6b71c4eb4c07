"""`AuditedProducer`: confluent-kafka's producer, whose every message is stamped and accounted for.

    with AuditedProducer({"bootstrap.servers": "localhost:9092"}, producer_id="web-7", journal="audit") as producer:
        producer.produce("clicks", b"...", on_delivery=print)
        producer.poll(0)

Made for programs that have a `confluent_kafka.Producer`: the same settings, `produce`, `poll`, `flush` and callbacks.
What is acknowledged is counted, what the client or the cluster refused is not, and what the client gave up on is in
doubt. What would leave the counts without meaning is refused: acks=0, transactions, reports of errors only.

Close it: a sender that never says its last word looks like one that was killed. With a journal, the next one to start
with the same directory says it.
"""

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, Message, Producer

from headrace.audit.accountant import PUBLISH_EVERY_S, Accountant
from headrace.audit.audit_topic import PUBLISH_TIMEOUT_S
from headrace.audit.messages import AUDIT_TOPIC
from headrace.audit.spans import Span, State
from headrace.audit.stamps import STAMP_HEADER
from headrace.audit.windows import WINDOW_MS, window_of
from headrace.client.reaching import make_client
from headrace.errors import ConfigError
from headrace.wire.settings import Config, librdkafka_config

OnDelivery = Callable[[KafkaError | None, Message], None]
HeaderValue = str | bytes | None
Headers = Mapping[str, HeaderValue] | Sequence[tuple[str, HeaderValue]]

CLOSE_TIMEOUT_S: Final = 30.0
_PURGE_S: Final = 5.0

# What these say is that nothing was written. Whatever else a client gives up with may have been written all the same.
_REFUSALS: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class AuditedProducer:
    """May be used by many threads. Connects when it is made, and belongs to whoever closes it."""

    def __init__(
        self,
        config: Config,
        *,
        producer_id: str,
        journal: str | os.PathLike[str] | None = None,
        window_ms: int = WINDOW_MS,
        audit_topic: str = AUDIT_TOPIC,
        publish_every_s: float = PUBLISH_EVERY_S,
        publish_timeout_s: float = PUBLISH_TIMEOUT_S,
        host: str | None = None,
    ) -> None:
        """`config` is the client's own. `producer_id` names this sender; of one name only one may live at a time.

        `journal` is a directory on a local disk, of this sender alone, from which its next life tells what this one had
        sent if it does not live to tell.
        """
        settings = librdkafka_config(config=config)
        _check(settings)
        self._on_delivery: OnDelivery | None = settings.pop("on_delivery", None)
        self._raw = make_client(Producer, settings)
        self._audit = Accountant(
            settings,
            producer_id=producer_id,
            journal=journal,
            window_ms=window_ms,
            audit_topic=audit_topic,
            publish_every_s=publish_every_s,
            publish_timeout_s=publish_timeout_s,
            host=host,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._raw)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """As the client's own. The timestamp, or now, is the event time, which decides about the window.

        Now and then, at the latest with the first message of a window, this waits for the audit topic, and raises
        AuditUnavailable where that does not answer: a message that would go uncounted is not sent.
        """
        if self._audit.is_closed:
            raise ConfigError("this producer is closed")
        if timestamp < 0:
            raise ConfigError(f"timestamp={timestamp}: an event time is not before 1970")
        time_ms = timestamp or time.time_ns() // 1_000_000
        sender = self._audit.sender
        span, sequence = sender.take(topic, window_of(time_ms, length_ms=self._audit.window_ms))
        stamped = list(headers.items() if isinstance(headers, Mapping) else headers or ())
        stamped.append((STAMP_HEADER, f"{span.prefix}{sequence};{time_ms}"))
        then = on_delivery or callback or self._on_delivery
        try:
            self._raw.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=functools.partial(self._delivered, span, sequence, then),
                timestamp=time_ms,
                headers=stamped,
            )
        except Exception:  # A full queue, a message too large: the client has not taken it.
            sender.give_back(span, sequence)
            raise

    def poll(self, timeout: float = -1) -> int:
        return self._raw.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        return self._raw.flush(timeout)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        self._raw.purge(in_queue, in_flight, blocking)

    def publish(self) -> None:
        """Tell the audit topic now what has been acknowledged so far, which happens by itself every few seconds."""
        self._audit.publish()

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Deliver what there is, and tell the audit for the last time. What is not delivered by then is given up."""
        if self._audit.is_closed:
            return
        if self._raw.flush(timeout_s):
            self._raw.purge()
            self._raw.flush(_PURGE_S)
        self._audit.close()

    def _delivered(
        self, span: Span, sequence: int, then: OnDelivery | None, error: KafkaError | None, message: Message
    ) -> None:
        if error is None:
            state = State.ACKNOWLEDGED
        else:
            state = State.REFUSED if error.code() in _REFUSALS else State.IN_DOUBT
        self._audit.sender.settle(span, sequence, state)
        if then is not None:
            then(error, message)


def _check(settings: Mapping[str, Any]) -> None:
    if str(settings.get("acks", settings.get("request.required.acks", "all"))) == "0":
        raise ConfigError("acks=0: nothing would ever be acknowledged, and nothing could be counted")
    if str(settings.get("delivery.report.only.error", "false")).lower() == "true":
        raise ConfigError("delivery.report.only.error: what is acknowledged could not be counted")
    if "transactional.id" in settings:
        raise ConfigError("transactional.id: what a transaction holds is decided later than the audit counts it")
